//! The products that the software GPU models: their description by KFD, and rates that kernels reach on them.
//!
//! These numbers are an oracle: they are soft's own and repeat some of the chip table of doorbell-isa on purpose, so that
//! a wrong number in one of the two is found (`the_chip_table_agrees`). Shapes are public figures; save-area sizes are
//! those that the kernel computes (docs/facts/kfd.md). Not here: the files that describe a machine
//! (`kernel/files.rs`), time (`processor/model.rs`).

use doorbell_isa::Target;

/// A product as KFD describes it.
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
    /// Compute units; each has two SIMDs.
    pub compute_units: u32,
    /// Shader engines; each has two shader arrays.
    pub shader_engines: u32,
    /// Compute units per shader array.
    pub units_per_array: u32,
    /// VRAM bytes, or an APU's carve-out.
    pub vram: u64,
    /// Buffers for saving the waves of a queue.
    pub save_area: SaveArea,
    /// System memory is the GPU's memory.
    pub is_apu: bool,
    /// Rates and caches, for products whose time is modelled.
    pub rates: Option<Rates>,
}

/// Bytes for saving the waves of a queue, as the kernel computes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SaveArea {
    /// Control stack.
    pub control_stack: u64,
    /// Control stack and wave state.
    pub total: u64,
    /// Debugger memory.
    pub debug: u64,
}

/// Rates and caches of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// GL1 caches (one per shader array).
    pub arrays: u64,
    /// Clock in MHz.
    pub clock_mhz: u32,
    /// Bytes of L2.
    pub l2: u64,
    /// GB/s from memory, as far as whole kernels reached them.
    pub bandwidth_gb: u32,
}

/// Versions of the blocks of a chip in its discovery table (`amdgpu_discovery.c`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockVersions {
    /// Graphics core (GC, hardware id 11).
    pub(crate) graphics: [u32; 3],
    /// SDMA engines (hardware id 42).
    pub(crate) sdma: [u32; 3],
    /// Bus interface (NBIF, hardware id 108).
    pub(crate) bus: [u32; 3],
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const CARVE_OUT: u64 = 512 * MIB;

const fn row(
    name: &'static str,
    target: Target,
    [version, device]: [u32; 2],
    [compute_units, shader_engines, units_per_array]: [u32; 3],
    vram: u64,
    [control_stack, total, debug]: [u64; 3],
) -> Chip {
    Chip {
        name,
        target,
        version,
        device,
        compute_units,
        shader_engines,
        units_per_array,
        vram,
        save_area: SaveArea { control_stack, total, debug },
        is_apu: vram == CARVE_OUT,
        rates: None,
    }
}

impl Chip {
    const fn with_rates(self, arrays: u64, clock_mhz: u32, l2: u64, bandwidth_gb: u32) -> Self {
        Self { rates: Some(Rates { arrays, clock_mhz, l2, bandwidth_gb }), ..self }
    }
}

/// The products: name, target, version and PCI device, shape, memory, save area.
///
/// Bandwidths: 7900 XTX between 699 GB/s of whole-model decoding and 92 % of 960 of single kernels; W7900 scaled by its
/// peak; 8060S as measured. The RX 9070 XT has no measured figure: the same share of its 640 GB/s peak.
#[rustfmt::skip]
pub static CHIPS: [Chip; 11] = [
    row("RX 7900 XTX", Target::Gfx1100, [110_000, 0x744c], [96, 6, 8], 24 * GIB, [0xA000, 0x2BE_A000, 0x1_8000])
        .with_rates(12, 2500, 6 * MIB, 800),
    row("W7900", Target::Gfx1100, [110_000, 0x7448], [96, 6, 8], 48 * GIB, [0xA000, 0x2BE_A000, 0x1_8000])
        .with_rates(12, 2500, 6 * MIB, 720),
    row("RX 7900 XT", Target::Gfx1100, [110_000, 0x744c], [84, 6, 8], 20 * GIB, [0x8000, 0x266_C000, 0x1_5000]),
    row("RX 7800 XT", Target::Gfx1101, [110_001, 0x747e], [60, 3, 10], 16 * GIB, [0x6000, 0x1B7_2000, 0xF000]),
    row("RX 7600", Target::Gfx1102, [110_002, 0x7480], [32, 2, 8], 8 * GIB, [0x4000, 0xAA_4000, 0x8000]),
    row("780M", Target::Gfx1103, [110_003, 0x15bf], [12, 1, 6], CARVE_OUT, [0x2000, 0x3F_E000, 0x3000]),
    row("890M", Target::Gfx1150, [110_500, 0x150e], [16, 1, 8], CARVE_OUT, [0x2000, 0x55_2000, 0x4000]),
    row("8060S", Target::Gfx1151, [110_501, 0x1586], [40, 2, 10], CARVE_OUT, [0x4000, 0x124_C000, 0xA000])
        .with_rates(2, 2900, 2 * MIB, 212),
    row("8050S", Target::Gfx1151, [110_501, 0x1586], [32, 2, 10], CARVE_OUT, [0x4000, 0xEA_4000, 0x8000]),
    row("RX 9060 XT", Target::Gfx1200, [120_000, 0x7590], [32, 2, 8], 16 * GIB, [0x4000, 0xEA_4000, 0x8000]),
    row("RX 9070 XT", Target::Gfx1201, [120_001, 0x7550], [64, 4, 8], 16 * GIB, [0x7000, 0x1D4_7000, 0x1_0000])
        .with_rates(8, 2970, 8 * MIB, 533),
];

/// The product of a name, or the first one of an instruction set such as `gfx1100`.
pub fn chip(name: &str) -> Option<Chip> {
    CHIPS.iter().find(|chip| chip.name == name || chip.target.name() == name).copied()
}

/// Versions of a chip's blocks.
pub(crate) fn block_versions(target: Target) -> BlockVersions {
    let (graphics, sdma, bus) = match target {
        Target::Gfx1100 => ([11, 0, 0], [6, 0, 0], [4, 3, 0]),
        Target::Gfx1101 => ([11, 0, 3], [6, 0, 3], [4, 3, 1]),
        Target::Gfx1102 => ([11, 0, 2], [6, 0, 2], [4, 3, 0]),
        Target::Gfx1103 => ([11, 0, 1], [6, 0, 1], [7, 7, 0]),
        Target::Gfx1150 => ([11, 5, 0], [6, 1, 0], [7, 11, 0]),
        Target::Gfx1151 => ([11, 5, 1], [6, 1, 1], [7, 11, 1]),
        Target::Gfx1200 => ([12, 0, 0], [7, 0, 0], [6, 3, 1]),
        Target::Gfx1201 => ([12, 0, 1], [7, 0, 1], [6, 3, 1]),
    };
    BlockVersions { graphics, sdma, bus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chip_table_agrees() {
        for row in &doorbell_isa::CHIPS {
            let products = || CHIPS.iter().filter(|chip| chip.target == row.target);
            assert!(products().all(|chip| chip.version == row.version), "{}", row.name);
            assert_eq!(
                products().map(|chip| chip.compute_units).max(),
                Some(row.compute_units),
                "{}",
                row.name
            );
            // 32 lanes of four bytes; the save area holds the registers of two SIMDs for each compute unit.
            let registers = u64::from(row.vgprs_per_simd) * 128 * 2;
            for chip in products() {
                let state = u64::from(chip.compute_units) * (registers + 0x4000 + 0x1_0000 + 0x1000);
                let state = state.next_multiple_of(4096);
                assert_eq!(chip.save_area.total, chip.save_area.control_stack + state, "{}", chip.name);
            }
        }
    }
}
