//! Numbers of registers, values by lane, and windows of the flat address space.
//!
//! Not here: the registers of a wave (`wave.rs`).

use doorbell_isa::Resource;

/// One value per lane.
pub(crate) type Lanes = [u32; 32];
/// One 64-bit value per lane.
pub(crate) type Wide = [u64; 32];

/// Encoding number of the low half of VCC.
pub(crate) const VCC: usize = 106;
/// Encoding number of the first trap-handler register.
pub(crate) const TTMP: usize = 108;
/// Encoding number of the null register.
pub(crate) const NULL: usize = 124;
/// Encoding number of m0.
pub(crate) const M0: usize = 125;
/// Encoding number of EXEC.
pub(crate) const EXEC: usize = 126;
/// Base of the LDS window in the flat address space (KFD: LDS aperture).
pub(crate) const SHARED_BASE: u64 = 0x1_0000_0000_0000;
/// Base of the scratch window in the flat address space (KFD: scratch aperture).
pub(crate) const PRIVATE_BASE: u64 = 0x2_0000_0000_0000;
/// Bytes of either window.
pub(crate) const APERTURE: u64 = 1 << 32;

/// One register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Register {
    /// Vector.
    Vector(usize),
    /// Scalar, by encoding number.
    Scalar(usize),
}

/// Registers of a resource.
pub(crate) fn registers(resource: Resource) -> impl Iterator<Item = Register> {
    let (vector, first, count) = match resource {
        Resource::Vgpr(reg) => (true, usize::from(reg.first), usize::from(reg.count)),
        Resource::Scalar(reg) => (false, usize::from(reg.first), usize::from(reg.count)),
        Resource::Scc => (false, 0, 0),
    };
    (first..first + count)
        .map(move |number| if vector { Register::Vector(number) } else { Register::Scalar(number) })
}
