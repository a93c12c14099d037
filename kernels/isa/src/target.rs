//! The chips: name, instruction-set generation, and the facts in which chips of one generation differ.
//!
//! Not here: opcodes (tables), hazards (the compiler).

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
}

/// A chip, by the name LLVM gives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// Radeon RX 7900, PRO W7900 (Navi 31).
    Gfx1100,
    /// Radeon RX 7800, 7700 (Navi 32).
    Gfx1101,
    /// Radeon RX 7600 (Navi 33).
    Gfx1102,
    /// Phoenix APU.
    Gfx1103,
    /// Strix Point APU.
    Gfx1150,
    /// Strix Halo APU.
    Gfx1151,
    /// Radeon RX 9060 (Navi 44).
    Gfx1200,
    /// Radeon RX 9070 (Navi 48).
    Gfx1201,
}

/// All targets in the order of their numbers.
pub const TARGETS: [Target; 8] = [
    Target::Gfx1100,
    Target::Gfx1101,
    Target::Gfx1102,
    Target::Gfx1103,
    Target::Gfx1150,
    Target::Gfx1151,
    Target::Gfx1200,
    Target::Gfx1201,
];

/// What one chip differs in from its neighbors.
struct Facts {
    name: &'static str,
    generation: Generation,
    elf_machine: u8,
    vgprs_per_simd: u16,
    pads_user_sgprs: bool,
}

const fn facts(name: &'static str, generation: Generation, elf: u8, vgprs: u16, pads: bool) -> Facts {
    Facts { name, generation, elf_machine: elf, vgprs_per_simd: vgprs, pads_user_sgprs: pads }
}

static FACTS: [Facts; 8] = [
    facts("gfx1100", Generation::Gfx11, 0x41, 1536, true),
    facts("gfx1101", Generation::Gfx11, 0x46, 1536, false),
    facts("gfx1102", Generation::Gfx11, 0x47, 1024, true),
    facts("gfx1103", Generation::Gfx11, 0x44, 1024, false),
    facts("gfx1150", Generation::Gfx11_5, 0x43, 1024, false),
    facts("gfx1151", Generation::Gfx11_5, 0x4a, 1536, false),
    facts("gfx1200", Generation::Gfx12, 0x48, 1536, false),
    facts("gfx1201", Generation::Gfx12, 0x4e, 1536, false),
];

impl Target {
    fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }

    /// The name, for example `gfx1100`.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Finds a target by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name() == name)
    }

    /// The instruction-set generation.
    pub fn generation(self) -> Generation {
        self.facts().generation
    }

    /// Low byte of `e_flags` in a code object for this chip (LLVM's processor number).
    pub fn elf_machine(self) -> u8 {
        self.facts().elf_machine
    }

    /// Vector registers per SIMD for waves of 32 lanes.
    pub fn vgprs_per_simd(self) -> u16 {
        self.facts().vgprs_per_simd
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

    /// Whether user plus system SGPRs of a wave32 kernel must number at least 16 (gfx1100 and gfx1102).
    pub fn pads_user_sgprs(self) -> bool {
        self.facts().pads_user_sgprs
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
