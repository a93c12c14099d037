//! Instruction sets of devices, by the numbers of the kernel interface. Which GPU kernels exist for one is the caller's
//! knowledge: see `KernelSupport`.
//!
//! Source: `amdkfd/kfd_device.c:kgd2kfd_probe`.

use core::fmt;

/// An instruction set by the kernel's `gfx_target_version`: major · 10000 + minor · 100 + stepping.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Isa(pub u32);

/// Families that differ in what a driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// CDNA and Vega: 64 lanes, HWS scheduler.
    Gfx9,
    /// RDNA 1 and 2.
    Gfx10,
    /// RDNA 3 and 3.5.
    Gfx11,
    /// RDNA 4.
    Gfx12,
    /// Unknown to this driver.
    Other,
}

/// APUs, by `gfx_target_version`, for when the render node does not answer.
const APUS: [u32; 8] = [100_303, 100_305, 100_306, 110_003, 110_500, 110_501, 110_502, 110_503];

impl Isa {
    /// RX 7900 and Pro W7900.
    pub const GFX1100: Self = Self(110_000);
    /// RX 7800, 7700.
    pub const GFX1101: Self = Self(110_001);
    /// RX 7600.
    pub const GFX1102: Self = Self(110_002);
    /// 780M and other Phoenix graphics.
    pub const GFX1103: Self = Self(110_003);
    /// 890M (Strix Point).
    pub const GFX1150: Self = Self(110_500);
    /// 8060S (Strix Halo).
    pub const GFX1151: Self = Self(110_501);
    /// RX 9060.
    pub const GFX1200: Self = Self(120_000);
    /// RX 9070.
    pub const GFX1201: Self = Self(120_001);
    /// MI200 series.
    pub const GFX90A: Self = Self(90_010);
    /// MI300 series.
    pub const GFX942: Self = Self(90_402);

    /// 9, 10, 11, 12.
    pub const fn major(self) -> u32 {
        self.0 / 10_000
    }

    /// The second figure.
    pub const fn minor(self) -> u32 {
        self.0 / 100 % 100
    }

    /// The third figure.
    pub const fn stepping(self) -> u32 {
        self.0 % 100
    }

    /// The family.
    pub const fn generation(self) -> Generation {
        match self.major() {
            9 => Generation::Gfx9,
            10 => Generation::Gfx10,
            11 => Generation::Gfx11,
            // gfx12.5 is another architecture under the same figure.
            12 if self.minor() < 5 => Generation::Gfx12,
            _ => Generation::Other,
        }
    }

    /// True if its waves enter a second-level trap handler. RDNA3 chips start them without one, as a work-around for
    /// their context save (`amdkfd/kfd_debug.h:kfd_dbg_has_cwsr_workaround`).
    pub const fn enters_trap_handler(self) -> bool {
        match self.generation() {
            Generation::Gfx11 => self.minor() >= 5,
            Generation::Gfx12 => true,
            Generation::Gfx9 | Generation::Gfx10 | Generation::Other => false,
        }
    }

    /// True if chips with this instruction set are part of a CPU; for when the render node does not answer.
    pub(crate) fn is_usually_apu(self) -> bool {
        APUS.contains(&self.0)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gfx{}{:x}{:x}", self.major(), self.minor(), self.stepping())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_follow_the_kernels_numbers() {
        let names = [
            (90010, "gfx90a"),
            (90402, "gfx942"),
            (100306, "gfx1036"),
            (110000, "gfx1100"),
            (110003, "gfx1103"),
            (110501, "gfx1151"),
            (110502, "gfx1152"),
            (120001, "gfx1201"),
        ];
        for (version, name) in names {
            assert_eq!(Isa(version).to_string(), name);
        }
        assert!(Isa(100306).is_usually_apu() && !Isa::GFX1201.is_usually_apu());
        assert_eq!(Isa(120500).generation(), Generation::Other);
        assert_eq!(Isa(0).generation(), Generation::Other);
        let entering =
            [110_003, 110_500, 110_502, 120_001, 100_300].map(|isa| Isa(isa).enters_trap_handler());
        assert_eq!(entering, [false, true, true, true, false]);
    }
}
