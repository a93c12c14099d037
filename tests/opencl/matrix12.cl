// Matrix builtins of gfx12, every input type, sparse forms and transposing loads.
// chips: gfx1200
#define LANE __builtin_amdgcn_workitem_id_x()
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half v8h __attribute__((ext_vector_type(8)));
typedef half v16h __attribute__((ext_vector_type(16)));
typedef short v8s __attribute__((ext_vector_type(8)));
typedef float v8f __attribute__((ext_vector_type(8)));
typedef int v8i __attribute__((ext_vector_type(8)));
typedef int v4i __attribute__((ext_vector_type(4)));
typedef int v2i __attribute__((ext_vector_type(2)));

kernel void tiles(global v8h *h, global v8s *s, global v8f *f, global v8i *i, global v2i *b, global int *n) {
    uint t = LANE;
    v8f c = f[t];
    c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(h[t], h[t + 32], c);
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(s[t], s[t + 32], c);
    c = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(b[t], b[t + 32], c);
    c = __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(b[t], b[t + 64], c);
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf8_fp8_w32_gfx12(b[t], b[t + 96], c);
    f[t] = c;
    h[t] = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(h[t], h[t + 64], h[t + 96]);
    s[t] = __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32_gfx12(s[t], s[t + 64], s[t + 96]);
    v8i d = i[t];
    d = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, b[t], 1, b[t + 32], d, 0);
    d = __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32_gfx12(1, n[t], 0, n[t + 32], d, 0);
    d = __builtin_amdgcn_wmma_i32_16x16x32_iu4_w32_gfx12(0, b[t], 1, b[t + 96], d, 1);
    i[t] = d;
}

kernel void sparse(global v8h *h, global v16h *w, global v8f *f, global int *index) {
    uint t = LANE;
    f[t] = __builtin_amdgcn_swmmac_f32_16x16x32_f16_w32(h[t], w[t], f[t], index[t]);
}

kernel void transposed(global v2i *b, global v8h *h) {
    uint t = LANE;
    b[t] = __builtin_amdgcn_global_load_tr_b64_v2i32(b + t + 32);
    h[t] = __builtin_amdgcn_global_load_tr_b128_v8f16(h + t + 32);
}
