//! Sizes of a compute queue's context-save area and its header. It is allocated in `create`.
//!
//! Source: `amdkfd/kfd_queue.c` (`kfd_queue_ctx_save_restore_size`, `kfd_get_vgpr_size_per_cu`) and
//! `kfd_events`' reader of the header, `kfd_process.c:send_exception_work_handler`. The kernel wants the control
//! stack exactly, the save size at least and the buffer exactly as large as follows from the arguments.

use crate::topology::{Generation, Isa, Node, Property};

const PAGE: u64 = 4096;

/// The sizes of one queue, in bytes.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveArea {
    /// Control stack of one XCC.
    pub ctl_stack: u32,
    /// Control stack and wave state of one XCC: `ctx_save_restore_size`.
    pub save: u32,
    /// Debugger area of one XCC.
    pub debug: u32,
    /// XCCs.
    pub xcc: u32,
    /// The buffer, which must have exactly this size; offsets in it are 32 bits wide.
    pub buffer: u64,
}

/// VGPR bytes of one CU.
fn vgpr_bytes(isa: Isa) -> u64 {
    match isa {
        Isa::GFX1100 | Isa::GFX1101 | Isa::GFX1151 | Isa::GFX1200 | Isa::GFX1201 => 0x60000,
        Isa(90_008) | Isa::GFX90A | Isa::GFX942 | Isa(90_500) => 0x80000,
        _ => 0x40000,
    }
}

impl SaveArea {
    /// The sizes by formula, for kernels that export none. `None` for a node without compute units or of a
    /// generation that the formula does not cover.
    pub fn computed(node: &Node) -> Option<Self> {
        const SGPR: u64 = 0x4000;
        const LDS: u64 = 0x10000;
        const HARDWARE_REGISTERS: u64 = 0x1000;
        const HEADER: u64 = 40;
        let (isa, xcc) = (node.isa(), u64::from(node.xcc_count()));
        let cus = u64::from(node.compute_units()) / xcc;
        let is_wide = match isa.generation() {
            Generation::Gfx9 => false,
            Generation::Gfx10 => isa.0 >= 100_100,
            Generation::Gfx11 | Generation::Gfx12 => true,
            Generation::Other => return None,
        };
        if cus == 0 {
            return None;
        }
        let waves = if is_wide { cus * 32 } else { (cus * 40).min(u64::from(node.shader_engines()) * 512) };
        let lds = if isa == Isa(90_500) { node.lds_bytes().into() } else { LDS };
        let state = (cus * (vgpr_bytes(isa) + SGPR + lds + HARDWARE_REGISTERS)).next_multiple_of(PAGE);
        let per_wave = if is_wide { 12 } else { 8 };
        let mut ctl_stack = (HEADER + waves * per_wave + 8).next_multiple_of(PAGE);
        if isa.generation() == Generation::Gfx10 {
            ctl_stack = ctl_stack.min(0x7000);
        }
        Self::from_sizes(ctl_stack, ctl_stack + state, waves, xcc)
    }

    /// The sizes to use: the kernel's control stack where it states one, and the larger of both save sizes
    /// (some kernels count too few registers for gfx1151; more is accepted everywhere).
    pub fn of(node: &Node) -> Option<Self> {
        let computed = Self::computed(node);
        let stated = |property| node.properties.get(property).filter(|&bytes| bytes != 0);
        let save = stated(Property::CwsrSize).max(computed.map(|area| area.save.into()));
        let ctl_stack = stated(Property::CtlStackSize).or(computed.map(|area| area.ctl_stack.into()));
        let xcc = u64::from(node.xcc_count());
        let waves =
            computed.map_or(u64::from(node.compute_units()) / xcc * 32, |area| u64::from(area.debug) / 32);
        Self::from_sizes(ctl_stack?, save?, waves, xcc)
    }

    fn from_sizes(ctl_stack: u64, save: u64, waves: u64, xcc: u64) -> Option<Self> {
        let debug = (waves * 32).next_multiple_of(64);
        let buffer = save.checked_add(debug)?.checked_mul(xcc)?.checked_next_multiple_of(PAGE)?;
        u32::try_from(buffer).ok()?;
        Some(Self {
            ctl_stack: u32::try_from(ctl_stack).ok()?,
            save: u32::try_from(save).ok()?,
            debug: u32::try_from(debug).ok()?,
            xcc: u32::try_from(xcc).ok()?,
            buffer,
        })
    }

    /// The user's part of the header of one XCC's slice: byte offset in the buffer and the words from field
    /// `debug_offset` on. Exceptions are OR-ed into the 64-bit word at `payload` and set event `event`.
    pub fn header(&self, xcc: u32, payload: u64, event: u32) -> (usize, [u8; 20]) {
        const FIELDS: usize = 16;
        let debug_offset = (self.xcc - xcc) * self.save;
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&debug_offset.to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.debug * self.xcc).to_le_bytes());
        bytes[8..16].copy_from_slice(&payload.to_le_bytes());
        bytes[16..].copy_from_slice(&event.to_le_bytes());
        (xcc as usize * self.save as usize + FIELDS, bytes)
    }
}
