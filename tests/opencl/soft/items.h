// Functions of one work-item: (two input words, item number) to one output word. They compile for the GPU and for the
// host, so that the host's results are the expectation. No contraction, no fast math on either side.

#ifdef __OPENCL_VERSION__
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64; typedef int i32; typedef long i64;
#define LOOP _Pragma("nounroll")
#else
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32; typedef unsigned long u64;
typedef int i32; typedef long i64;
#define LOOP _Pragma("clang loop unroll(disable)")
#endif
#define FAR __attribute__((noinline))

static u32 float_bits(float x) { union { float f; u32 u; } c; c.f = x; return c.u; }
static float bits_float(u32 x) { union { float f; u32 u; } c; c.u = x; return c.f; }
static u64 double_bits(double x) { union { double f; u64 u; } c; c.f = x; return c.u; }
// A float between 1 and 2, or its negative.
static float unit(u32 x) { return bits_float((x & 0x807fffff) | 0x3f800000); }
// Any float except NaN and infinity, denormals included.
static float any(u32 x) { return bits_float((x & 0x7f800000) == 0x7f800000 ? x ^ 0x40000000 : x); }

static u32 integer_mix(u32 a, u32 b, u32 i) {
  u32 x = a * 2654435761u + b;
  x ^= x >> 15; x *= 0x85ebca6b; x ^= x >> 13; x = x << 7 | x >> 25;
  return x - (i ^ (a & ~b)) + (a > b ? 17 : 5);
}
static u32 integer_divide(u32 a, u32 b, u32 i) {
  u32 d = (b >> (i & 31)) | 1;
  i32 s = (i32)a / (i32)(d >> 1 | 1), m = (i32)a % (i32)(d >> 1 | 1);
  return a / d + a % d * 3 + (u32)s * 5 + (u32)m * 7;
}
static u32 integer_wide(u32 a, u32 b, u32 i) {
  u64 x = (u64)a << 32 | b, y = (u64)b * a + i;
  u64 z = x * y + (x >> (i & 63)) - ((i64)y >> 7) + (x < y ? x : y);
  return (u32)z ^ (u32)(z >> 32);
}
static u32 wide_divide(u32 a, u32 b, u32 i) {
  u64 x = (u64)a << 32 | b, y = ((u64)b << (i & 15)) | 3;
  i64 s = (i64)x / (i64)(b >> 5 | 1);
  return (u32)(x / y) ^ (u32)(x % y) ^ (u32)s ^ (u32)(s >> 32);
}
static u32 narrow(u32 a, u32 b, u32 i) {
  u8 p = a, q = b; u16 r = a >> 8, s = b >> 8; signed char t = a >> 24; short v = b >> 16;
  u8 sum = p + q; u16 product = r * s; short low = v < t ? v : t;
  return (u32)sum << 24 ^ (u32)product << 3 ^ (u32)(i32)low ^ (u32)(u8)(q >> (p & 7)) ^ (u32)(u16)(r << (i & 15));
}
static u32 bits(u32 a, u32 b, u32 i) {
  u32 count = 0, x = a;
  while (x) { x &= x - 1; count++; }
  u32 reversed = 0;
  for (int k = 0; k < 32; k++) reversed |= (b >> k & 1) << (31 - k);
  u32 top = a ? __builtin_clz(a) : 32, low = b ? __builtin_ctz(b) : 32;
  return reversed + count * 3 + top * 1000 + low * 70000 + __builtin_popcount(a ^ i);
}
static u32 byte_swap(u32 a, u32 b, u32 i) {
  u32 s = __builtin_bswap32(a), m = (a & 0xff00ff) | (b & 0xff00ff00);
  return s + (m >> 8 | m << 24) + ((a >> (i & 24) & 0xff) << 16 | (b >> 16));
}
static u32 saturate(u32 a, u32 b, u32 i) {
  i32 x = (i32)a, y = (i32)b; i64 s = (i64)x + y;
  i32 c = s > 2147483647 ? 2147483647 : s < -2147483648l ? (i32)-2147483648l : (i32)s;
  i32 m = x < y ? x : y, n = x > y ? x : y, k = (i32)i - 128;
  i32 middle = k < m ? m : k > n ? n : k;
  return (u32)c ^ (u32)middle << 1;
}
static u32 float_sums(u32 a, u32 b, u32 i) {
  float x = any(a), y = any(b), z = unit(a ^ i);
  float s = x + y; s = s * z; s = s - x; float t = z * unit(b); t += 0.1f;
  return float_bits(s) ^ float_bits(t) * 3;
}
static u32 float_fused(u32 a, u32 b, u32 i) {
  float x = unit(a), y = unit(b), z = any(a ^ b);
  float r = __builtin_fmaf(x, y, -unit(i * 77777)), s = __builtin_fmaf(z, y, x);
  return float_bits(r) + float_bits(s) * 5;
}
static u32 float_divide(u32 a, u32 b, u32 i) {
  float q = any(a) / any(b | 1), r = unit(a) / unit(b), s = 1.0f / any(b ^ i);
  return (q == q ? float_bits(q) : 1) ^ float_bits(r) * 3 ^ (s == s ? float_bits(s) : 2) * 5;
}
static u32 float_root(u32 a, u32 b, u32 i) {
  float x = any(a & 0x7fffffff), y = unit(b & 0x7fffffff) * (float)(i + 1);
  return float_bits(__builtin_sqrtf(x)) ^ float_bits(__builtin_sqrtf(y)) * 7;
}
static u32 float_convert(u32 a, u32 b, u32 i) {
  float x = (float)(i32)a, y = (float)b, z = unit(a) * (float)(1u << (i & 30));
  return float_bits(x) ^ float_bits(y) * 3 ^ (u32)(i32)z * 5 ^ (u32)(unit(b & 0x7fffffff) * 1000.0f);
}
static u32 float_round(u32 a, u32 b, u32 i) {
  float x = unit(a) * (float)((b & 1023) + 1) * 0.125f;
  float r = __builtin_floorf(x) + 2.0f * __builtin_ceilf(x) + 4.0f * __builtin_truncf(x) + 8.0f * __builtin_rintf(x);
  return float_bits(r) + i;
}
static u32 float_compare(u32 a, u32 b, u32 i) {
  float x = bits_float(a), y = bits_float(b), z = bits_float(a << 9 >> 9 | 0x7f800000);
  u32 r = (x < y) | (x <= y) << 1 | (x == y) << 2 | (x != y) << 3 | (x > z) << 4 | !(x >= z) << 5 | (z == z) << 6;
  return r | (__builtin_fabsf(any(a)) > __builtin_fabsf(any(b)) ? 128 : 0) | i << 8;
}
static u32 double_sums(u32 a, u32 b, u32 i) {
  double x = (double)(i32)a * 1e-5, y = (double)b + 0.25, z = x * y - (double)i;
  double q = z / (y + 3.0), s = __builtin_sqrt(y), t = __builtin_fma(x, y, q);
  u64 r = double_bits(q) ^ double_bits(s) * 3 ^ double_bits(t) * 5 ^ double_bits((double)(float)z) ^ (u64)(i64)z;
  return (u32)r ^ (u32)(r >> 32);
}
static u32 diverge(u32 a, u32 b, u32 i) {
  u32 steps = 0, x = a | 1;
  LOOP while (x != 1 && steps < 200) { x = x & 1 ? 3 * x + 1 : x >> 1; steps++; if (steps > (b & 127)) break; }
  if (i & 1) { if (b & 2) steps += 1000; else steps ^= x; } else if (a & 4) { LOOP for (u32 k = 0; k < (b & 7); k++) steps += k * k; }
  return steps + x;
}
static u32 choose(u32 a, u32 b, u32 i) {
  u32 r = 0;
  LOOP for (u32 k = 0; k < 8; k++) {
    switch ((a >> (4 * k)) & 15) {
      case 0: r += b; break;
      case 1: case 2: r ^= i << k; break;
      case 3: r = r * 3 + 1; continue;
      case 4: r -= a; break;
      case 7: return r ^ 0x7777;
      case 9: r |= b & 0xff; break;
      default: r += k;
    }
    r = r << 1 | r >> 31;
  }
  return r;
}
static u32 array_sort(u32 a, u32 b, u32 i) {
  u32 v[12];
  for (int k = 0; k < 12; k++) { a = a * 1664525 + 1013904223 + b; v[k] = a >> 8; }
  LOOP for (int k = 1; k < 12; k++) { u32 x = v[k]; int j = k - 1; LOOP while (j >= 0 && v[j] > x) { v[j + 1] = v[j]; j--; } v[j + 1] = x; }
  u32 r = 0;
  for (int k = 0; k < 12; k++) r = r * 31 + v[k];
  return r ^ v[i % 12];
}
static u32 array_bytes(u32 a, u32 b, u32 i) {
  u8 v[32]; u16 w[16];
  for (int k = 0; k < 32; k++) v[k] = (u8)(a >> (k & 15)) + k;
  for (int k = 0; k < 16; k++) w[k] = v[(k * 7 + i) & 31] * v[(k + b) & 31];
  v[b & 31] ^= 0x5a; w[a & 15] += v[i & 31];
  u32 r = 0;
  for (int k = 0; k < 16; k++) r = (r << 3 | r >> 29) ^ w[k] ^ v[k + 16];
  return r;
}
FAR static u32 leaf(u32 x, u32 y) { return x * y + (x ^ y >> 3); }
FAR static u32 middle(u32 x, u32 y, u32 depth) { u32 r = leaf(x, y); if (depth & 1) r += leaf(r, x); else r ^= leaf(y, r); return r + depth; }
static u32 calls(u32 a, u32 b, u32 i) { u32 r = middle(a, b, i); LOOP for (u32 k = 0; k < (i & 3); k++) r = middle(r, a, k); return r; }
struct pair { u32 low; float high; u64 wide; };
FAR static struct pair make(u32 a, u32 b) { struct pair p; p.low = a + b; p.high = unit(a); p.wide = (u64)a * b; return p; }
FAR static u32 fill(u32 *out, u32 n, u32 seed) { u32 s = 0; LOOP for (u32 k = 0; k < n; k++) { out[k] = seed * (k + 1); s += out[k] >> 3; } return s; }
static u32 structs(u32 a, u32 b, u32 i) { struct pair p = make(a, b), q = make(b, p.low ^ i); return p.low ^ float_bits(q.high) ^ (u32)(q.wide >> 20); }
static u32 pointers(u32 a, u32 b, u32 i) { u32 v[10]; u32 s = fill(v, 3 + (i & 7), a) + fill(v + 2, 2, b); u32 *p = (a & 1) ? v : v + 1; return s + p[1] * 3 + v[2]; }
static u32 table(u32 a, u32 b, u32 i) {
  const u32 squares[16] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225};
  return squares[a & 15] * 256 + squares[b >> 7 & 15] + (squares[i & 15] << 20);
}
static u32 hash(u32 a, u32 b, u32 i) {
  u32 h = 2166136261u; u32 w[3]; w[0] = a; w[1] = b; w[2] = i;
  for (int k = 0; k < 3; k++) for (int j = 0; j < 4; j++) { h ^= w[k] >> (8 * j) & 0xff; h *= 16777619; }
  u64 z = (u64)h * 0x9e3779b97f4a7c15ul; z ^= z >> 29;
  return (u32)(z >> 17);
}
static u32 mandelbrot(u32 a, u32 b, u32 i) {
  float cr = (float)(a & 1023) / 400.0f - 2.0f, ci = (float)(b & 1023) / 512.0f - 1.0f, zr = 0, zi = 0; u32 n = 0;
  LOOP while (n < 60) { float t = zr * zr - zi * zi; if (zr * zr + zi * zi > 4.0f) break; zi = 2.0f * zr * zi + ci; zr = t + cr; n++; }
  return n + i * 64;
}

#define ITEMS(X) X(integer_mix) X(integer_divide) X(integer_wide) X(wide_divide) X(narrow) X(bits) X(byte_swap) X(saturate) \
  X(float_sums) X(float_fused) X(float_divide) X(float_root) X(float_convert) X(float_round) X(float_compare) X(double_sums) \
  X(diverge) X(choose) X(array_sort) X(array_bytes) X(calls) X(structs) X(pointers) X(table) X(hash) X(mandelbrot)
