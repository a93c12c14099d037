// Programs for the software GPU. Item functions have one kernel each; the others use groups and waves. Every kernel
// reads 256 words and writes 256 words with groups of 64 work-items.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#include "items.h"
#define LOCAL __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()
#define ITEM (GROUP * 64 + LOCAL)
#define KERNEL(name) __attribute__((reqd_work_group_size(64, 1, 1))) kernel void name(global const u32 *in, global u32 *out, u32 n)

#define SCOPE_WORKGROUP 3
#define SCOPE_AGENT 4

// Before the barrier what was written is visible to the group.
#define BARRIER __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")

#define ONE(name) KERNEL(k_##name) { u32 i = ITEM; if (i < n) out[i] = name(in[i], in[(i * 7 + 3) % 256], i); }
ITEMS(ONE)

KERNEL(lds_reverse) { local u32 t[64]; t[LOCAL] = in[ITEM]; BARRIER; out[ITEM] = t[63 - LOCAL]; }
KERNEL(lds_reduce) {
  local u32 t[64]; u32 l = LOCAL; t[l] = in[ITEM]; BARRIER;
  LOOP for (u32 s = 32; s; s >>= 1) { if (l < s) t[l] += t[l + s]; BARRIER; }
  out[ITEM] = t[0];
}
KERNEL(lds_scan) {
  local u32 t[2][64]; u32 l = LOCAL, b = 0; t[0][l] = in[ITEM]; BARRIER;
  LOOP for (u32 s = 1; s < 64; s <<= 1) { t[b ^ 1][l] = l >= s ? t[b][l] + t[b][l - s] : t[b][l]; b ^= 1; BARRIER; }
  out[ITEM] = t[b][l];
}
KERNEL(lds_sort) {
  local u32 t[64]; u32 l = LOCAL; t[l] = in[ITEM]; BARRIER;
  LOOP for (u32 k = 2; k <= 64; k <<= 1) LOOP for (u32 j = k >> 1; j; j >>= 1) {
    u32 o = l ^ j;
    if (o > l) { u32 x = t[l], y = t[o]; if ((x > y) == ((l & k) == 0)) { t[l] = y; t[o] = x; } }
    BARRIER;
  }
  out[ITEM] = t[l];
}
KERNEL(lds_histogram) {
  local u32 t[64]; u32 l = LOCAL; t[l] = 0; BARRIER;
  for (u32 k = 0; k < 4; k++) __hip_atomic_fetch_add(&t[in[ITEM] >> (8 * k) & 63], 1, __ATOMIC_RELAXED, SCOPE_WORKGROUP);
  BARRIER; out[ITEM] = t[l];
}
KERNEL(lds_transpose) {
  local float t[8][9]; u32 l = LOCAL, x = l & 7, y = l >> 3; t[y][x] = unit(in[ITEM]); BARRIER; out[ITEM] = float_bits(t[x][y] * 2.0f);
}
KERNEL(lds_wide) {
  local u64 t[64]; local u8 c[64]; u32 l = LOCAL; t[l] = (u64)in[ITEM] << 17 | l; c[l ^ 1] = (u8)in[ITEM]; BARRIER;
  u64 v = t[(l * 5 + 1) & 63]; out[ITEM] = (u32)v ^ (u32)(v >> 32) ^ c[l];
}
KERNEL(global_atomics) {
  // Words 0 to 63 of the output are sums, maxima and bit sets over all items; the rest is the item's own word.
  u32 i = ITEM, v = in[i];
  if (i >= 64) out[i] = v;
  __hip_atomic_fetch_add(&out[i & 15], v, __ATOMIC_RELAXED, SCOPE_AGENT);
  __hip_atomic_fetch_max(&out[16 + (i & 15)], v, __ATOMIC_RELAXED, SCOPE_AGENT);
  __hip_atomic_fetch_or(&out[32 + (i & 15)], v & 0xff, __ATOMIC_RELAXED, SCOPE_AGENT);
  __hip_atomic_fetch_xor(&out[48 + (i & 15)], v, __ATOMIC_RELAXED, SCOPE_AGENT);
}
KERNEL(compare_exchange) {
  u32 i = ITEM, v = in[i] & 0xffff; if (i >= 4) out[i] = v;
  global u32 *p = &out[i & 3]; u32 old = __hip_atomic_load(p, __ATOMIC_RELAXED, SCOPE_AGENT);
  LOOP while (!__hip_atomic_compare_exchange_strong(p, &old, old * 3 + v - old * 2, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SCOPE_AGENT));
}
KERNEL(wave_ballot) {
  u32 v = in[ITEM], m = __builtin_amdgcn_ballot_w32(v & 1), l = LOCAL & 31;
  out[ITEM] = m ^ __builtin_popcount(m & ((1u << l) - 1)) ^ __builtin_amdgcn_readfirstlane(v);
}
KERNEL(wave_swizzle) {
  i32 v = in[ITEM], a = __builtin_amdgcn_ds_bpermute((LOCAL * 12 + 4) & 127, v), b = __builtin_amdgcn_ds_swizzle(v, 0x401f);
  i32 c = __builtin_amdgcn_update_dpp(v, v, 0x111, 0xf, 0xf, 0), d = __builtin_amdgcn_update_dpp(0, v, 0xb1, 0xf, 0xf, 1);
  out[ITEM] = (u32)a ^ (u32)b * 3 ^ (u32)c * 5 ^ (u32)d * 7 ^ __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, 0, 0);
}
KERNEL(dot_bytes) {
  u32 a = in[ITEM], b = in[(ITEM * 7 + 3) % 256];
  u32 s = __builtin_amdgcn_sudot4(1, a, 1, b, 100, 0), u = __builtin_amdgcn_sudot4(0, a, 1, b, -5, 0);
  out[ITEM] = s ^ u * 3 ^ __builtin_amdgcn_udot4(a, b, 7, 0) * 5 ^ (u32)__builtin_amdgcn_sudot8(1, a, 0, b, 9, 0) * 7;
}
typedef half h2 __attribute__((ext_vector_type(2)));
KERNEL(half_dot) {
  u32 v = in[ITEM]; h2 a = { (half)(i32)(v & 31), (half)(i32)(v >> 5 & 31) }, b = { (half)(i32)(v >> 10 & 15), (half)-3 };
  h2 c = a * b + a; float d = __builtin_amdgcn_fdot2(a, b, 0.5f, 0);
  out[ITEM] = float_bits(d) ^ float_bits((float)c.x) * 3 ^ float_bits((float)c.y) * 5;
}
typedef half h16 __attribute__((ext_vector_type(16))); typedef half h8 __attribute__((ext_vector_type(8)));
typedef float f8 __attribute__((ext_vector_type(8))); typedef int i2 __attribute__((ext_vector_type(2)));
typedef int i4 __attribute__((ext_vector_type(4))); typedef int i8 __attribute__((ext_vector_type(8)));
#if defined(__gfx1200__)
#define GFX12 1
#define KF(e, l) ((e & 3) + (e >> 2) * 8 + (l >> 4) * 4)
#define ROW(v, l) (v + 8 * (l >> 4))
#else
#define KF(e, l) (e)
#define ROW(v, l) (2 * v + (l >> 4))
#endif
// A[r][k] = byte k of the words of row r, B[k][c] likewise from the second half of the group's words: 16 bytes a line.
#define AT(line, k) ((in[GROUP * 64 + (line) * 2 % 32 + (k) / 8 % 2] >> ((k) % 4 * 8) & 15))
#define BT(line, k) ((in[GROUP * 64 + 32 + (line) * 2 % 32 + (k) / 8 % 2] >> ((k) % 4 * 8) & 15))
KERNEL(matrix_half) {
  u32 l = LOCAL & 31; f8 c;
  for (int v = 0; v < 8; v++) c[v] = (float)(ROW(v, l) * 16 + (l & 15));
#ifdef GFX12
  h8 a, b; for (int e = 0; e < 8; e++) { a[e] = (half)(i32)AT(l & 15, KF(e, l)); b[e] = (half)(i32)BT(l & 15, KF(e, l)); }
  c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c);
