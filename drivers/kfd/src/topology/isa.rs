//! Instruction-set names of devices, as a table. Which kernels exist for one is not known here.
//!
//! Source: `amdkfd/kfd_device.c:kgd2kfd_probe` for the versions, `llvm/BinaryFormat/ELF.h` for the ELF numbers.

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
    /// What this driver has no facts about.
    Other,
}

/// How far this program goes with an instruction set.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Kernels are made for it.
    Full,
    /// It runs the kernels of another one, with a notice.
    As(Isa),
    /// Known by name only.
    Unsupported,
}

struct Row {
    isa: Isa,
    /// Low byte of `e_flags` in a code object.
    mach: u8,
    /// Whether the chip is part of a CPU, when the render node cannot be asked.
    apu: bool,
    support: Support,
}

const fn row(version: u32, mach: u8, apu: bool, support: Support) -> Row {
    Row { isa: Isa(version), mach, apu, support }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(90010, 0x3F, false, Support::Unsupported),
    row(90402, 0x4C, false, Support::Unsupported),
    row(100300, 0x36, false, Support::Unsupported),
    row(100301, 0x37, false, Support::Unsupported),
    row(100302, 0x38, false, Support::Unsupported),
    row(100303, 0x39, true, Support::Unsupported),
    row(100304, 0x3E, false, Support::Unsupported),
    row(100305, 0x3D, true, Support::Unsupported),
    row(100306, 0x45, true, Support::Unsupported),
    row(110000, 0x41, false, Support::Full),
    row(110001, 0x46, false, Support::Full),
    row(110002, 0x47, false, Support::Full),
    row(110003, 0x44, true, Support::Full),
    row(110500, 0x43, true, Support::Full),
    row(110501, 0x4A, true, Support::Full),
    row(110502, 0x55, true, Support::As(Isa::GFX1150)),
    row(110503, 0x58, true, Support::As(Isa::GFX1150)),
    row(120000, 0x48, false, Support::Full),
    row(120001, 0x4E, false, Support::Full),
];

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

    fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.isa == self)
    }

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

    /// How far this program goes with it.
    pub fn support(self) -> Support {
        self.row().map_or(Support::Unsupported, |row| row.support)
    }

    /// The instruction set whose kernels run here: its own, or that of its nearest validated relative.
    pub fn kernels(self) -> Option<Self> {
        match self.support() {
            Support::Full => Some(self),
            Support::As(isa) => Some(isa),
            Support::Unsupported => None,
        }
    }

    /// The processor number in a code object's `e_flags`.
    pub fn mach(self) -> Option<u8> {
        self.row().map(|row| row.mach)
    }

    /// The instruction set of a processor number.
    pub fn from_mach(mach: u8) -> Option<Self> {
        ROWS.iter().find(|row| row.mach == mach).map(|row| row.isa)
    }

    /// Whether its waves enter a second-level trap handler. RDNA3 chips start them without one, as a work-around for
    /// their context save (`amdkfd/kfd_debug.h:kfd_dbg_has_cwsr_workaround`).
    pub const fn enters_trap_handler(self) -> bool {
        match self.generation() {
            Generation::Gfx11 => self.minor() >= 5,
            Generation::Gfx12 => true,
            Generation::Gfx9 | Generation::Gfx10 | Generation::Other => false,
        }
    }

    /// Whether chips of this kind sit in a CPU; a guess for when the render node does not answer.
    pub fn is_usually_apu(self) -> bool {
        self.row().is_some_and(|row| row.apu)
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
            let mach = Isa(version).mach().expect("in the table");
            assert_eq!(Isa::from_mach(mach), Some(Isa(version)));
        }
        assert_eq!(Isa(110503).kernels(), Some(Isa::GFX1150));
        assert_eq!(Isa(100306).kernels(), None);
        assert_eq!(Isa(120500).generation(), Generation::Other);
        assert_eq!(Isa(0).generation(), Generation::Other);
        let entering =
            [110_003, 110_500, 110_502, 120_001, 100_300].map(|isa| Isa(isa).enters_trap_handler());
        assert_eq!(entering, [false, true, true, true, false]);
    }
}
