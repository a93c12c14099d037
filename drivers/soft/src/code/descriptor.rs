//! The 64-byte kernel descriptor, and the dispatch that a launch makes of it.
//!
//! Source: the AMDHSA chapter of LLVM's AMDGPU usage guide, docs/facts/rdna.md. Not here: files (`elf.rs`).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use doorbell_isa::{Generation, Target};

use crate::processor::Dispatch;

/// A kernel descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Static LDS bytes.
    pub lds: u32,
    /// Scratch bytes per work-item.
    pub scratch: u32,
    /// Kernel argument bytes.
    pub kernarg: u32,
    /// Distance from the descriptor to the first instruction.
    pub entry: i64,
    /// COMPUTE_PGM_RSRC1.
    pub rsrc1: u32,
    /// COMPUTE_PGM_RSRC2.
    pub rsrc2: u32,
    /// COMPUTE_PGM_RSRC3.
    pub rsrc3: u32,
    /// Kernel code properties.
    pub properties: u16,
}

/// The reason why a descriptor cannot be launched.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DescriptorError {
    /// Fewer than 64 bytes.
    Short(usize),
    /// Waves of 64 lanes.
    Wave64,
    /// A group with no work-items, or more than 1024.
    Group([u32; 3]),
    /// More LDS than a group may have.
    Lds(u32),
    /// More than the 256 registers that exist.
    Registers(u32),
    /// Scratch per work-item beyond any limit of the chips.
    Scratch(u32),
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(len) => write!(f, "descriptor of {len} bytes, 64 expected"),
            Self::Wave64 => f.write_str("waves of 64 lanes are not modelled; compile for wave32"),
            Self::Group(size) => write!(f, "group of {size:?} work-items; 1 to 1024 in all are possible"),
            Self::Lds(bytes) => write!(f, "{bytes} bytes of LDS; a group has at most 65536"),
            Self::Registers(count) => write!(f, "{count} vector registers; 256 exist"),
            Self::Scratch(bytes) => write!(f, "{bytes} bytes of scratch per work-item"),
        }
    }
}

impl core::error::Error for DescriptorError {}

/// Inputs of a launch besides the descriptor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Launch {
    /// Name in reports.
    pub name: String,
    /// Work-items per dimension.
    pub grid: [u32; 3],
    /// Work-items per group and dimension.
    pub group: [u32; 3],
    /// Address of the kernel arguments.
    pub kernarg: u64,
    /// Address of the dispatch packet.
    pub packet: u64,
    /// Address of the queue structure.
    pub queue: u64,
    /// Number of the dispatch.
    pub id: u64,
    /// LDS bytes of the packet; at least the descriptor's are used.
    pub lds: u32,
    /// Scratch bytes of the packet; at least the descriptor's are used.
    pub scratch: u32,
}

/// Largest LDS segment of a group.
const LDS_MOST: u32 = 65536;
/// Most scratch bytes per work-item.
const SCRATCH_MOST: u32 = 1 << 20;
/// Most scratch bytes of a group, which the host has to hold.
const GROUP_SCRATCH_MOST: u64 = 64 << 20;

/// Reads a little-endian word of a fixed array.
fn word(bytes: &[u8; 64], at: usize) -> u32 {
    (0..4).fold(0, |value, index| value | u32::from(bytes[at + index]) << (8 * index))
}

impl Descriptor {
    /// Reads a descriptor.
    ///
    /// # Errors
    ///
    /// If there are fewer than 64 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, DescriptorError> {
        let bytes = bytes.first_chunk::<64>().ok_or(DescriptorError::Short(bytes.len()))?;
        let entry = u64::from(word(bytes, 16)) | u64::from(word(bytes, 20)) << 32;
        Ok(Self {
            lds: word(bytes, 0),
            scratch: word(bytes, 4),
            kernarg: word(bytes, 8),
            entry: entry.cast_signed(),
            rsrc3: word(bytes, 44),
            rsrc1: word(bytes, 48),
            rsrc2: word(bytes, 52),
            properties: (word(bytes, 56) & 0xffff) as u16,
        })
    }

    /// True if the kernel is for waves of 64 lanes.
    pub fn is_wave64(&self) -> bool {
        self.properties >> 10 & 1 == 0
    }

    /// The launch of this descriptor, which lies at `address`.
    ///
    /// # Errors
    ///
    /// If the chip could not run it.
    pub fn dispatch(
        &self,
        address: u64,
        launch: &Launch,
        target: Target,
    ) -> Result<Dispatch, DescriptorError> {
        if self.is_wave64() {
            return Err(DescriptorError::Wave64);
        }
        let items = launch.group.iter().try_fold(1u32, |product, size| product.checked_mul(*size));
        if !items.is_some_and(|items| (1..=1024).contains(&items)) {
            return Err(DescriptorError::Group(launch.group));
        }
        let lds = launch.lds.max(self.lds);
        if lds > LDS_MOST {
            return Err(DescriptorError::Lds(lds));
        }
        let scratch = launch.scratch.max(self.scratch);
        let group = u64::from(scratch) * launch.group.iter().map(|size| u64::from(*size)).product::<u64>();
        if scratch > SCRATCH_MOST || group > GROUP_SCRATCH_MOST {
            return Err(DescriptorError::Scratch(scratch));
        }
        let vgprs = ((self.rsrc1 & 63) + 1) * 8;
        if vgprs > 256 {
            return Err(DescriptorError::Registers(vgprs));
        }
        let (user, user_defined) = self.user_registers(launch);
        let gfx12 = target.generation() == Generation::Gfx12;
        let flags = if gfx12 { 0x100 } else { (self.rsrc1 >> 21 & 1) << 8 | (self.rsrc1 >> 23 & 1) << 9 };
        Ok(Dispatch {
            name: launch.name.clone(),
            entry: address.wrapping_add_signed(self.entry),
            grid: launch.grid,
            group: launch.group,
            lds: lds as usize,
            scratch: scratch as usize,
            vgprs: vgprs as usize,
            user,
            user_defined,
            ids: [7, 8, 9].map(|bit| self.rsrc2 >> bit & 1 != 0),
            mode: self.rsrc1 >> 12 & 0xff | flags,
        })
    }

    /// User SGPRs in their order: dispatch pointer, queue pointer, kernel arguments, dispatch id, scratch size.
    fn user_registers(&self, launch: &Launch) -> (Vec<u32>, u32) {
        let mut user = Vec::new();
        let mut pair = |enabled: bool, value: u64| {
            if enabled {
                user.extend([value as u32, (value >> 32) as u32]);
            }
        };
        let has = |bit: u32| self.properties >> bit & 1 != 0;
        // The private segment buffer does not exist with architected scratch; its slots stay empty.
        pair(has(0), 0);
        pair(has(0), 0);
        pair(has(1), launch.packet);
        pair(has(2), launch.queue);
        pair(has(3), launch.kernarg);
        pair(has(4), launch.id);
        pair(has(5), 0);
        if has(6) {
            user.push(launch.scratch.max(self.scratch));
        }
        let defined = if user.len() >= 32 { u32::MAX } else { (1 << user.len()) - 1 };
        user.resize((self.rsrc2 >> 1 & 31) as usize, 0);
        (user, defined)
    }
}
