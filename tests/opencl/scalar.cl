// Work that is the same for all lanes: scalar arithmetic, scalar float, uniform branches, clocks.
kernel void uniform_work(global int *out, int a, int b, uint c, float x, float y, ulong w) {
    int r = a * b + (a << (b & 31)) - (a >> 3);
    r ^= a & ~b;
    r += a < b ? a : b;
    r += (int)(c / 10u) + (int)(c % 7u) + __builtin_popcount(c) + __builtin_clz(c | 1);
    ulong k = w * 0x9e3779b97f4a7c15UL + c;
    r += (int)(k >> 32) + (int)(k << 3);
    for (int i = 0; i < b; ++i) r = r * 31 + i;
    float f = x * y + x;
    f = f > y ? f - x : f + 2.0f;
    r += (int)f;
    r += (int)__builtin_readcyclecounter();
    if (a == 3) out[1] = r;
    else if (c > 9) out[2] = a;
    out[0] = r;
    out[3] = (int)__builtin_ceilf(x) + (int)__builtin_rintf(y);
}
