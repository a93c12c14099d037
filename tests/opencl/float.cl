// Single and double precision: arithmetic, comparison, conversion, division, transcendental builtins.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

kernel void single(global const float *a, global const float *b, global float *out, int n, float k) {
    int id = ID;
    if (id >= n) return;
    float x = a[id], y = b[id], r = 0.0f;
    r += x * y - k;
    r += x / y;
    r = __builtin_fmaf(x, y, r);
    r += __builtin_fabsf(x) + __builtin_fminf(x, y) + __builtin_fmaxf(y, k);
    r += __builtin_floorf(x) + __builtin_ceilf(y) + __builtin_truncf(k) + __builtin_rintf(x);
    r += __builtin_sqrtf(x) + __builtin_amdgcn_rcpf(y) + __builtin_amdgcn_rsqf(k);
    r += __builtin_exp2f(x) + __builtin_log2f(y);
    r += __builtin_amdgcn_sinf(x) + __builtin_amdgcn_cosf(y) + __builtin_amdgcn_fractf(k);
    r += __builtin_amdgcn_fmed3f(x, y, k) + __builtin_amdgcn_ldexpf(x, n);
    r += (float)(int)x + (float)(uint)y + (float)(uchar)n;
    r += __builtin_copysignf(x, y);
    if (x < y && !(x != k) || __builtin_isnan(r)) r = -r;
    r += x > k ? y : x;
    for (int i = 0; i < n; ++i) r = r * x + y;
    out[id] = r;
}

kernel void twice(global const double *a, global double *out, int n) {
    int id = ID;
    double x = a[id], r = x * x + 1.5;
    r = r / (x + 2.0) + __builtin_sqrt(r);
    r = __builtin_fma(r, x, (double)n) + __builtin_floor(x) + __builtin_fmin(x, r) + __builtin_fabs(x);
    r += (double)(float)x + (double)(uint)n;
    out[id] = r < x ? r : (double)(int)x;
}

kernel void vectors(global float4 *p, float4 k) {
    int id = ID;
    float4 v = p[id];
    p[id] = v * k + v.wzyx;
}
