// Atomics on global, local and generic memory with every ordering and scope.
#define LANE __builtin_amdgcn_workitem_id_x()
#define ADD(p, v, order, scope) __opencl_atomic_fetch_add(p, v, order, scope)
#define WG __OPENCL_MEMORY_SCOPE_WORK_GROUP
#define DEV __OPENCL_MEMORY_SCOPE_DEVICE
#define SYS __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES

kernel void counters(global atomic_int *i, global atomic_uint *u, global atomic_long *l, global int *out) {
    uint lane = LANE;
    int r = 0;
    r += ADD(i, 1, __ATOMIC_RELAXED, DEV);
    r += ADD(i + 1, (int)lane, __ATOMIC_ACQUIRE, WG);
    r += __opencl_atomic_fetch_sub(i + 2, 3, __ATOMIC_RELEASE, DEV);
    r += __opencl_atomic_fetch_max(i + 3, (int)lane, __ATOMIC_ACQ_REL, DEV);
    r += __opencl_atomic_fetch_min(i + 4, (int)lane, __ATOMIC_SEQ_CST, SYS);
    r += __opencl_atomic_fetch_max(u + 3, lane, __ATOMIC_RELAXED, DEV);
    r += __opencl_atomic_fetch_min(u + 4, lane, __ATOMIC_RELAXED, DEV);
    r += __opencl_atomic_fetch_and(u + 5, lane, __ATOMIC_RELAXED, WG);
    r += __opencl_atomic_fetch_or(u + 6, lane, __ATOMIC_RELAXED, DEV);
    r += __opencl_atomic_fetch_xor(u + 7, lane, __ATOMIC_RELAXED, DEV);
    r += __opencl_atomic_exchange(u + 8, lane, __ATOMIC_ACQ_REL, DEV);
    ADD(l, (long)lane, __ATOMIC_RELAXED, DEV);
    __opencl_atomic_fetch_max(l + 1, (long)lane, __ATOMIC_RELAXED, DEV);
    r += (int)__opencl_atomic_fetch_or(l + 2, (long)lane, __ATOMIC_SEQ_CST, SYS);
    uint expected = lane;
    r += __opencl_atomic_compare_exchange_strong(u + 9, &expected, 5u, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED, DEV);
    long wide = lane;
    r += __opencl_atomic_compare_exchange_strong(l + 3, &wide, 5L, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED, DEV);
    out[lane] = r + expected + (int)wide;
}

kernel void flags(global atomic_int *flag, global int *data) {
    if (LANE == 0) {
        data[0] = 7;
        __opencl_atomic_store(flag, 1, __ATOMIC_RELEASE, DEV);
    } else {
        while (__opencl_atomic_load(flag, __ATOMIC_ACQUIRE, DEV) == 0)
            __builtin_amdgcn_s_sleep(1);
        data[1] = data[0] + __opencl_atomic_load(flag + 1, __ATOMIC_SEQ_CST, SYS);
    }
}

kernel void local_counters(global int *out, global float *f) {
    local atomic_int c[8];
    local atomic_long w[2];
    local float sum;
    uint lane = LANE;
    __opencl_atomic_store(&c[lane & 7], 0, __ATOMIC_RELAXED, WG);
    __builtin_amdgcn_s_barrier();
    int r = ADD(&c[lane & 7], 1, __ATOMIC_RELAXED, WG);
    __opencl_atomic_fetch_max(&c[1], r, __ATOMIC_RELAXED, WG);
    r += __opencl_atomic_fetch_xor(&c[2], r, __ATOMIC_ACQ_REL, WG);
    r += __opencl_atomic_exchange(&c[3], r, __ATOMIC_RELAXED, WG);
    int e = 1;
    r += __opencl_atomic_compare_exchange_strong(&c[4], &e, 2, __ATOMIC_RELAXED, __ATOMIC_RELAXED, WG);
    ADD(&w[lane & 1], (long)r, __ATOMIC_RELAXED, WG);
    f[lane] = __builtin_amdgcn_ds_faddf(&sum, (float)lane, 0, 0, 0);
    out[lane] = r;
}

kernel void generic_counters(global int *g, int which) {
    local int l[64];
    l[LANE] = g[LANE];
    __builtin_amdgcn_s_barrier();
    generic int *p = which ? (generic int *)g : (generic int *)l;
    p[LANE] += 3;
    __opencl_atomic_fetch_add((generic atomic_int *)&p[1], 4, __ATOMIC_RELAXED, DEV);
    g[LANE] = p[LANE ^ 1];
}
