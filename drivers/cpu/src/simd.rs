//! Vectors of 32-bit lanes: the operations that kernels need, and one file per form of the processor.
//!
//! Kernels are written once over [`Simd`] and compiled for each form by [`Simd::run`]. Every method of an
//! implementation is `inline(always)`, so that its instructions end up inside the function that `run`
//! compiles with the form's target features. No kernel and no detection lives here.
//!
//! Memory is reached in two ways: by slices, whose length each method checks (`read`, `write`), and by pointers, which
//! only the views of `product` use, after a check of their own.
#![expect(unsafe_code, reason = "declares the methods that touch memory, and checks slices for them")]

/// Methods that are one expression over value-only intrinsics.
#[cfg(target_arch = "x86_64")]
macro_rules! values {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $ty),*) -> $out {
            // SAFETY: `detect` makes the token only where these instructions are; no memory is touched.
            unsafe { $body }
        }
    )*};
}

/// Methods that are one expression over memory that the caller promises.
#[cfg(target_arch = "x86_64")]
macro_rules! memory {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, $($arg: $ty),*) -> $out {
            // SAFETY: the caller promises the memory; `detect` makes the token only where these instructions are.
            unsafe { $body }
        }
    )*};
}

mod detect;
mod portable;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use detect::Features;
pub use portable::Portable;

/// A piece of work that [`Simd::run`] compiles for one form of the processor.
pub trait Kernel {
    /// The result of the work.
    type Output;

    /// Does the work. Implementations must be `#[inline(always)]`, or they run without the form's instructions.
    fn call<S: Simd>(self, simd: S) -> Self::Output;
}

/// Rows in a strip: the unit in which weights are interleaved. A multiple of every form's lane count.
pub const STRIP: usize = 16;

/// Rows of weight bytes, one for each lane.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The first byte of the block in the first row of each half of them.
    halves: [*const u8; 2],
    /// Bytes from one row to the next.
    stride: usize,
}

impl Rows {
    /// `lanes` rows, `stride` bytes apart. With `spare` few registers hold pointers to rows, which pays where each row is read
    /// only a few times.
    ///
    /// # Safety
    /// There are so many rows at `base`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(base: *const u8, stride: usize, lanes: usize, spare: bool) -> Self {
        // SAFETY: the caller's promise.
        let middle = unsafe { base.add(lanes / 2 * stride) };
        let halves = if spare { [opaque(base), opaque(middle)] } else { [base, middle] };
        Self { halves, stride }
    }

    /// The same rows, `bytes` further on in each.
    ///
    /// # Safety
    /// Every row must have that many bytes after the current position (one past the end is allowed).
    #[inline(always)]
    #[must_use]
    pub unsafe fn at(self, bytes: usize) -> Self {
        // SAFETY: the caller promises that the rows reach as far.
        let halves = unsafe { [self.halves[0].add(bytes), self.halves[1].add(bytes)] };
        Self { halves, stride: self.stride }
    }

    /// Row `row` of `LANES`.
    ///
    /// # Safety
    /// There are so many rows.
    #[inline(always)]
    unsafe fn row<const LANES: usize>(self, row: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe { self.halves[row / (LANES / 2)].add(row % (LANES / 2) * self.stride) }
    }
}

/// A pointer of whose origin the compiler knows nothing. It then reaches rows from there by multiples of their stride,
/// where it would otherwise keep a pointer for each row, more than there are registers.
#[inline(always)]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(clippy::pointers_in_nomem_asm_block, reason = "the comment reads nothing through it")
)]
fn opaque(pointer: *const u8) -> *const u8 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut pointer = pointer;
        // SAFETY: an instruction that is only a comment changes nothing.
        unsafe {
            core::arch::asm!("/* {0} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags));
        }
        pointer
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    pointer
}

/// `f` of every element.
///
/// `array::map` does the same but is not always inlined, and a kernel's pieces must be.
#[inline(always)]
pub(crate) fn each<T: Copy, const N: usize>(mut array: [T; N], f: impl Fn(T) -> T) -> [T; N] {
    for x in &mut array {
        *x = f(*x);
    }
    array
}

