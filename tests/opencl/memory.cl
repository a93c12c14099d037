// Loads and stores of every width, struct layout, constant data, nontemporal and volatile accesses.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())
typedef struct { ushort d, m; uchar scales[12]; uchar qs[128]; } block_q4;

constant float table[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};

kernel void copy(global const uchar *a, global uchar *b, global const uint3 *c, global uint3 *d, int n) {
    int id = ID;
    for (int i = 0; i < n; ++i) b[id * n + i] = a[id * n + i];
    d[id] = c[id] + 1u;
    __builtin_nontemporal_store(n, (global int *)b + id);
    ((volatile global int *)b)[id + 1] = __builtin_nontemporal_load((global const int *)a + id);
}

kernel void unpack(global const block_q4 *w, global float *out, int n) {
    int id = ID;
    for (int i = 0; i < n; ++i) {
        global const block_q4 *block = w + id * n + i;
        float d = block->d, m = block->m;
        for (int j = 0; j < 128; ++j) {
            uchar q = block->qs[j];
            out[j * 2] = d * (q & 15) * (block->scales[j >> 4] & 63) - m;
            out[j * 2 + 1] = d * table[q >> 4];
        }
    }
}

kernel void uniform_loads(constant const int *k, global const float16 *wide, global float *out, constant float *c) {
    int id = ID;
    float s = 0;
    for (int i = 0; i < 16; ++i) s += c[i] * k[i];
    out[id] = s + wide[0].s0 + wide[0].sf;
}
