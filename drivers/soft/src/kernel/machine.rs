//! A machine of the software GPU: its products, memory size, kernel release.
//!
//! Not here: the products (`chips.rs`), the files that describe a machine (`files.rs`).

use alloc::vec::Vec;

use crate::chips::Chip;

/// A kernel release whose rules the software GPU follows.
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
    /// All releases.
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
