// The compiler's sample kernels in OpenCL C, for comparison of registers and instructions.
#define LANE __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void vector_add(global const float *a, global const float *b, global float *out, uint n) {
    uint i = GROUP * 256 + LANE;
    if (i < n) out[i] = a[i] + b[i];
}

kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void axpy4(global const float4 *x, global float4 *y, float a) {
    uint i = GROUP * 256 + LANE;
    float4 v = x[i], w = y[i];
    y[i] = (float4)(__builtin_fmaf(v.x, a, w.x), __builtin_fmaf(v.y, a, w.y), __builtin_fmaf(v.z, a, w.z),
                    __builtin_fmaf(v.w, a, w.w));
}

static float lane_xor(float x, int mask) {
    int v = __builtin_bit_cast(int, x);
    switch (mask) {
    case 1: v = __builtin_amdgcn_update_dpp(0, v, 0x161, 0xf, 0xf, 1); break;
    case 2: v = __builtin_amdgcn_update_dpp(0, v, 0x162, 0xf, 0xf, 1); break;
    case 4: v = __builtin_amdgcn_update_dpp(0, v, 0x164, 0xf, 0xf, 1); break;
    case 8: v = __builtin_amdgcn_update_dpp(0, v, 0x168, 0xf, 0xf, 1); break;
    default: v = __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, 1, 1); break;
    }
    return __builtin_bit_cast(float, v);
}

static float sum_wave(float x) {
    x += lane_xor(x, 1);
    x += lane_xor(x, 2);
    x += lane_xor(x, 4);
    x += lane_xor(x, 8);
    return x + lane_xor(x, 16);
}

static float max_wave(float x) {
    x = __builtin_fmaxf(x, lane_xor(x, 1));
    x = __builtin_fmaxf(x, lane_xor(x, 2));
    x = __builtin_fmaxf(x, lane_xor(x, 4));
    x = __builtin_fmaxf(x, lane_xor(x, 8));
    return __builtin_fmaxf(x, lane_xor(x, 16));
}

