// Local memory: all widths, barriers, reductions, strided pairs.
#define LANE __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()

static void barrier_local(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__attribute__((reqd_work_group_size(256, 1, 1)))
kernel void reduce(global const float *in, global float *out) {
    local float tile[256];
    uint lane = LANE;
    tile[lane] = in[GROUP * 256 + lane];
    barrier_local();
    for (uint s = 128; s > 0; s >>= 1) {
        if (lane < s) tile[lane] += tile[lane + s];
        barrier_local();
    }
    if (lane == 0) out[GROUP] = tile[0];
}

kernel void shuffle_types(global uchar *b, global ushort *h, global ulong2 *w, global uint4 *q) {
    local uchar lb[256];
    local ushort lh[256];
    local ulong2 lw[256];
    local uint4 lq[256];
    uint lane = LANE;
    lb[lane] = b[lane];
    lh[lane] = h[lane];
    lw[lane] = w[lane];
    lq[lane] = q[lane];
    barrier_local();
    uint other = 255 - lane;
    b[lane] = lb[other] + (char)lb[lane];
    h[lane] = lh[other] - (short)lh[lane];
    w[lane] = lw[other];
    q[lane] = lq[other];
}

kernel void transpose(global const float *in, global float *out, int width) {
    local float tile[32][33];
    uint x = LANE & 31, y = LANE >> 5;
    for (uint r = y; r < 32; r += 8) tile[r][x] = in[r * width + x];
    barrier_local();
    for (uint r = y; r < 32; r += 8) out[r * width + x] = tile[x][r];
}

kernel void pairs(global float2 *out, global double *d) {
    local float a[512];
    local double e[256];
    uint lane = LANE;
    a[lane] = lane;
    a[lane + 100] = lane * 2;
    e[lane] = lane;
    barrier_local();
    out[lane] = (float2)(a[lane ^ 1], a[(lane ^ 1) + 17]);
    d[lane] = e[lane] + e[lane + 1];
}
