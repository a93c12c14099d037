//! From the kernel's name of a chip to the compiler's, and what a chip can do a second at best.
//!
//! Figures are public specifications (bytes of memory traffic, multiply-adds of matrix units). What launching costs is
//! known to the driver ([`doorbell_kfd::packet::LaunchCost`]).

use doorbell_kernels::isa::{TARGETS, Target};
use doorbell_kfd::topology::Isa;

/// The compiler's target for a device, its own or its nearest relative's; `None` without kernels.
pub fn target(isa: Isa) -> Option<Target> {
    let isa = isa.kernels()?;
    let name = alloc::format!("{isa}");
    TARGETS.into_iter().find(|target| target.name() == name)
}

/// Limits of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Bytes a second from memory.
    pub bytes: u64,
    /// Multiply-adds a second of the matrix units in half precision.
    pub products: u64,
}

const GIGA: u64 = 1_000_000_000;

/// The figures of the largest product of a target.
pub fn peak(target: Target) -> Peak {
    // Multiply-adds: compute units, 256 a clock (512 for RDNA 4), clock.
    let (bytes, products) = match target {
        Target::Gfx1100 => (960, 96 * 256 * 25 / 10),
        Target::Gfx1101 => (624, 60 * 256 * 24 / 10),
        Target::Gfx1102 => (288, 32 * 256 * 26 / 10),
        Target::Gfx1103 => (120, 12 * 256 * 27 / 10),
        Target::Gfx1150 => (120, 16 * 256 * 29 / 10),
        Target::Gfx1151 => (256, 40 * 256 * 29 / 10),
        Target::Gfx1200 => (320, 32 * 512 * 31 / 10),
        Target::Gfx1201 => (640, 64 * 512 * 29 / 10),
    };
    Peak { bytes: bytes * GIGA, products: products * GIGA }
}
