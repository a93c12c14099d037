//! The compiled forms of the kernels, and which of them this processor runs. No kernel lives here.
//!
//! [`Features`] is what CPUID and XGETBV report; [`Isa`] is one of the three ways the kernels are compiled.
//! An [`Isa`] value exists only where its instructions do, so every holder of one may run them.

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Kernel, Portable, Simd};

pub use crate::simd::Features;

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
        return Avx2::detect().map(|token| Self(Form::Avx2(token)));
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// The AVX-512-VNNI form, where the processor has it.
    #[must_use]
    pub fn avx512() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Avx512::detect().map(|token| Self(Form::Avx512(token)));
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// Every form this processor runs, slowest first; for tests that compare them.
    pub fn available() -> impl Iterator<Item = Self> {
        [Some(Self::PORTABLE), Self::avx2(), Self::avx512()].into_iter().flatten()
    }

    /// The name of the form.
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

    #[test]
    fn the_best_form_is_the_last_of_the_available() {
        assert_eq!(Isa::available().last(), Some(Isa::best()));
    }
}
