// Matrix builtins of gfx11, every input type.
// chips: gfx1100 gfx1151
#define LANE __builtin_amdgcn_workitem_id_x()
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half v16h __attribute__((ext_vector_type(16)));
typedef short v16s __attribute__((ext_vector_type(16)));
typedef float v8f __attribute__((ext_vector_type(8)));
typedef int v8i __attribute__((ext_vector_type(8)));
typedef int v4i __attribute__((ext_vector_type(4)));
typedef int v2i __attribute__((ext_vector_type(2)));

kernel void tiles(global v16h *h, global v16s *s, global v8f *f, global v8i *i, global v4i *b, global v2i *n) {
    uint t = LANE;
    v8f c = f[t];
    c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(h[t], h[t + 32], c);
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(s[t], s[t + 32], c);
    f[t] = c;
    h[t] = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(h[t], h[t + 64], h[t + 96], 1);
    s[t] = __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32(s[t], s[t + 64], s[t + 96], 0);
    v8i d = i[t];
    d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, b[t], 1, b[t + 32], d, 0);
    d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(0, b[t], 1, b[t + 64], d, 1);
    d = __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(1, n[t], 0, n[t + 32], d, 0);
    i[t] = d;
}

kernel void gemm(global const v16h *a, global const v16h *b, global v8f *out, int k) {
    v8f acc0 = 0, acc1 = 0;
    uint t = LANE;
    for (int i = 0; i < k; ++i) {
        v16h x = a[i * 32 + t];
        acc0 = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, b[i * 64 + t], acc0);
        acc1 = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, b[i * 64 + 32 + t], acc1);
    }
    out[t] = acc0;
    out[t + 32] = acc1;
}
