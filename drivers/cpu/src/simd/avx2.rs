//! Eight lanes with AVX2, FMA and F16C. The kernels over them live elsewhere.
#![expect(unsafe_code, reason = "processor intrinsics; the token proves the instructions exist")]

use super::{Features, Kernel, Rows, Simd};
use core::arch::x86_64::*;

/// Proof that this processor runs AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

impl Avx2 {
    /// The token, where the processor and the system have what it stands for.
    pub(crate) fn detect() -> Option<Self> {
        Features::detect().avx2.then_some(Self(()))
    }
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    type I = __m256i;
    type F = __m256;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn inner<K: Kernel>(token: Avx2, kernel: K) -> K::Output {
            kernel.call(token)
        }
        // SAFETY: `detect` makes the token only where these features are.
        unsafe { inner(self, kernel) }
    }

    values! {
        splat(x: i32) -> __m256i = _mm256_set1_epi32(x);
        add(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        mul(a: __m256i, b: __m256i) -> __m256i = _mm256_mullo_epi32(a, b);
        max(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi32(a, b);
        and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        shl(x: __m256i, bits: u32) -> __m256i = _mm256_sll_epi32(x, _mm_cvtsi32_si128(bits.cast_signed()));
        shr(x: __m256i, bits: u32) -> __m256i = _mm256_srl_epi32(x, _mm_cvtsi32_si128(bits.cast_signed()));
        sar(x: __m256i, bits: u32) -> __m256i = _mm256_sra_epi32(x, _mm_cvtsi32_si128(bits.cast_signed()));
        dot_pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
        splat_f(x: f32) -> __m256 = _mm256_set1_ps(x);
        half(x: __m256i) -> __m256 = {
            // A pack works inside 128-bit halves; quarters 0 and 2 hold the eight 16-bit values.
            let packed = _mm256_packus_epi32(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)), _mm256_setzero_si256());
            _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(packed)))
        };
        as_f(x: __m256i) -> __m256 = _mm256_castsi256_ps(x);
        as_i(x: __m256) -> __m256i = _mm256_castps_si256(x);
        to_f(x: __m256i) -> __m256 = _mm256_cvtepi32_ps(x);
        round(x: __m256) -> __m256i = _mm256_cvtps_epi32(x);
        add_f(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        sub_f(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        mul_f(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        div_f(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fnma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fnmadd_ps(a, b, c);
        max_f(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        min_f(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        sum(x: __m256) -> f32 = {
            let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
        };
        max_lane(x: __m256) -> f32 = {
            let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
        };
        pack(a: __m256i, b: __m256i) -> __m256i = _mm256_packs_epi32(a, b);
        prefetch(at: *const u8) -> () = _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }

    memory! {
        load(from: *const u8) -> __m256i = _mm256_loadu_si256(from.cast());
        store(to: *mut u8, x: __m256i) -> () = _mm256_storeu_si256(to.cast(), x);
        store_bytes(to: *mut u8, x: __m256i) -> () = {
            // The low bytes of each 128-bit half gather in its first four bytes.
            let low = _mm256_shuffle_epi8(x, _mm256_set1_epi32(0x0c08_0400));
            let (a, b) = (_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low));
            _mm_storel_epi64(to.cast(), _mm_unpacklo_epi32(a, b));
        };
        load_bytes(from: *const u8) -> __m256i = _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()));
        load_splat(from: *const u8) -> __m256i = _mm256_set1_epi32(from.cast::<i32>().read_unaligned());
        load_f(from: *const f32) -> __m256 = _mm256_loadu_ps(from);
        store_f(to: *mut f32, x: __m256) -> () = _mm256_storeu_ps(to, x);
        load_half(from: *const u16) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
        store_half(to: *mut u16, x: __m256) -> () =
            _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x));
    }

    #[inline(always)]
    fn dot<const WIDE: bool>(self, acc: __m256i, weights: __m256i, activations: __m256i) -> __m256i {
        // SAFETY: `detect` makes the token only where these instructions are.
        unsafe {
            let ones = _mm256_set1_epi16(1);
            if WIDE {
                // Two byte products of 255·127 overflow 16 bits: multiply the low seven bits and the top bit apart.
                let low =
                    _mm256_maddubs_epi16(_mm256_and_si256(weights, _mm256_set1_epi8(0x7f)), activations);
                let top = _mm256_and_si256(_mm256_srli_epi16::<7>(weights), _mm256_set1_epi8(1));
                let top =
                    _mm256_slli_epi32::<7>(_mm256_madd_epi16(_mm256_maddubs_epi16(top, activations), ones));
                return _mm256_add_epi32(acc, _mm256_add_epi32(top, _mm256_madd_epi16(low, ones)));
            }
            _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(weights, activations), ones))
        }
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], index: __m256i) -> __m256i {
        // SAFETY: the table is 16 readable bytes; `detect` makes the token only where these instructions are.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            _mm256_shuffle_epi8(table, index)
        }
    }

    #[inline(always)]
    fn spread_bits(self, bits: __m256i, group: usize, value: u8) -> __m256i {
        let byte = (group / 2) as i32 * 0x0101_0101;
        let test = if group.is_multiple_of(2) { 0x0804_0201 } else { 0x8040_2010_u32.cast_signed() };
        // SAFETY: `detect` makes the token only where these instructions are.
        unsafe {
            let lanes =
                _mm_add_epi32(_mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c), _mm_set1_epi32(byte));
            let bytes = _mm256_shuffle_epi8(bits, _mm256_broadcastsi128_si256(lanes));
            let test = _mm256_set1_epi32(test);
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, test), test);
            _mm256_and_si256(set, _mm256_set1_epi8(value.cast_signed()))
        }
    }

    #[inline(always)]
    unsafe fn transpose(self, rows: Rows) -> [__m256i; 4] {
        // SAFETY: the caller promises 8 rows of 16 bytes; `detect` makes the token only where these instructions are.
        unsafe {
            // Vector j holds rows j and j + 4, so that the two unpack levels end in row order.
            let column = |j: usize| {
                let at = |r: usize| _mm_loadu_si128(rows.row::<8>(r).cast());
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(at(j)), at(j + 4))
            };
            let (a, b, c, d) = (column(0), column(1), column(2), column(3));
            let (ab0, ab1) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab0, cd0),
                _mm256_unpackhi_epi64(ab0, cd0),
                _mm256_unpacklo_epi64(ab1, cd1),
                _mm256_unpackhi_epi64(ab1, cd1),
            ]
        }
    }

    #[inline(always)]
    unsafe fn gather_u16(self, rows: Rows) -> __m256i {
        // SAFETY: the caller promises 8 rows of 2 bytes; `detect` makes the token only where these instructions are.
        unsafe {
            let at = |r: usize| i32::from(rows.row::<8>(r).cast::<i16>().read_unaligned());
            let x = _mm_cvtsi32_si128(at(0));
            let x = _mm_insert_epi16::<1>(x, at(1));
            let x = _mm_insert_epi16::<2>(x, at(2));
            let x = _mm_insert_epi16::<3>(x, at(3));
            let x = _mm_insert_epi16::<4>(x, at(4));
            let x = _mm_insert_epi16::<5>(x, at(5));
            let x = _mm_insert_epi16::<6>(x, at(6));
            _mm256_cvtepu16_epi32(_mm_insert_epi16::<7>(x, at(7)))
        }
    }

    #[inline(always)]
    fn run_shifted(self, from: &[u8; 32], shifts: [u32; 2]) -> __m256i {
        self.shr(self.read(from), shifts[0])
    }

    #[inline(always)]
    fn pack_scales(self, scales: &[i8; 16], pair: usize) -> __m256i {
        // Eight halves per 128 bits: four of the first vector's 16 codes there, four of the second's. Each scale goes
        // to its half's upper byte (0x80 clears the lower one), and comes down with its sign.
        let four = |scale: i64| (4 * pair as i64 + scale) * 0x0100_0100_0100_0100 + 0x0080_0080_0080_0080;
        // SAFETY: sixteen readable bytes; `detect` makes the token only where these instructions are.
        unsafe {
            let scales = _mm256_broadcastsi128_si256(_mm_loadu_si128(scales.as_ptr().cast()));
            let index = _mm256_setr_epi64x(four(0), four(2), four(1), four(3));
            _mm256_srai_epi16::<8>(_mm256_shuffle_epi8(scales, index))
        }
    }

    #[inline(always)]
    fn dot_sixteen(self, a: &[i8; 16], b: &[i16; 16]) -> __m256i {
        // SAFETY: sixteen readable numbers each; `detect` makes the token only where these instructions are.
        unsafe {
            let a = _mm256_cvtepi8_epi16(_mm_loadu_si128(a.as_ptr().cast()));
            _mm256_madd_epi16(a, _mm256_loadu_si256(b.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn sums(self, x: &[__m256i; 8]) -> [i32; 8] {
        let mut out = [0; 8];
        // SAFETY: eight integers fit; `detect` makes the token only where these instructions are.
        unsafe {
            let halves = |a, b| _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let quarters = |a, b| _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            let first = quarters(halves(x[0], x[1]), halves(x[2], x[3]));
            let second = quarters(halves(x[4], x[5]), halves(x[6], x[7]));
            let low = _mm256_permute2x128_si256::<0x20>(first, second);
            let high = _mm256_permute2x128_si256::<0x31>(first, second);
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_add_epi32(low, high));
        }
        out
    }
}