static void group_barrier(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

static float sum_group(float x, local float4 *slots) {
    ((local float *)slots)[LANE >> 5] = sum_wave(x);
    group_barrier();
    float4 a = slots[0], b = slots[1];
    return a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
}

kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void reduce_sum(global const float *x, global float *out, uint n) {
    local float4 slots[2];
    float sum = 0;
    uint i = 0;
    do {
        sum += x[GROUP * n + LANE + i];
        i += 256;
    } while (i < n);
    sum = sum_group(sum, slots);
    if (LANE == 0) out[GROUP] = sum;
}

kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void rms_norm(global const float *x, global const float *weight, global float *out, uint n, float eps) {
    local float4 slots[2];
    float sum = 0;
    uint i = 0;
    do {
        float v = x[GROUP * n + LANE + i];
        sum = __builtin_fmaf(v, v, sum);
        i += 256;
    } while (i < n);
    sum = sum_group(sum, slots);
    float scale = __builtin_amdgcn_rsqf(__builtin_fmaf(sum, __builtin_amdgcn_rcpf((float)n), eps));
    i = 0;
    do {
        uint j = GROUP * n + LANE + i;
        out[j] = x[j] * scale * weight[LANE + i];
        i += 256;
    } while (i < n);
}

kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void softmax_row(global const float *x, global float *out, uint n) {
    local float4 maxima[2], sums[2];
    float top = -3.402823466e+38f, sum = 0;
    uint i = 0;
    do {
        top = __builtin_fmaxf(top, x[GROUP * n + LANE + i]);
        i += 256;
    } while (i < n);
    ((local float *)maxima)[LANE >> 5] = max_wave(top);
    group_barrier();
    float4 a = maxima[0], b = maxima[1];
    top = __builtin_fmaxf(__builtin_fmaxf(__builtin_fmaxf(a.x, a.y), __builtin_fmaxf(a.z, a.w)),
                          __builtin_fmaxf(__builtin_fmaxf(b.x, b.y), __builtin_fmaxf(b.z, b.w)));
    i = 0;
    do {
        uint j = GROUP * n + LANE + i;
        float p = __builtin_amdgcn_exp2f((x[j] - top) * 1.44269504f);
        out[j] = p;
        sum += p;
        i += 256;
    } while (i < n);
    float scale = __builtin_amdgcn_rcpf(sum_group(sum, sums));
    i = 0;
    do {
        out[GROUP * n + LANE + i] *= scale;
        i += 256;
    } while (i < n);
}

typedef struct { half d, dmin; uint scales[3]; uint4 qs[8]; } block_q4;
typedef struct { half d, s; int qs[8]; } block_q8;

static uint2 sub_scales(uint3 s, uint sub) {
    uint shift = (sub & 3) * 8;
    uint a = s.x >> shift, b = s.y >> shift, c = s.z >> shift;
    uint2 low = (uint2)(a & 63, b & 63);
    uint2 high = (uint2)((c & 15) | ((a >> 2) & 0x30), ((c >> 4) & 15) | ((b >> 2) & 0x30));
    return sub < 4 ? low : high;
}

kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void q4k_q8_gemv(global const uint4 *weights, global const block_q8 *activations, global float *out, uint blocks) {
    uint lane = LANE, part = lane & 7, chunk = part >> 1, half_of = part & 1;
    float sum = 0;
    uint i = 0;
    do {
        global const uint4 *block = weights + (GROUP * blocks + i + (lane >> 3)) * 9;
        uint4 header = block[0], q = block[1 + part];
        half2 scales = __builtin_bit_cast(half2, header.x);
        float d = (float)scales.x, dmin = (float)scales.y;
        for (uint k = 0; k < 2; ++k) {
            global const block_q8 *x = activations + (i + (lane >> 3)) * 8 + chunk * 2 + k;
            int products = 0, ones = 0;
            uint qs[4] = {q.x, q.y, q.z, q.w};
            for (uint j = 0; j < 4; ++j) {
                int a = x->qs[half_of * 4 + j];
                products = __builtin_amdgcn_sudot4(0, (qs[j] >> (4 * k)) & 0x0f0f0f0f, 1, a, products, 0);
                ones = __builtin_amdgcn_sudot4(0, 0x01010101, 1, a, ones, 0);
            }
            uint2 s = sub_scales((uint3)(header.y, header.z, header.w), chunk * 2 + k);
            float value = (float)products * ((float)s.x * d) - (float)ones * ((float)s.y * dmin);
            sum = __builtin_fmaf(value, (float)x->d, sum);
        }
        i += 4;
    } while (i < blocks);
    sum = sum_wave(sum);
    if (lane == 0) out[GROUP] = sum;
}

kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void q4k_dequantize(global const uint4 *blocks, global float4 *out) {
    uint lane = LANE, chunk = lane >> 3;
    uint4 header = blocks[GROUP * 9];
    uint quants = ((global const uint *)blocks)[GROUP * 36 + 4 + lane];
    half2 scales = __builtin_bit_cast(half2, header.x);
    float d = (float)scales.x, dmin = (float)scales.y;
    for (uint k = 0; k < 2; ++k) {
        uint2 s = sub_scales((uint3)(header.y, header.z, header.w), chunk * 2 + k);
        float scale = (float)s.x * d, minimum = (float)s.y * dmin;
        uint n = (quants >> (4 * k)) & 0x0f0f0f0f;
        float4 v = (float4)((float)(n & 255), (float)((n >> 8) & 255), (float)((n >> 16) & 255), (float)(n >> 24));
        out[GROUP * 64 + chunk * 16 + k * 8 + (lane & 7)] = v * scale - minimum;
    }
}

typedef half half8 __attribute__((ext_vector_type(8)));
typedef half half16 __attribute__((ext_vector_type(16)));
typedef float float8 __attribute__((ext_vector_type(8)));
typedef int int2v __attribute__((ext_vector_type(2)));
typedef int int4v __attribute__((ext_vector_type(4)));
typedef int int8v __attribute__((ext_vector_type(8)));

// One wave per 16x16 tile: A by rows, B by columns, `row_bytes` of k in each.
#ifdef __gfx1200__
#define OUT_ROW(r, half_of) ((r) + 8 * (half_of))
#else
#define OUT_ROW(r, half_of) (2 * (r) + (half_of))
#endif
#define TILE_OUT(sum)                                                                              \
    for (uint r = 0; r < 8; ++r)                                                                   \
        out[(GROUP * 16 + OUT_ROW(r, half_of)) * width + __builtin_amdgcn_workgroup_id_y() * 16 + within] = sum[r];

kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void wmma_f16_tile(global const uchar *a, global const uchar *b, global float *out, uint row_bytes, uint width) {
    uint lane = LANE, within = lane & 15, half_of = lane >> 4;
    uint x = (GROUP * 16 + within) * row_bytes, y = (__builtin_amdgcn_workgroup_id_y() * 16 + within) * row_bytes;
    float8 sum = 0;
    uint i = 0;
    do {
#ifdef __gfx1200__
        typedef half half4v __attribute__((ext_vector_type(4)));
        half4v a0 = *(global const half4v *)(a + x + i + 8 * half_of), a1 = *(global const half4v *)(a + x + i + 8 * half_of + 16);
        half4v b0 = *(global const half4v *)(b + y + i + 8 * half_of), b1 = *(global const half4v *)(b + y + i + 8 * half_of + 16);
        sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_shufflevector(a0, a1, 0, 1, 2, 3, 4, 5, 6, 7),
            __builtin_shufflevector(b0, b1, 0, 1, 2, 3, 4, 5, 6, 7), sum);
#else
        sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(*(global const half16 *)(a + x + i),
            *(global const half16 *)(b + y + i), sum);
#endif
        i += 32;
    } while (i < row_bytes);
    TILE_OUT(sum)
}

kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void wmma_iu8_tile(global const uchar *a, global const uchar *b, global int *out, uint row_bytes, uint width) {
    uint lane = LANE, within = lane & 15, half_of = lane >> 4;
    uint x = (GROUP * 16 + within) * row_bytes, y = (__builtin_amdgcn_workgroup_id_y() * 16 + within) * row_bytes;
    int8v sum = 0;
    uint i = 0;
    do {
#ifdef __gfx1200__
        sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, *(global const int2v *)(a + x + i + 8 * half_of), 1,
            *(global const int2v *)(b + y + i + 8 * half_of), sum, 0);
#else
        sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, *(global const int4v *)(a + x + i), 1,
            *(global const int4v *)(b + y + i), sum, 0);
#endif
        i += 16;
    } while (i < row_bytes);
    TILE_OUT(sum)
}
