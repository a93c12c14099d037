//! The host's vector unit: loops over lanes are compiled a second time for it.
//!
//! Results are the same with and without it. Not here: the loops.
#![expect(
    unsafe_code,
    reason = "the host's instructions beyond the baseline have to be seen before they are used"
)]

/// The vector unit that was detected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Simd {
    /// The baseline of the architecture.
    Portable,
    /// AVX2, FMA, F16C and the bit manipulations.
    #[cfg(target_arch = "x86_64")]
    Avx2(Seen),
}

/// Only `detect` makes one.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(());

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn fused_avx2(a: &[u32; 32], b: &[u32; 32], c: &[u32; 32], out: &mut [u32; 32]) -> bool {
    use core::arch::x86_64::{
        _CMP_UNORD_Q, _mm256_cmp_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_movemask_ps, _mm256_storeu_ps,
    };
    let mut nan = 0;
    let mut at = 0;
    while at < 32 {
        // SAFETY: `at` is 0, 8, 16 or 24, so eight words from there lie inside the arrays of 32.
        unsafe {
            let a = _mm256_loadu_ps(a.as_ptr().add(at).cast());
            let b = _mm256_loadu_ps(b.as_ptr().add(at).cast());
            let c = _mm256_loadu_ps(c.as_ptr().add(at).cast());
            let sum = _mm256_fmadd_ps(a, b, c);
            nan |= _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(sum, sum));
            _mm256_storeu_ps(out.as_mut_ptr().add(at).cast(), sum);
        }
        at += 8;
    }
    nan == 0
}

impl Simd {
    /// Detects the vector unit of the processor.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn detect() -> Self {
        use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
        // Bit numbers: Intel SDM vol. 2A, CPUID leaves 1, 7 and 0x80000001.
        const BASIC: u32 = 1 << 12 | 1 << 23 | 1 << 27 | 1 << 29;
        const EXTENDED: u32 = 1 << 3 | 1 << 5 | 1 << 8;
        const LZCNT: u32 = 1 << 5;
        const YMM_STATE: u64 = 0b110;

        #[target_feature(enable = "xsave")]
        fn saved_state() -> u64 {
            // SAFETY: register 0 exists wherever XGETBV does (Intel SDM vol. 1, 13.3).
            unsafe { _xgetbv(0) }
        }
        if __cpuid(0).eax < 7 || __cpuid(0x8000_0000).eax < 0x8000_0001 {
            return Self::Portable;
        }
        let has = __cpuid(1).ecx & BASIC == BASIC
            && __cpuid_count(7, 0).ebx & EXTENDED == EXTENDED
            && __cpuid(0x8000_0001).ecx & LZCNT != 0;
        // SAFETY: OSXSAVE, bit 27 of the first word, says that XGETBV is enabled.
        if has && unsafe { saved_state() } & YMM_STATE == YMM_STATE {
            Self::Avx2(Seen(()))
        } else {
            Self::Portable
        }
    }

    /// No extension of this architecture is used.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn detect() -> Self {
        Self::Portable
    }

    /// Runs `work`, compiled for the vector unit.
    #[inline(always)]
    pub(crate) fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self {
            Self::Portable => work(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value exists because `detect` has seen all of these extensions.
            Self::Avx2(_) => unsafe { with_avx2(work) },
        }
    }

    /// `a * b + c` with one rounding to nearest; false if some result is not a number or the host has no such
    /// instruction; then `out` is not valid.
    #[inline]
    pub(crate) fn fused(self, a: &[u32; 32], b: &[u32; 32], c: &[u32; 32], out: &mut [u32; 32]) -> bool {
        match self {
            Self::Portable => false,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value exists because `detect` has seen all of these extensions.
            Self::Avx2(_) => unsafe { fused_avx2(a, b, c, out) },
        }
    }
}
