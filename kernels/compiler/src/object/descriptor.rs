//! The 64-byte kernel descriptor (kfd facts: rsrc1, rsrc2, rsrc3, properties) from a kernel's resources.

use crate::machine::Entry;
use doorbell_isa::{Generation, Target};

/// `s_code_end` dwords that follow the code: instruction prefetch must not leave mapped memory.
pub const PADDING_WORDS: usize = 96;

/// `s_code_end`.
pub const CODE_END: u32 = 0xbf9f_0000;

/// Resources of the chip that a kernel needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resources {
    /// VGPRs.
    pub vgprs: u16,
    /// SGPRs, VCC not among them.
    pub sgprs: u16,
    /// LDS bytes.
    pub lds_bytes: u32,
    /// Bytes of the argument segment.
    pub kernarg_bytes: u32,
    /// Work items per workgroup.
    pub workgroup: u32,
    /// Initial registers.
    pub entry: Entry,
    /// Bytes of code without padding.
    pub code_bytes: u32,
    /// Scratch bytes of each lane; 0 unless spilling was asked for.
    pub scratch_bytes: u32,
    /// VGPRs that live in scratch memory.
    pub spilled_vgprs: u32,
}

/// A kernel descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Resource word 1: registers, modes.
    pub rsrc1: u32,
    /// Resource word 2: scratch, user registers, workgroup ids.
    pub rsrc2: u32,
    /// Resource word 3: instruction prefetch.
    pub rsrc3: u32,
    /// Kernel code properties: kernarg pointer, wave of 32.
    pub properties: u16,
    /// LDS bytes.
    pub lds_bytes: u32,
    /// Scratch bytes of each lane.
    pub scratch_bytes: u32,
    /// Argument bytes.
    pub kernarg_bytes: u32,
}

/// Instruction prefetch at the start: the code in units of 128 bytes, as far as the field goes.
fn prefetch(code_bytes: u32, gfx12: bool) -> u32 {
    let most = if gfx12 { 255 } else { 63 };
    code_bytes.div_ceil(128).min(most) << 4
}

impl Descriptor {
    /// The descriptor of a kernel: wave of 32, WGP mode, round to nearest even, denormals kept, scratch only if some
    /// is used. The hardware sets the scratch base from gfx11 on, so no register is asked for.
    pub fn new(resources: &Resources, target: Target) -> Self {
        let gfx12 = target.generation() == Generation::Gfx12;
        let granules = u32::from(resources.vgprs.max(1).div_ceil(8)) - 1;
        let modes = if gfx12 { 0 } else { (1 << 21) | (1 << 23) };
        let denormals = 0xf << 16;
        let rsrc1 = granules | denormals | modes | (1 << 29) | (1 << 30);
        let ids = resources.entry.workgroup_ids;
        let enable = (0u32..).zip(ids).fold(0, |bits, (axis, on)| bits | (u32::from(on) << (7 + axis)));
        let scratch = u32::from(resources.scratch_bytes > 0);
        let rsrc2 = (u32::from(resources.entry.user_sgprs) << 1) | enable | scratch;
        Self {
            rsrc1,
            rsrc2,
            rsrc3: prefetch(resources.code_bytes, gfx12),
            properties: 0x0408,
            lds_bytes: resources.lds_bytes,
            scratch_bytes: resources.scratch_bytes,
            kernarg_bytes: resources.kernarg_bytes,
        }
    }

    /// The bytes, with the distance from the descriptor to the code.
    pub fn bytes(&self, entry_offset: i64) -> [u8; 64] {
        let mut bytes = [0; 64];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.lds_bytes.to_le_bytes());
        put(4, &self.scratch_bytes.to_le_bytes());
        put(8, &self.kernarg_bytes.to_le_bytes());
        put(16, &entry_offset.to_le_bytes());
        put(44, &self.rsrc3.to_le_bytes());
        put(48, &self.rsrc1.to_le_bytes());
        put(52, &self.rsrc2.to_le_bytes());
        put(56, &self.properties.to_le_bytes());
        bytes
    }
}
