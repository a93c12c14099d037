// Kernels that need nothing but their arguments, for tests of the driver on the software kernel.
typedef uint u32;
#define ITEM (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())
#define KERNEL(name) __attribute__((reqd_work_group_size(64, 1, 1))) kernel void name

KERNEL(scale_add)(global const u32 *in, global u32 *out, u32 n, u32 factor) { u32 i = ITEM; if (i < n) out[i] = in[i] * factor + i; }
KERNEL(count)(global u32 *out) { __hip_atomic_fetch_add(out, 1, __ATOMIC_RELAXED, 4); }
KERNEL(double_up)(global u32 *data, u32 n) { u32 i = ITEM; if (i < n) data[i] *= 2; }
