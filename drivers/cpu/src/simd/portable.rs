//! Sixteen lanes in plain Rust, for processors without a form of their own and as the others' oracle.
#![expect(unsafe_code, reason = "implements a trait whose memory methods take pointers")]

use super::{Kernel, Rows, Simd};
use core::array::from_fn;
use doorbell_core::quant::Half;

/// Plain Rust; runs everywhere. `fma` rounds twice, so float results differ in the last bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portable;

const N: usize = 16;
type I = [i32; N];
type F = [f32; N];

/// Methods that compute each lane by itself.
macro_rules! lanes {
    ($($name:ident($($arg:ident: $ty:ty),*; $($extra:ident: $extra_ty:ty),*) -> $out:ty = $lane:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $ty,)* $($extra: $extra_ty),*) -> $out {
            from_fn(|lane| { $(let $arg = $arg[lane];)* $lane })
        }
    )*};
}

fn fold<T: Copy>(x: [T; N], merge: impl Fn(T, T) -> T) -> T {
    let mut x = x;
    let mut half = N / 2;
    while half > 0 {
        for lane in 0..half {
            x[lane] = merge(x[lane], x[lane + half]);
        }
        half /= 2;
    }
    x[0]
}

impl Simd for Portable {
    const LANES: usize = N;
    type I = I;
    type F = F;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.call(self)
    }

    lanes! {
        add(a: I, b: I;) -> I = a.wrapping_add(b);
        mul(a: I, b: I;) -> I = a.wrapping_mul(b);
        max(a: I, b: I;) -> I = a.max(b);
        and(a: I, b: I;) -> I = a & b;
        or(a: I, b: I;) -> I = a | b;
        xor(a: I, b: I;) -> I = a ^ b;
        shl(x: I; bits: u32) -> I = x << bits;
        shr(x: I; bits: u32) -> I = (x.cast_unsigned() >> bits).cast_signed();
        sar(x: I; bits: u32) -> I = x >> bits;
        half(x: I;) -> F = Half((x as u16).to_le_bytes()).get();
        as_f(x: I;) -> F = f32::from_bits(x.cast_unsigned());
        as_i(x: F;) -> I = x.to_bits().cast_signed();
        to_f(x: I;) -> F = x as f32;
        round(x: F;) -> I = libm::rintf(x) as i32;
        add_f(a: F, b: F;) -> F = a + b;
        sub_f(a: F, b: F;) -> F = a - b;
        mul_f(a: F, b: F;) -> F = a * b;
        div_f(a: F, b: F;) -> F = a / b;
        fma(a: F, b: F, c: F;) -> F = a * b + c;
        fnma(a: F, b: F, c: F;) -> F = c - a * b;
        max_f(a: F, b: F;) -> F = if a > b { a } else { b };
        min_f(a: F, b: F;) -> F = if a < b { a } else { b };
    }

    #[inline(always)]
    fn splat(self, x: i32) -> I {
        [x; N]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> I {
        // SAFETY: the caller promises N × 4 bytes.
        unsafe { from.cast::<I>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8, x: I) {
        // SAFETY: the caller promises N × 4 bytes.
        unsafe { to.cast::<I>().write_unaligned(x) }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, x: I) {
        // SAFETY: the caller promises N bytes.
        unsafe { to.cast::<[u8; N]>().write_unaligned(x.map(|x| x as u8)) }
    }

    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> I {
        // SAFETY: the caller promises N bytes.
        unsafe { from.cast::<[i8; N]>().read_unaligned() }.map(i32::from)
    }

    #[inline(always)]
    unsafe fn load_splat(self, from: *const u8) -> I {
        // SAFETY: the caller promises four bytes.
        [unsafe { from.cast::<i32>().read_unaligned() }; N]
    }

    #[inline(always)]
    fn dot<const WIDE: bool>(self, acc: I, weights: I, activations: I) -> I {
        from_fn(|lane| {
            let (w, a) = (weights[lane].to_ne_bytes(), activations[lane].to_ne_bytes());
            let products = w.iter().zip(a).map(|(&w, a)| i32::from(w) * i32::from(a.cast_signed()));
            acc[lane].wrapping_add(products.sum::<i32>())
        })
    }

    #[inline(always)]
    fn dot_pairs(self, acc: I, a: I, b: I) -> I {
        let halves = |x: i32| [x as i16, (x >> 16) as i16].map(i32::from);
        from_fn(|lane| {
            let (a, b) = (halves(a[lane]), halves(b[lane]));
            acc[lane].wrapping_add((a[0] * b[0]).wrapping_add(a[1] * b[1]))
        })
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], index: I) -> I {
        index.map(|x| i32::from_ne_bytes(x.to_ne_bytes().map(|byte| table[usize::from(byte & 15)])))
    }

    #[inline(always)]
    fn spread_bits(self, bits: I, group: usize, value: u8) -> I {
        bits.map(|x| {
            let nibble = x.cast_unsigned() >> (4 * group);
            i32::from_le_bytes(from_fn(|i| if nibble >> i & 1 == 1 { value } else { 0 }))
        })
    }

    #[inline(always)]
    unsafe fn transpose(self, rows: Rows) -> [I; 4] {
        from_fn(|word| {
            from_fn(|row| {
                // SAFETY: the caller promises N rows of 16 bytes.
                unsafe { rows.row::<N>(row).add(4 * word).cast::<i32>().read_unaligned() }
            })
        })
    }

    #[inline(always)]
    unsafe fn gather_u16(self, rows: Rows) -> I {
        from_fn(|row| {
            // SAFETY: the caller promises N rows of 2 bytes.
            i32::from(unsafe { rows.row::<N>(row).cast::<u16>().read_unaligned() })
        })
    }

    #[inline(always)]
    fn splat_f(self, x: f32) -> F {
        [x; N]
    }

    #[inline(always)]
    unsafe fn load_f(self, from: *const f32) -> F {
        // SAFETY: the caller promises N floats.
        unsafe { from.cast::<F>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_f(self, to: *mut f32, x: F) {
        // SAFETY: the caller promises N floats.
        unsafe { to.cast::<F>().write_unaligned(x) }
    }

    #[inline(always)]
    unsafe fn load_half(self, from: *const u16) -> F {
        // SAFETY: the caller promises N halves.
        unsafe { from.cast::<[u16; N]>().read_unaligned() }.map(|bits| Half(bits.to_le_bytes()).get())
    }

    #[inline(always)]
    unsafe fn store_half(self, to: *mut u16, x: F) {
        // SAFETY: the caller promises N halves.
        unsafe { to.cast::<[u16; N]>().write_unaligned(x.map(|x| u16::from_le_bytes(Half::new(x).0))) }
    }

    #[inline(always)]
    fn sum(self, x: F) -> f32 {
        fold(x, |a, b| a + b)
    }

    #[inline(always)]
    fn max_lane(self, x: F) -> f32 {
        fold(x, f32::max)
    }

    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}

    #[inline(always)]
    fn run_shifted(self, from: &[u8; 32], shifts: [u32; 2]) -> I {
        let words = from.as_chunks::<4>().0;
        from_fn(|lane| (u32::from_ne_bytes(words[lane % 8]) >> shifts[lane / 8]).cast_signed())
    }

    #[inline(always)]
    fn pack(self, a: I, b: I) -> I {
        let half = |x: i32| x.clamp(-0x8000, 0x7fff) & 0xffff;
        from_fn(|lane| {
            let from = if lane % 4 < 2 { a } else { b };
            let at = lane / 4 * 4 + lane % 2 * 2;
            half(from[at]) | half(from[at + 1]) << 16
        })
    }

    #[inline(always)]
    fn pack_scales(self, scales: &[i8; 16], pair: usize) -> I {
        from_fn(|lane| {
            let scale = i32::from(scales[8 * pair + lane / 4 + lane % 4 / 2 * 4]);
            scale & 0xffff | scale << 16
        })
    }

    #[inline(always)]
    fn dot_sixteen(self, a: &[i8; 16], b: &[i16; 16]) -> I {
        from_fn(|lane| i32::from(a[lane]) * i32::from(b[lane]))
    }

    #[inline(always)]
    fn sums(self, x: &[I; 8]) -> [i32; 8] {
        from_fn(|i| fold(x[i], i32::wrapping_add))
    }
}
