// Half precision: scalar, packed, mixed-precision conversion.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

kernel void scalar_half(global const half *a, global const half *b, global half *out, float k) {
    int id = ID;
    half x = a[id], y = b[id];
    half r = x * y + (half)k;
    r -= x / y;
    r += __builtin_fminf16(x, y) + __builtin_fabsf16(r) + __builtin_floorf16(x) + __builtin_sqrtf16(y);
    r = __builtin_fmaf16(x, y, r);
    if (x < y) r = -r;
    r += (half)(short)x + (half)(ushort)y;
    out[id] = r;
}

kernel void packed_half(global half2 *p, global const half2 *q, global float *f) {
    int id = ID;
    half2 x = p[id], y = q[id];
    half2 r = x * y + x - y;
    r = __builtin_elementwise_max(r, x);
    r = __builtin_elementwise_min(r, y);
    p[id] = r;
    f[id] = (float)r.x * (float)y.y + (float)x.y;
}

kernel void packed_int(global short2 *p, global const short2 *q, global ushort2 *u) {
    int id = ID;
    short2 x = p[id], y = q[id];
    p[id] = x * y + (x << (short)3) - (y >> (short)2);
    u[id] = u[id] * (ushort)5 + (ushort)1;
}

kernel void convert(global const float *in, global half2 *out) {
    int id = ID;
    out[id] = __builtin_bit_cast(half2, __builtin_amdgcn_cvt_pkrtz(in[2 * id], in[2 * id + 1]));
}
