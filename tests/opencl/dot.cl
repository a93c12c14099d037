// Integer and half dot products.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half half2v __attribute__((ext_vector_type(2)));
typedef short short2v __attribute__((ext_vector_type(2)));

kernel void dots(global const int4 *a, global const int4 *b, global int *out, global float *f) {
    int id = ID;
    int4 x = a[id], y = b[id];
    int r = 0;
    r = __builtin_amdgcn_sudot4(1, x.x, 1, y.x, r, 0);
    r = __builtin_amdgcn_sudot4(1, x.y, 0, y.y, r, 0);
    r = __builtin_amdgcn_sudot4(0, x.z, 1, y.z, r, 1);
    r = __builtin_amdgcn_sudot8(1, x.w, 1, y.w, r, 0);
    r += __builtin_amdgcn_udot4((uint)x.x, (uint)y.y, (uint)r, 0);
    r += __builtin_amdgcn_udot8((uint)x.x, (uint)y.y, (uint)r, 1);
    out[id] = r;
    float s = f[id];
    s = __builtin_amdgcn_fdot2(__builtin_bit_cast(half2v, x.x), __builtin_bit_cast(half2v, y.x), s, 0);
    s = __builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(short2v, x.y), __builtin_bit_cast(short2v, y.y), s, 1);
    f[id] = s;
}

kernel void dot_row(global const uint4 *w, global const uint4 *x, global int *out, int blocks) {
    int id = ID, sum = 0;
    for (int i = 0; i < blocks; ++i) {
        uint4 q = w[id * blocks + i], a = x[i];
        sum = __builtin_amdgcn_sudot4(0, q.x & 0x0f0f0f0f, 1, a.x, sum, 0);
        sum = __builtin_amdgcn_sudot4(0, q.y >> 4 & 0x0f0f0f0f, 1, a.y, sum, 0);
        sum = __builtin_amdgcn_sudot4(0, q.z & 0x0f0f0f0f, 1, a.z, sum, 0);
        sum = __builtin_amdgcn_sudot4(0, q.w >> 4 & 0x0f0f0f0f, 1, a.w, sum, 0);
    }
    out[id] = sum;
}
