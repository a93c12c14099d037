//! The chip table: one row per chip with every fact that the compiler, the kernel library and the GPU driver use.
//!
//! Sources: LLVM's `ELF.h` and `GCNSubtarget` for numbers and registers, `kfd_device.c` for versions, AMD's product pages
//! for the figures of the largest product. Not here: opcodes (the instruction tables), hazards (the compiler), the
//! products that the software GPU models (`drivers/soft` keeps its own numbers and checks these against them).

use core::fmt;

/// Instruction-set generation; selects the opcode column of a [`Row`](crate::Row).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Generation {
    /// RDNA3: gfx1100 to gfx1103.
    Gfx11,
    /// RDNA3.5: gfx1150 and gfx1151. Adds scalar float and DPP with a scalar second source.
    Gfx11_5,
    /// RDNA4: gfx1200 and gfx1201. 96-bit memory forms, split wait counters.
    Gfx12,
}

impl Generation {
    /// Index of the opcode column.
    pub const fn column(self) -> usize {
        match self {
            Self::Gfx11 => 0,
            Self::Gfx11_5 => 1,
            Self::Gfx12 => 2,
        }
    }

    /// Multiply-adds in half precision that the matrix units of one compute unit do per clock.
    pub const fn products_per_clock(self) -> u32 {
        match self {
            Self::Gfx11 | Self::Gfx11_5 => 256,
            Self::Gfx12 => 512,
        }
    }
}

/// The facts of one chip. Compute units, clock and bandwidth are those of the largest product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    /// The chip.
    pub target: Target,
    /// LLVM's name, for example `gfx1100`.
    pub name: &'static str,
    /// Instruction-set generation.
    pub generation: Generation,
    /// The kernel driver's `gfx_target_version`: major · 10000 + minor · 100 + stepping.
    pub version: u32,
    /// Low byte of `e_flags` in a code object (LLVM's `EF_AMDGPU_MACH`).
    pub elf_machine: u8,
    /// Vector registers per SIMD for waves of 32 lanes.
    pub vgprs_per_simd: u16,
    /// User plus system SGPRs of a wave32 kernel must number at least 16 (LLVM's `UserSGPRInit16Bug`).
    pub pads_user_sgprs: bool,
    /// Compute units.
    pub compute_units: u32,
    /// Boost clock in MHz.
    pub clock_mhz: u32,
    /// Memory bandwidth in GB/s.
    pub bandwidth_gb: u32,
}

