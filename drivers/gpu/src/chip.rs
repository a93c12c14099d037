//! Chips: from the kernel interface's number to the row of the chip table, and a chip's limits.
//!
//! The table is `doorbell_kernels::isa::CHIPS`. The cost of a dispatch depends on the packet processor and is in
//! [`doorbell_kfd::packet::LaunchCost`].

use doorbell_kernels::isa::Target;
use doorbell_kfd::topology::{Isa, KernelSupport};

/// The compiler's target for a device: its own or its nearest relative's; `None` if there are no kernels for it.
pub fn target(isa: Isa) -> Option<Target> {
    Target::for_version(isa.0)
}

/// The kernels that exist for a device, for [`doorbell_kfd::topology::choose`] and [`doorbell_kfd::doctor::examine`].
///
/// ```
/// use doorbell_gpu::chip::kernel_support;
/// use doorbell_kfd::topology::{Isa, KernelSupport};
///
/// assert_eq!(kernel_support(Isa::GFX1100), KernelSupport::Own);
/// assert_eq!(kernel_support(Isa(110_502)), KernelSupport::Relative(Isa::GFX1150));
/// assert_eq!(kernel_support(Isa::GFX942), KernelSupport::None);
/// ```
pub fn kernel_support(isa: Isa) -> KernelSupport {
    match target(isa).map(|target| Isa(target.version())) {
        None => KernelSupport::None,
        Some(own) if own == isa => KernelSupport::Own,
        Some(relative) => KernelSupport::Relative(relative),
    }
}

/// Limits of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Bytes per second from memory.
    pub bytes: u64,
    /// Multiply-adds per second of the matrix units in half precision.
    pub products: u64,
}

/// The limits of the largest product with a target.
pub fn peak(target: Target) -> Peak {
    Peak { bytes: target.bytes_per_second(), products: target.products_per_second() }
}
