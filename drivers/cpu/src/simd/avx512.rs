//! Sixteen lanes with AVX-512 F, BW, DQ, VL and VNNI. The kernels over them live elsewhere.
#![expect(unsafe_code, reason = "processor intrinsics; the token proves the instructions exist")]

use super::{Features, Kernel, Rows, Simd};
use core::arch::x86_64::*;

/// Proof that this processor runs AVX-512 F, BW, DQ, VL and VNNI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512(());

impl Avx512 {
    /// The token, where the processor and the system have what it stands for.
    pub(crate) fn detect() -> Option<Self> {
        Features::detect().avx512_vnni.then_some(Self(()))
    }
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    type I = __m512i;
    type F = __m512;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        fn inner<K: Kernel>(token: Avx512, kernel: K) -> K::Output {
            kernel.call(token)
        }
        // SAFETY: `detect` makes the token only where these features are.
        unsafe { inner(self, kernel) }
    }

    values! {
        splat(x: i32) -> __m512i = _mm512_set1_epi32(x);
        add(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        mul(a: __m512i, b: __m512i) -> __m512i = _mm512_mullo_epi32(a, b);
        max(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi32(a, b);
        and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        shl(x: __m512i, bits: u32) -> __m512i = _mm512_sll_epi32(x, _mm_cvtsi32_si128(bits.cast_signed()));
        shr(x: __m512i, bits: u32) -> __m512i = _mm512_srl_epi32(x, _mm_cvtsi32_si128(bits.cast_signed()));
        sar(x: __m512i, bits: u32) -> __m512i = _mm512_sra_epi32(x, _mm_cvtsi32_si128(bits.cast_signed()));
        dot_pairs(acc: __m512i, a: __m512i, b: __m512i) -> __m512i = _mm512_dpwssd_epi32(acc, a, b);
        splat_f(x: f32) -> __m512 = _mm512_set1_ps(x);
        half(x: __m512i) -> __m512 = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
        as_f(x: __m512i) -> __m512 = _mm512_castsi512_ps(x);
        as_i(x: __m512) -> __m512i = _mm512_castps_si512(x);
        to_f(x: __m512i) -> __m512 = _mm512_cvtepi32_ps(x);
        round(x: __m512) -> __m512i = _mm512_cvtps_epi32(x);
        add_f(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub_f(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul_f(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div_f(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fnma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
        max_f(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        min_f(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        sum(x: __m512) -> f32 = _mm512_reduce_add_ps(x);
        max_lane(x: __m512) -> f32 = _mm512_reduce_max_ps(x);
        pack(a: __m512i, b: __m512i) -> __m512i = _mm512_packs_epi32(a, b);
        prefetch(at: *const u8) -> () = _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }

    memory! {
        load(from: *const u8) -> __m512i = _mm512_loadu_si512(from.cast());
        store(to: *mut u8, x: __m512i) -> () = _mm512_storeu_si512(to.cast(), x);
        store_bytes(to: *mut u8, x: __m512i) -> () = _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(x));
        load_bytes(from: *const u8) -> __m512i = _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()));
        load_splat(from: *const u8) -> __m512i = _mm512_set1_epi32(from.cast::<i32>().read_unaligned());
        load_f(from: *const f32) -> __m512 = _mm512_loadu_ps(from);
        store_f(to: *mut f32, x: __m512) -> () = _mm512_storeu_ps(to, x);
        load_half(from: *const u16) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
        store_half(to: *mut u16, x: __m512) -> () =
            _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x));
    }

    #[inline(always)]
    fn dot<const WIDE: bool>(self, acc: __m512i, weights: __m512i, activations: __m512i) -> __m512i {
        // SAFETY: `detect` makes the token only where this instruction is.
        unsafe { _mm512_dpbusd_epi32(acc, weights, activations) }
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], index: __m512i) -> __m512i {
        // SAFETY: the table is 16 readable bytes; `detect` makes the token only where these instructions are.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, index)
        }
    }

    #[inline(always)]
    fn spread_bits(self, bits: __m512i, group: usize, value: u8) -> __m512i {
        let byte = (group / 2) as i32 * 0x0101_0101;
        let test = if group.is_multiple_of(2) { 0x0804_0201 } else { 0x8040_2010_u32.cast_signed() };
        // SAFETY: `detect` makes the token only where these instructions are.
        unsafe {
            let lanes =
                _mm_add_epi32(_mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c), _mm_set1_epi32(byte));
            let bytes = _mm512_shuffle_epi8(bits, _mm512_broadcast_i32x4(lanes));
            let set = _mm512_test_epi8_mask(bytes, _mm512_set1_epi32(test));
            _mm512_maskz_set1_epi8(set, value.cast_signed())
        }
    }

    #[inline(always)]
    unsafe fn transpose(self, rows: Rows) -> [__m512i; 4] {
        // SAFETY: the caller promises 16 rows of 16 bytes; `detect` makes the token only where these instructions are.
        unsafe {
            // Vector j holds rows j, j + 4, j + 8, j + 12, so that the two unpack levels end in row order.
            let column = |j: usize| {
                let at = |r: usize| _mm_loadu_si128(rows.row::<16>(r).cast());
                let x = _mm512_castsi128_si512(at(j));
                let x = _mm512_inserti32x4::<1>(x, at(j + 4));
                let x = _mm512_inserti32x4::<2>(x, at(j + 8));
                _mm512_inserti32x4::<3>(x, at(j + 12))
            };
            let (a, b, c, d) = (column(0), column(1), column(2), column(3));
            let (ab0, ab1) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd0, cd1) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(ab0, cd0),
                _mm512_unpackhi_epi64(ab0, cd0),
                _mm512_unpacklo_epi64(ab1, cd1),
                _mm512_unpackhi_epi64(ab1, cd1),
            ]
        }
    }

    #[inline(always)]
    unsafe fn gather_u16(self, rows: Rows) -> __m512i {
        // SAFETY: the caller promises 16 rows of 2 bytes; `detect` makes the token only where these instructions are.
        unsafe {
            let at = |r: usize| i32::from(rows.row::<16>(r).cast::<i16>().read_unaligned());
            let half = |r: usize| {
                let x = _mm_cvtsi32_si128(at(r));
                let x = _mm_insert_epi16::<1>(x, at(r + 1));
                let x = _mm_insert_epi16::<2>(x, at(r + 2));
                let x = _mm_insert_epi16::<3>(x, at(r + 3));
                let x = _mm_insert_epi16::<4>(x, at(r + 4));
                let x = _mm_insert_epi16::<5>(x, at(r + 5));
                let x = _mm_insert_epi16::<6>(x, at(r + 6));
                _mm_insert_epi16::<7>(x, at(r + 7))
            };
            _mm512_cvtepu16_epi32(_mm256_set_m128i(half(8), half(0)))
        }
    }

    #[inline(always)]
    fn run_shifted(self, from: &[u8; 32], shifts: [u32; 2]) -> __m512i {
        let (a, b) = (shifts[0].cast_signed(), shifts[1].cast_signed());
        // SAFETY: an array of 32 bytes; `detect` makes the token only where these instructions are.
        unsafe {
            let x = _mm512_broadcast_i64x4(_mm256_loadu_si256(from.as_ptr().cast()));
            _mm512_srlv_epi32(x, _mm512_setr_epi32(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b))
        }
    }

    #[inline(always)]
    fn pack_scales(self, scales: &[i8; 16], pair: usize) -> __m512i {
        // Eight halves per 128 bits: four of the first vector's 16 codes there, four of the second's.
        let four = |scale: usize| (8 * pair + scale) as i64 * 0x0001_0001_0001_0001;
        // SAFETY: sixteen readable bytes; `detect` makes the token only where these instructions are.
        unsafe {
            let index =
                _mm512_setr_epi64(four(0), four(4), four(1), four(5), four(2), four(6), four(3), four(7));
            let scales = _mm256_cvtepi8_epi16(_mm_loadu_si128(scales.as_ptr().cast()));
            _mm512_permutexvar_epi16(index, _mm512_castsi256_si512(scales))
        }
    }

    #[inline(always)]
    fn dot_sixteen(self, a: &[i8; 16], b: &[i16; 16]) -> __m512i {
        // SAFETY: sixteen readable numbers each; `detect` makes the token only where these instructions are.
        unsafe {
            let a = _mm256_cvtepi8_epi16(_mm_loadu_si128(a.as_ptr().cast()));
            _mm512_zextsi256_si512(_mm256_madd_epi16(a, _mm256_loadu_si256(b.as_ptr().cast())))
        }
    }

    #[inline(always)]
    fn sums(self, x: &[__m512i; 8]) -> [i32; 8] {
        let mut out = [0; 8];
        // SAFETY: eight integers fit; `detect` makes the token only where these instructions are.
        unsafe {
            // Per 128 bits: two lanes each of two vectors, then all four lanes each of four vectors.
            let halves = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let quarters = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
            let first = quarters(halves(x[0], x[1]), halves(x[2], x[3]));
            let second = quarters(halves(x[4], x[5]), halves(x[6], x[7]));
            // Quarters 0 and 2 of both, plus quarters 1 and 3 of both.
            let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(first, second);
            let odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(first, second);
            let pairs = _mm512_add_epi32(even, odd);
            let (low, high) = (_mm512_castsi512_si256(pairs), _mm512_extracti64x4_epi64::<1>(pairs));
            let fold = |x| _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_set_m128i(fold(high), fold(low)));
        }
        out
    }
}
