//! The instruction sets of this processor, read from the processor itself. The forms of kernels are in `features`.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "XGETBV is an intrinsic"))]

/// The instruction-set extensions the kernels care about, as reported by the processor and the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// AVX2, FMA and F16C, with YMM state saved by the system.
    pub avx2: bool,
    /// AVX-512 F, BW, DQ, VL and VNNI, with ZMM and mask state saved by the system.
    pub avx512_vnni: bool,
}

impl Features {
    /// Reads CPUID and XGETBV; no operating system is needed.
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

        // Miri has no CPUID, and runs the portable kernels.
        if cfg!(miri) || __cpuid(0).eax < 7 {
            return Self::default();
        }
        let (basic, extended) = (__cpuid(1), __cpuid_count(7, 0));
        if basic.ecx & OSXSAVE == 0 {
            return Self::default();
        }
        // SAFETY: CPUID.1:ECX.OSXSAVE, just seen, says that XGETBV is enabled (Intel SDM vol. 1, 13.3).
        let saved = unsafe { saved_state() };
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
#[target_feature(enable = "xsave")]
fn saved_state() -> u64 {
    // SAFETY: register 0 exists wherever XGETBV does (Intel SDM vol. 1, 13.3).
    unsafe { core::arch::x86_64::_xgetbv(0) }
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
}
