//! Which instruction sets this processor has, asked from the processor itself. No kernel lives here.
//!
//! [`Features`] is what CPUID and XGETBV report; [`Isa`] is one of the three ways the kernels are compiled.
//! An [`Isa`] value exists only where its instructions do, so holding one is the license to run them.
#![expect(unsafe_code, reason = "XGETBV is an intrinsic")]

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Kernel, Portable, Simd};

/// The instruction-set extensions the kernels care about, as reported by the processor and the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// AVX2, FMA and F16C, with YMM state saved by the system.
    pub avx2: bool,
    /// AVX-512 F, BW, DQ, VL and VNNI, with ZMM and mask state saved by the system.
    pub avx512_vnni: bool,
}

impl Features {
    /// Asks the processor. Needs no operating system.
    #[cfg(target_arch = "x86_64")]
    #[must_use]
    pub fn detect() -> Self {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        // Bit numbers: Intel SDM vol. 2A, CPUID leaves 1 and 7.
        const FMA: u32 = 1 << 12;
        const OSXSAVE: u32 = 1 << 27;
        const F16C: u32 = 1 << 29;
        const AVX2: u32 = 1 << 5;
        const AVX512: u32 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31;
        const VNNI: u32 = 1 << 11;
        const YMM_STATE: u64 = 0b110;
        const ZMM_STATE: u64 = 0b1110_0110;

        if __cpuid(0).eax < 7 {
            return Self::default();
        }
        let (basic, extended) = (__cpuid(1), __cpuid_count(7, 0));
        if basic.ecx & OSXSAVE == 0 {
            return Self::default();
        }
        let saved = saved_state();
        let avx2 = saved & YMM_STATE == YMM_STATE
            && basic.ecx & (FMA | F16C) == FMA | F16C
            && extended.ebx & AVX2 != 0;
        let avx512_vnni = avx2
            && saved & ZMM_STATE == ZMM_STATE
            && extended.ebx & AVX512 == AVX512
            && extended.ecx & VNNI != 0;
        Self { avx2, avx512_vnni }
    }

    /// No extension is known on this architecture: the portable kernels are used.
    #[cfg(not(target_arch = "x86_64"))]
    #[must_use]
    pub fn detect() -> Self {
        Self::default()
    }
}

/// Register state the system saves on a context switch (XCR0).
#[cfg(target_arch = "x86_64")]
fn saved_state() -> u64 {
    #[target_feature(enable = "xsave")]
    fn xcr0() -> u64 {
        // SAFETY: register 0 exists wherever XGETBV does (Intel SDM vol. 1, 13.3).
        unsafe { core::arch::x86_64::_xgetbv(0) }
    }
    // SAFETY: the only caller has seen CPUID.1:ECX.OSXSAVE, which says XGETBV is enabled.
    unsafe { xcr0() }
}

/// One compiled form of the kernels that this processor can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Form);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Isa {
    /// Plain Rust, on any processor.
    pub const PORTABLE: Self = Self(Form::Portable);

    /// The fastest form this processor runs.
    #[must_use]
    pub fn best() -> Self {
        let [avx512, avx2] = [Self::avx512(), Self::avx2()];
        avx512.or(avx2).unwrap_or(Self::PORTABLE)
    }

    /// The AVX2 form, where the processor has it.
    #[must_use]
    pub fn avx2() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Avx2::new(Features::detect()).map(|token| Self(Form::Avx2(token)));
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// The AVX-512-VNNI form, where the processor has it.
    #[must_use]
    pub fn avx512() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Avx512::new(Features::detect()).map(|token| Self(Form::Avx512(token)));
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// Every form this processor runs, slowest first; for tests that compare them.
    pub fn available() -> impl Iterator<Item = Self> {
        [Some(Self::PORTABLE), Self::avx2(), Self::avx512()].into_iter().flatten()
    }

    /// The field's name of the form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Form::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Form::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Form::Avx512(_) => "AVX-512-VNNI",
        }
    }

    /// Runs `kernel` compiled for this form.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Form::Portable => Portable.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Form::Avx2(token) => token.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Form::Avx512(token) => token.run(kernel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library's own detection is the oracle.
    #[cfg(all(target_arch = "x86_64", feature = "std"))]
    #[test]
    fn detection_agrees_with_the_standard_library() {
        let features = Features::detect();
        let avx2 = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c");
        let avx512 = avx2
            && std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("avx512vnni");
        assert_eq!(features, Features { avx2, avx512_vnni: avx512 });
    }

    #[test]
    fn the_best_form_is_the_last_of_the_available() {
        assert_eq!(Isa::available().last(), Some(Isa::best()));
    }
}