/// One form of the processor: `LANES` lanes of 32 bits, as integers (`I`) or floats (`F`).
///
/// An implementing value is a token: it exists only where the form's instructions do.
///
/// Integer arithmetic wraps. "Bytes" operations treat a lane as four bytes, the lowest first.
pub trait Simd: Copy + Send + Sync + 'static {
    /// Lanes of 32 bits in a vector; divides [`STRIP`].
    const LANES: usize;
    /// Integer lanes.
    type I: Copy;
    /// Float lanes.
    type F: Copy;

    /// Compiles and runs `kernel` with this form's instructions.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;

    /// Every lane `x`.
    fn splat(self, x: i32) -> Self::I;
    /// `LANES` × 4 bytes from `from`.
    ///
    /// # Safety
    /// `from` must be readable for that many bytes; no alignment is needed.
    unsafe fn load(self, from: *const u8) -> Self::I;
    /// `LANES` × 4 bytes to `to`.
    ///
    /// # Safety
    /// `to` must be writable for that many bytes; no alignment is needed.
    unsafe fn store(self, to: *mut u8, x: Self::I);
    /// `LANES` signed bytes from `from`, one in each lane.
    ///
    /// # Safety
    /// `from` must be readable for `LANES` bytes; no alignment is needed.
    unsafe fn load_bytes(self, from: *const u8) -> Self::I;
    /// Every lane the four bytes at `from`.
    ///
    /// # Safety
    /// `from` must be readable for four bytes; no alignment is needed.
    unsafe fn load_splat(self, from: *const u8) -> Self::I;
    /// The low byte of each lane, `LANES` bytes.
    ///
    /// # Safety
    /// `to` must be writable for `LANES` bytes.
    unsafe fn store_bytes(self, to: *mut u8, x: Self::I);
    /// Lane-wise sum.
    fn add(self, a: Self::I, b: Self::I) -> Self::I;
    /// Lane-wise product, low 32 bits.
    fn mul(self, a: Self::I, b: Self::I) -> Self::I;
    /// Lane-wise signed maximum.
    fn max(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or.
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    /// Lane-wise shift left.
    fn shl(self, x: Self::I, bits: u32) -> Self::I;
    /// Lane-wise shift right, zeros in.
    fn shr(self, x: Self::I, bits: u32) -> Self::I;
    /// Lane-wise shift right, sign in.
    fn sar(self, x: Self::I, bits: u32) -> Self::I;
    /// Per lane: `acc` + the sum of four products of `weights` (unsigned bytes) and `activations` (signed
    /// bytes, never -128). Without `WIDE` the weights must be below 128.
    fn dot<const WIDE: bool>(self, acc: Self::I, weights: Self::I, activations: Self::I) -> Self::I;
    /// Per lane: `acc` + the sum of two products of signed 16-bit halves.
    fn dot_pairs(self, acc: Self::I, a: Self::I, b: Self::I) -> Self::I;
    /// Per byte: `table[index]`; indices must be below 16.
    fn lookup(self, table: &[u8; 16], index: Self::I) -> Self::I;
    /// Per lane: bits `4 × group .. 4 × group + 4` of `bits`, bit i as `value` in byte i, else 0.
    fn spread_bits(self, bits: Self::I, group: usize, value: u8) -> Self::I;
    /// Per row r of `LANES` rows: four words w of 4 bytes, returned as `[w][r]`.
    ///
    /// # Safety
    /// `LANES` rows of 16 bytes must be readable.
    unsafe fn transpose(self, rows: Rows) -> [Self::I; 4];
    /// Per row r of `LANES` rows: the two bytes at its start, zero-extended, in lane r.
    ///
    /// # Safety
    /// `LANES` rows of 2 bytes must be readable.
    unsafe fn gather_u16(self, rows: Rows) -> Self::I;

    /// 32 bytes, every lane shifted right by `shifts[0]`, zeros in; with 16 lanes then the same bytes again, by
    /// `shifts[1]`.
    fn run_shifted(self, from: &[u8; 32], shifts: [u32; 2]) -> Self::I;
    /// Lanes as signed 16-bit halves, per 128 bits four of `a`, then four of `b`; limited to i16.
    fn pack(self, a: Self::I, b: Self::I) -> Self::I;
    /// Of sixteen scales, each for 16 codes, those that belong to the halves of the `pair`-th [`Self::pack`] of
    /// consecutive vectors of codes' sums of four.
    fn pack_scales(self, scales: &[i8; 16], pair: usize) -> Self::I;
    /// Lanes that add up to the sum of sixteen products.
    fn dot_sixteen(self, a: &[i8; 16], b: &[i16; 16]) -> Self::I;
    /// The sums of each vector's lanes.
    fn sums(self, x: &[Self::I; 8]) -> [i32; 8];

    /// Every lane `x`.
    fn splat_f(self, x: f32) -> Self::F;
    /// `LANES` floats from `from`.
    ///
    /// # Safety
    /// `from` must be readable for `LANES` floats; no alignment is needed.
    unsafe fn load_f(self, from: *const f32) -> Self::F;
    /// `LANES` floats to `to`.
    ///
    /// # Safety
    /// `to` must be writable for `LANES` floats; no alignment is needed.
    unsafe fn store_f(self, to: *mut f32, x: Self::F);
    /// `LANES` half-precision floats from `from`, widened.
    ///
    /// # Safety
    /// `from` must be readable for `LANES` × 2 bytes; no alignment is needed.
    unsafe fn load_half(self, from: *const u16) -> Self::F;
    /// `LANES` half-precision floats to `to`, rounded to nearest even.
    ///
    /// # Safety
    /// `to` must be writable for `LANES` × 2 bytes; no alignment is needed.
    unsafe fn store_half(self, to: *mut u16, x: Self::F);
    /// The low 16 bits of each lane as a half-precision float.
    fn half(self, x: Self::I) -> Self::F;
    /// The lanes' bits as floats.
    fn as_f(self, x: Self::I) -> Self::F;
    /// The lanes' bits as integers.
    fn as_i(self, x: Self::F) -> Self::I;
    /// Signed integers to floats, to nearest even.
    fn to_f(self, x: Self::I) -> Self::F;
    /// Floats to signed integers, to nearest even; anything outside i32 gives `i32::MIN`, or saturates.
    fn round(self, x: Self::F) -> Self::I;
    /// Lane-wise sum.
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Lane-wise difference.
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Lane-wise product.
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Lane-wise quotient.
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// a·b + c, fused where the form has it.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// c − a·b, fused where the form has it.
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Lane-wise maximum; `b` where either is not a number.
    fn max_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Lane-wise minimum; `b` where either is not a number.
    fn min_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// The sum of all lanes: halves are folded onto each other until one lane is left.
    fn sum(self, x: Self::F) -> f32;
    /// The largest lane.
    fn max_lane(self, x: Self::F) -> f32;
    /// Requests the cache line at `at` into the second-level cache; any address is allowed.
    ///
    /// Not the first level: those requests hold its few miss buffers, which halves the rate on Zen 4.
    fn prefetch(self, at: *const u8);

    /// The first `LANES` × 4 bytes of a slice.
    ///
    /// # Panics
    /// When there are fewer; so do all methods on slices.
    #[inline(always)]
    fn read(self, from: &[u8]) -> Self::I {
        assert!(from.len() >= 4 * Self::LANES, "a vector to read");
        // SAFETY: just checked to have as many bytes.
        unsafe { self.load(from.as_ptr()) }
    }

    /// `LANES` × 4 bytes to the front of a slice.
    #[inline(always)]
    fn write(self, to: &mut [u8], x: Self::I) {
        assert!(to.len() >= 4 * Self::LANES, "room for a vector");
        // SAFETY: just checked to have as many bytes.
        unsafe { self.store(to.as_mut_ptr(), x) }
    }

    /// The lanes as an array; those beyond `LANES` are 0.
    #[inline(always)]
    fn lanes(self, x: Self::I) -> [i32; 16] {
        const { assert!(Self::LANES <= 16) };
        let mut lanes = [0; 16];
        // SAFETY: no form has more than 16 lanes, as just checked.
        unsafe { self.store(lanes.as_mut_ptr().cast(), x) };
        lanes
    }

    /// The first `LANES` signed bytes of a slice, one in each lane.
    #[inline(always)]
    fn read_bytes(self, from: &[u8]) -> Self::I {
        assert!(from.len() >= Self::LANES, "bytes to read");
        // SAFETY: just checked to have as many bytes.
        unsafe { self.load_bytes(from.as_ptr()) }
    }

    /// The low byte of each lane to the front of a slice.
    #[inline(always)]
    fn write_bytes(self, to: &mut [u8], x: Self::I) {
        assert!(to.len() >= Self::LANES, "room for bytes");
        // SAFETY: just checked to have as many bytes.
        unsafe { self.store_bytes(to.as_mut_ptr(), x) }
    }

    /// The first `LANES` floats of a slice.
    #[inline(always)]
    fn read_f(self, from: &[f32]) -> Self::F {
        assert!(from.len() >= Self::LANES, "floats to read");
        // SAFETY: just checked to have as many floats.
        unsafe { self.load_f(from.as_ptr()) }
    }

    /// `LANES` floats to the front of a slice.
    #[inline(always)]
    fn write_f(self, to: &mut [f32], x: Self::F) {
        assert!(to.len() >= Self::LANES, "room for floats");
        // SAFETY: just checked to have as many floats.
        unsafe { self.store_f(to.as_mut_ptr(), x) }
    }

    /// The first `LANES` half-precision floats of a slice of bytes, widened.
    #[inline(always)]
    fn read_half(self, from: &[u8]) -> Self::F {
        assert!(from.len() >= 2 * Self::LANES, "half-precision floats to read");
        // SAFETY: just checked to have as many bytes.
        unsafe { self.load_half(from.as_ptr().cast()) }
    }

    /// `LANES` half-precision floats to the front of a slice of bytes, rounded to nearest even.
    #[inline(always)]
    fn write_half(self, to: &mut [u8], x: Self::F) {
        assert!(to.len() >= 2 * Self::LANES, "room for half-precision floats");
        // SAFETY: just checked to have as many bytes.
        unsafe { self.store_half(to.as_mut_ptr().cast(), x) }
    }
}
