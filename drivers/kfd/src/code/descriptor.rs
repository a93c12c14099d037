//! The 64-byte kernel descriptor: what is read from it and what makes a kernel acceptable.
//!
//! Source: LLVM `llvm/Support/AMDHSAKernelDescriptor.h` and `AMDGPUUsage.rst`. Kernels of this program take one
//! argument pointer and nothing else, use no scratch and no hidden arguments; others are refused at load.

use super::error::CodeError;

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR_BYTES: usize = 64;

/// Most LDS of a workgroup.
const GROUP_BYTES: u32 = 65536;

const KERNARG_POINTER: u16 = 1 << 3;
const WAVE32: u16 = 1 << 10;
const DYNAMIC_STACK: u16 = 1 << 11;

/// A loaded kernel: what a dispatch needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Address of the descriptor: the AQL packet's `kernel_object`.
    pub descriptor: u64,
    /// Address of the first instruction.
    pub entry: u64,
    /// COMPUTE_PGM_RSRC1.
    pub rsrc1: u32,
    /// COMPUTE_PGM_RSRC2, LDS size left 0.
    pub rsrc2: u32,
    /// COMPUTE_PGM_RSRC3.
    pub rsrc3: u32,
    /// Bytes of the arguments.
    pub kernarg_bytes: u32,
    /// Static LDS bytes of a workgroup.
    pub group_bytes: u32,
    /// 32 lanes per wave, otherwise 64.
    pub is_wave32: bool,
}

/// Reads a descriptor that will lie at `address`. Whether the entry is code is checked by the caller.
pub(super) fn read(bytes: &[u8; DESCRIPTOR_BYTES], address: u64) -> Result<Kernel, CodeError> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let (group_bytes, scratch, properties, preload) = (word(0), word(4), half(56), half(58));
    if properties & DYNAMIC_STACK != 0 {
        return Err(CodeError::DynamicStack);
    }
    if scratch != 0 || word(52) & 1 != 0 {
        return Err(CodeError::Scratch(scratch));
    }
    if properties & !(KERNARG_POINTER | WAVE32) != 0 {
        return Err(CodeError::Properties(properties));
    }
    if preload != 0 {
        return Err(CodeError::Preload(preload));
    }
    if group_bytes > GROUP_BYTES {
        return Err(CodeError::GroupSegment(group_bytes));
    }
    let offset = u64::from(word(16)) | u64::from(word(20)) << 32;
    Ok(Kernel {
        descriptor: address,
        entry: address.wrapping_add(offset),
        rsrc1: word(48),
        rsrc2: word(52),
        rsrc3: word(44),
        kernarg_bytes: word(8),
        group_bytes,
        is_wave32: properties & WAVE32 != 0,
    })
}
