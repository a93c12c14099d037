//! Machines that can be pretended: chips, memory sizes, kernel release.
//!
//! Shapes are public figures; save-area sizes are those the kernel computes (reference kfd, d.4). Not here: the
//! files that describe them (`files.rs`).

use alloc::vec::Vec;

use doorbell_isa::Target;

/// A kernel whose rules are followed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Release {
    /// 6.1: interface 1.11, few checks.
    V6_1,
    /// 6.12: interface 1.17.
    V6_12,
    /// 7.2: interface 1.23.
    V7_2,
}

impl Release {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V6_1, Self::V6_12, Self::V7_2];

    /// Minor number of the interface.
    pub const fn minor(self) -> u32 {
        match self {
            Self::V6_1 => 11,
            Self::V6_12 => 17,
            Self::V7_2 => 23,
        }
    }
}

/// A chip as KFD describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    /// Marketing name.
    pub name: &'static str,
    /// Instruction set.
    pub target: Target,
    /// `gfx_target_version`.
    pub version: u32,
    /// PCI device.
    pub device: u32,
    /// Compute units, shader engines, compute units per array.
    pub shape: [u32; 3],
    /// VRAM bytes, or an APU's carve-out.
    pub vram: u64,
    /// Control stack, save area, debug area in bytes.
    pub save: [u64; 3],
    /// System memory is the GPU's memory.
    pub is_apu: bool,
}

const GIB: u64 = 1 << 30;
const CARVE_OUT: u64 = 512 << 20;

const fn row(
    name: &'static str,
    target: Target,
    version: u32,
    device: u32,
    shape: [u32; 3],
    vram: u64,
    save: [u64; 3],
) -> Chip {
    Chip { name, target, version, device, shape, vram, save, is_apu: vram == CARVE_OUT }
}

/// The chips that can be pretended.
#[rustfmt::skip]
pub static CHIPS: [Chip; 11] = [
    row("RX 7900 XTX", Target::Gfx1100, 110_000, 0x744c, [96, 6, 8], 24 * GIB, [0xA000, 0x2BE_A000, 0x1_8000]),
    row("W7900", Target::Gfx1100, 110_000, 0x7448, [96, 6, 8], 48 * GIB, [0xA000, 0x2BE_A000, 0x1_8000]),
    row("RX 7900 XT", Target::Gfx1100, 110_000, 0x744c, [84, 6, 8], 20 * GIB, [0x8000, 0x266_C000, 0x1_5000]),
    row("RX 7800 XT", Target::Gfx1101, 110_001, 0x747e, [60, 3, 10], 16 * GIB, [0x6000, 0x1B7_2000, 0xF000]),
    row("RX 7600", Target::Gfx1102, 110_002, 0x7480, [32, 2, 8], 8 * GIB, [0x4000, 0xAA_4000, 0x8000]),
    row("780M", Target::Gfx1103, 110_003, 0x15bf, [12, 1, 6], CARVE_OUT, [0x2000, 0x3F_E000, 0x3000]),
    row("890M", Target::Gfx1150, 110_500, 0x150e, [16, 1, 8], CARVE_OUT, [0x2000, 0x55_2000, 0x4000]),
    row("8060S", Target::Gfx1151, 110_501, 0x1586, [40, 2, 10], CARVE_OUT, [0x4000, 0x124_C000, 0xA000]),
    row("8050S", Target::Gfx1151, 110_501, 0x1586, [32, 2, 10], CARVE_OUT, [0x4000, 0xEA_4000, 0x8000]),
    row("RX 9060 XT", Target::Gfx1200, 120_000, 0x7590, [32, 2, 8], 16 * GIB, [0x4000, 0xEA_4000, 0x8000]),
    row("RX 9070 XT", Target::Gfx1201, 120_001, 0x7550, [64, 4, 8], 16 * GIB, [0x7000, 0x1D4_7000, 0x1_0000]),
];

/// The chip of a name, or the first one of an instruction set such as `gfx1100`.
pub fn chip(name: &str) -> Option<Chip> {
    CHIPS.iter().find(|chip| chip.name == name || chip.target.name() == name).copied()
}

/// One GPU of a machine.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The chip.
    pub chip: Chip,
    /// KFD's number.
    pub id: u32,
    /// Minor of the render node.
    pub render: u32,
    /// PCI bus.
    pub bus: u32,
    /// The CPU reaches only part of VRAM.
    pub small_bar: bool,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Kernel.
    pub release: Release,
    /// GPUs in the order of the bus.
    pub gpus: Vec<Gpu>,
    /// Bytes of system memory.
    pub ram: u64,
}

impl Machine {
    /// A machine with these chips.
    pub fn new(release: Release, ram: u64, chips: &[Chip]) -> Self {
        let gpus = (0u32..).zip(chips).map(|(number, chip)| Gpu {
            chip: *chip,
            id: 0x1234 + number * 0x1111,
            render: 128 + number,
            bus: 3 + number,
            small_bar: false,
        });
        Self { release, gpus: gpus.collect(), ram }
    }

    /// Bytes that GTT allocations may take in all.
    pub fn gtt(&self) -> u64 {
        self.ram / 2
    }

    /// Bytes of a GPU's memory bank: on an APU what VRAM requests are served from.
    pub fn bank(&self, gpu: &Gpu) -> u64 {
        let from_system = match self.release {
            Release::V6_1 => false,
            Release::V6_12 => gpu.chip.is_apu,
            Release::V7_2 => gpu.chip.is_apu && gpu.chip.vram < self.gtt(),
        };
        if from_system { self.gtt() } else { gpu.chip.vram }
    }

    /// A GPU by KFD's number.
    pub fn gpu(&self, id: u32) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.id == id)
    }
}