#else
  h16 a, b; for (int e = 0; e < 16; e++) { a[e] = (half)(i32)AT(l & 15, e); b[e] = (half)(i32)BT(l & 15, e); }
  c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c);
#endif
  if (LOCAL < 32) for (int v = 0; v < 2; v++) out[GROUP * 64 + v * 32 + l] = float_bits(c[v]) ^ float_bits(c[v + 2]) * 3 ^ float_bits(c[v + 4]) * 5 ^ float_bits(c[v + 6]) * 7;
}
KERNEL(matrix_bytes) {
  u32 l = LOCAL & 31, w = GROUP * 64; i8 c;
  for (int v = 0; v < 8; v++) c[v] = (i32)(ROW(v, l) * 16 + (l & 15)) - 100;
#ifdef GFX12
  i2 a, b; for (int v = 0; v < 2; v++) { a[v] = in[w + ((l & 15) * 4 + v + 2 * (l >> 4)) % 64]; b[v] = in[w + ((l & 15) * 4 + v + 2 * (l >> 4) + 21) % 64]; }
  c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, a, 0, b, c, 0);
#else
  i4 a, b; for (int v = 0; v < 4; v++) { a[v] = in[w + ((l & 15) * 4 + v) % 64]; b[v] = in[w + ((l & 15) * 4 + v + 21) % 64]; }
  c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, a, 0, b, c, 0);
#endif
  if (LOCAL < 32) for (int v = 0; v < 2; v++) out[w + v * 32 + l] = c[v] ^ c[v + 2] * 3 ^ c[v + 4] * 5 ^ c[v + 6] * 7;
}