/// Makes [`Target`] and [`CHIPS`] of one list, so that they cannot differ.
macro_rules! chips {
    ($($(#[$doc:meta])* $target:ident $name:literal $generation:ident $version:literal $elf:literal $vgprs:literal
        $pads:literal $units:literal $clock:literal $bandwidth:literal;)*) => {
        /// A chip, by the name LLVM gives it.
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Target {
            $($(#[$doc])* $target,)*
        }

        /// All targets in the order of their numbers.
        pub const TARGETS: [Target; CHIPS.len()] = [$(Target::$target),*];

        /// All chips in the order of [`Target`].
        pub static CHIPS: [Chip; [$($elf),*].len()] = [$(Chip {
            target: Target::$target,
            name: $name,
            generation: Generation::$generation,
            version: $version,
            elf_machine: $elf,
            vgprs_per_simd: $vgprs,
            pads_user_sgprs: $pads,
            compute_units: $units,
            clock_mhz: $clock,
            bandwidth_gb: $bandwidth,
        }),*];
    };
}

#[rustfmt::skip]
chips! {
    // Name, generation, gfx_target_version, ELF number, VGPRs per SIMD, pads user SGPRs, compute units, MHz, GB/s.
    /// Radeon RX 7900, PRO W7900 (Navi 31).
    Gfx1100 "gfx1100" Gfx11   110_000 0x41 1536 true  96 2500 960;
    /// Radeon RX 7800, 7700 (Navi 32).
    Gfx1101 "gfx1101" Gfx11   110_001 0x46 1536 false 60 2400 624;
    /// Radeon RX 7600 (Navi 33).
    Gfx1102 "gfx1102" Gfx11   110_002 0x47 1024 true  32 2600 288;
    /// Phoenix APU (780M).
    Gfx1103 "gfx1103" Gfx11   110_003 0x44 1024 false 12 2700 120;
    /// Strix Point APU (890M).
    Gfx1150 "gfx1150" Gfx11_5 110_500 0x43 1024 false 16 2900 120;
    /// Strix Halo APU (8060S).
    Gfx1151 "gfx1151" Gfx11_5 110_501 0x4a 1536 false 40 2900 256;
    /// Radeon RX 9060 (Navi 44).
    Gfx1200 "gfx1200" Gfx12   120_000 0x48 1536 false 32 3100 320;
    /// Radeon RX 9070 (Navi 48).
    Gfx1201 "gfx1201" Gfx12   120_001 0x4e 1536 false 64 2900 640;
}

/// Chips without a row of their own that run the kernels of another one, by `gfx_target_version`: gfx1152, gfx1153.
const RELATIVES: [(u32, Target); 2] = [(110_502, Target::Gfx1150), (110_503, Target::Gfx1150)];

impl Target {
    /// The chip's row.
    pub fn chip(self) -> &'static Chip {
        &CHIPS[self as usize]
    }

    /// The name, for example `gfx1100`.
    pub fn name(self) -> &'static str {
        self.chip().name
    }

    /// Finds a target by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name() == name)
    }

    /// Finds the target whose kernels run on the chip of a `gfx_target_version`: its own or its nearest relative's.
    pub fn for_version(version: u32) -> Option<Self> {
        let own = TARGETS.into_iter().find(|target| target.version() == version);
        own.or_else(|| RELATIVES.iter().find(|(relative, _)| *relative == version).map(|(_, target)| *target))
    }

    /// The instruction-set generation.
    pub fn generation(self) -> Generation {
        self.chip().generation
    }

    /// The kernel driver's `gfx_target_version`.
    pub fn version(self) -> u32 {
        self.chip().version
    }

    /// Low byte of `e_flags` in a code object for this chip (LLVM's processor number).
    pub fn elf_machine(self) -> u8 {
        self.chip().elf_machine
    }

    /// Vector registers per SIMD for waves of 32 lanes.
    pub fn vgprs_per_simd(self) -> u16 {
        self.chip().vgprs_per_simd
    }

    /// Allocation granule of vector registers for waves of 32 lanes: 24 on the chips with the large file, else 16.
    pub fn vgpr_granule(self) -> u16 {
        if self.vgprs_per_simd() == 1536 { 24 } else { 16 }
    }

    /// Waves of 32 lanes that fit a SIMD with `vgprs` vector registers each (at most 16).
    pub fn waves_per_simd(self, vgprs: u16) -> u16 {
        let granule = self.vgpr_granule();
        let allocated = vgprs.max(1).div_ceil(granule) * granule;
        (self.vgprs_per_simd() / allocated).min(16)
    }

    /// True if user plus system SGPRs of a wave32 kernel must number at least 16 (gfx1100 and gfx1102).
    pub fn pads_user_sgprs(self) -> bool {
        self.chip().pads_user_sgprs
    }

    /// Multiply-adds per second of the matrix units in half precision, at the boost clock.
    pub fn products_per_second(self) -> u64 {
        let chip = self.chip();
        let per_clock = u64::from(chip.compute_units) * u64::from(chip.generation.products_per_clock());
        per_clock * u64::from(chip.clock_mhz) * 1_000_000
    }

    /// Bytes per second from memory, the specified peak.
    pub fn bytes_per_second(self) -> u64 {
        u64::from(self.chip().bandwidth_gb) * 1_000_000_000
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name_and_by_version() {
        for target in TARGETS {
            assert_eq!(target.chip().target, target);
            assert_eq!(Target::from_name(target.name()), Some(target));
            assert_eq!(Target::for_version(target.version()), Some(target));
        }
        assert_eq!(Target::for_version(110_502), Some(Target::Gfx1150));
        assert_eq!(Target::for_version(100_306), None);
    }
}
