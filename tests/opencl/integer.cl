// Integer arithmetic of every width, shifts, division, bit fields, 64-bit carries.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

__attribute__((noinline)) static ulong mix(ulong h, uint x) {
    h ^= x;
    h *= 0xff51afd7ed558ccdUL;
    h ^= h >> 33;
    return h;
}

kernel void integer(global const int *a, global const uint *b, global long *out, int n, uint m) {
    int id = ID;
    if (id >= n) return;
    int x = a[id];
    uint y = b[id];
    long sum = 0;
    sum += x / (int)(y | 1);
    sum -= y % (m | 1);
    sum ^= (long)x * y;
    sum += mul24(x, (int)y) + mad24(x, 7, (int)m);
    sum += (x << (y & 31)) | (x >> (m & 31)) | (y >> 3);
    sum += min(x, (int)y) + max(y, m) + clamp(x, -5, 9) + abs(x);
    sum += popcount(y) + clz(y) + rotate(y, 5u);
    sum += mul_hi(x, (int)y) + mul_hi(y, m);
    sum += (char)x + (uchar)y + (short)x + (ushort)y;
    sum += ((ulong)y << (m & 63)) ^ ((long)x >> (m & 63));
    sum += bitselect(x, (int)y, (int)m);
    for (uint i = 0; i < m; ++i) sum = mix(sum, i) + sum * 3;
    out[id] = sum;
}

kernel void bytes(global const uchar *in, global uchar *out, global ushort *half_out, global short *s, int n) {
    int id = ID;
    uchar v = in[id];
    char c = (char)in[id + 1];
    out[id] = v * 3 + c;
    half_out[id] = v << 4;
    s[id] = c - v;
    for (int i = 0; i < n; ++i) out[id + i] ^= in[i];
}

kernel void wide(global ulong4 *p, ulong k) {
    int id = ID;
    ulong4 v = p[id];
    p[id] = (v + k) * (v ^ (k << 3)) - (v >> 7);
}
