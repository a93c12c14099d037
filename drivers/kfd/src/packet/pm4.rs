//! PM4 words of an indirect buffer that runs dispatches: only registers that change are written.
//!
//! Source: `amdgpu/gfx_v11_0.c`, `gfx_v12_0.c`, `soc15d.h`/`nvd.h` for the packets; `asic_reg/gc/gc_11_0_0_offset.h`,
//! `gc_11_5_0_offset.h`, `gc_12_0_0_offset.h` for the registers, whose offsets are equal on all; the vendor
//! packet that runs a PM4 buffer is `amd_aql_queue.cpp:ExecutePM4` of ROCR-Runtime.

use super::aql::{Header, Packet, PacketKind};
use super::recorded::{Acquire, Dependency, EncodeError, Recorded};
use crate::topology::{Generation, Isa};

/// CS_PARTIAL_FLUSH: goes on when all dispatches before it are complete.
const WAIT_DONE: [u32; 2] = [header(0x46, 2), 7 | 4 << 8];

/// Compute registers as dword indexes relative to 0x2C00.
pub mod register {
    #![expect(missing_docs, reason = "the register names of the headers")]
    pub const NUM_THREAD_X: u32 = 0x207;
    pub const PGM_LO: u32 = 0x20C;
    pub const PGM_RSRC1: u32 = 0x212;
    pub const RESOURCE_LIMITS: u32 = 0x215;
    pub const PGM_RSRC3: u32 = 0x228;
    pub const START_X: u32 = 0x204;
    pub const USER_DATA_0: u32 = 0x240;

    /// The first register that is kept in mind, and how many there are from it on.
    pub(super) const FIRST: u32 = 0x200;
    pub(super) const COUNT: usize = 0x50;
}

mod opcode {
    pub(super) const DISPATCH_DIRECT: u32 = 0x15;
    pub(super) const WRITE_DATA: u32 = 0x37;
    pub(super) const INDIRECT_BUFFER: u32 = 0x3F;
    pub(super) const RELEASE_MEM: u32 = 0x49;
    pub(super) const ACQUIRE_MEM: u32 = 0x58;
    pub(super) const SET_SH_REG: u32 = 0x76;
}

/// Bits of GCR_CNTL in ACQUIRE_MEM.
pub(super) mod gcr {
    pub(crate) const GLI_INV: u32 = 1;
    pub(crate) const GLK_WB: u32 = 1 << 6;
    pub(crate) const GLK_INV: u32 = 1 << 7;
    pub(crate) const GLV_INV: u32 = 1 << 8;
    pub(crate) const GL1_INV: u32 = 1 << 9;
    pub(crate) const GL2_INV: u32 = 1 << 14;
    pub(crate) const GL2_WB: u32 = 1 << 15;
}

/// Caches above L2: what an acquire of agent scope invalidates.
const AGENT: u32 = gcr::GLK_INV | gcr::GLV_INV | gcr::GL1_INV;

/// A type-3 header for a packet of `dwords` in total.
const fn header(opcode: u32, dwords: u32) -> u32 {
    3 << 30 | (dwords - 2) << 16 | opcode << 8
}

/// The jump to a buffer of `dwords` at `va`.
const fn indirect_buffer(va: u64, dwords: u32) -> [u32; 4] {
    const VALID: u32 = 1 << 23;
    let (low, high) = ((va & 0xffff_ffff) as u32, (va >> 32) as u32);
    [header(opcode::INDIRECT_BUFFER, 4), low, high, dwords | VALID]
}

/// A vendor packet that runs `dwords` of PM4 at `va`.
pub fn pm4_buffer(header: Header, va: u64, dwords: u32) -> Packet {
    const PM4_IB: u32 = 1;
    const REMAINING: u32 = 10;
    let mut packet = Packet([0; 16]);
    packet.0[0] = u32::from(Header { kind: PacketKind::Vendor, ..header }.bits()) | PM4_IB << 16;
    packet.0[1..5].copy_from_slice(&indirect_buffer(va, dwords));
    packet.0[5] = REMAINING;
    packet
}

/// An indirect buffer being written, with what its registers hold so far.
#[derive(Debug)]
pub struct IndirectBuffer<'b> {
    words: &'b mut [u32],
    used: usize,
    isa: Isa,
    held: [Option<u32>; register::COUNT],
    is_started: bool,
    /// The caches were emptied since dispatches were last waited for.
    is_acquired: bool,
}

impl<'b> IndirectBuffer<'b> {
    /// Words that a dispatch takes at most, including progress and time stamps.
    pub const MOST_WORDS: usize = 64;
    /// Words of beginning and end.
    pub const EDGE_WORDS: usize = 32;

    /// Starts one in `words` for an instruction set: everything that is written later lies there.
    pub fn new(words: &'b mut [u32], isa: Isa) -> Result<Self, EncodeError> {
        let held = [None; register::COUNT];
        let mut this = Self { words, used: 0, isa, held, is_started: false, is_acquired: true };
        // The firmware decides what the packet around it acquires, so everything is acquired once more here. L2 is
        // written back too, so that nothing is lost whatever it holds (`gfx_v11_0.c:gfx_v11_0_emit_mem_sync`).
        this.acquire(AGENT | gcr::GLI_INV | gcr::GL2_INV | gcr::GL2_WB)?;
        Ok(this)
    }

    fn push(&mut self, words: &[u32]) -> Result<(), EncodeError> {
        let end = self.used + words.len();
        let available = self.words.len();
        let room = self.words.get_mut(self.used..end);
        room.ok_or(EncodeError::Full { needed: end, available })?.copy_from_slice(words);
        self.used = end;
        Ok(())
    }

    /// Sets consecutive registers, from the first that changes to the last.
    fn registers(&mut self, first: u32, values: &[u32]) -> Result<(), EncodeError> {
        let at = (first - register::FIRST) as usize;
        let held = &mut self.held[at..at + values.len()];
        let changes = |index: &usize| held[*index] != Some(values[*index]);
        let Some(start) = (0..values.len()).find(changes) else { return Ok(()) };
        let end = (start..values.len()).rfind(changes).map_or(start, |last| last + 1);
        held.iter_mut().zip(values).for_each(|(held, value)| *held = Some(*value));
        let count = u32::try_from(end - start).map_err(|_| EncodeError::Empty)?;
        self.push(&[header(opcode::SET_SH_REG, count + 2), first + start as u32])?;
        self.push(&values[start..end])
    }

    fn acquire(&mut self, caches: u32) -> Result<(), EncodeError> {
        // All addresses: size and base of everything; the poll interval is the kernel's.
        self.push(&[header(opcode::ACQUIRE_MEM, 8), 0, 0xffff_ffff, 0x00ff_ffff, 0, 0, 10, caches])
    }

    /// Adds a dispatch behind those before it. It waits and empties caches only where it says so.
    pub fn dispatch(&mut self, recorded: &Recorded) -> Result<(), EncodeError> {
        let Recorded { kernel, dispatch, dependency, acquire } = recorded;
        if *dependency == Dependency::Previous && self.is_started {
            self.push(&WAIT_DONE)?;
            self.is_acquired = false;
        }
        // One that waits for nothing shares what the last one that waited has acquired.
        if *acquire == Acquire::Agent && !self.is_acquired {
            self.acquire(AGENT)?;
            self.is_acquired = true;
        }
        let [low, high, rsrc1, rsrc2, rsrc3] = self.program_of(recorded);
        self.registers(register::PGM_LO, &[low, high])?;
        self.registers(register::PGM_RSRC1, &[rsrc1, rsrc2])?;
        self.registers(register::PGM_RSRC3, &[rsrc3])?;
        self.registers(register::RESOURCE_LIMITS, &[0])?;
        self.registers(register::START_X, &[0, 0, 0])?;
        self.is_started = true;
        let full = dispatch.workgroup.map(u32::from);
        let rest = [0, 1, 2].map(|axis| dispatch.grid[axis] % full[axis].max(1));
        let partial = rest.iter().any(|&rest| rest != 0);
        // The high half counts the work-items of the last group where groups may be partial.
        let last = |axis: usize| if rest[axis] == 0 { full[axis] } else { rest[axis] };
        let threads = [0, 1, 2].map(|axis| full[axis] | if partial { last(axis) << 16 } else { 0 });
        self.registers(register::NUM_THREAD_X, &threads)?;
        let kernarg = dispatch.kernarg;
        self.registers(register::USER_DATA_0, &[(kernarg & 0xffff_ffff) as u32, (kernarg >> 32) as u32])?;
        let groups = [0, 1, 2].map(|axis| dispatch.grid[axis].div_ceil(full[axis].max(1)));
        let [x, y, z] = groups;
        self.push(&[header(opcode::DISPATCH_DIRECT, 5), x, y, z, initiator(kernel.is_wave32, partial)])
    }

    /// Writes how many dispatches were started to the 32-bit word at `va`. Nothing waits for the write, and it goes on
    /// beside the dispatch before it.
    pub fn tell(&mut self, va: u64, started: u32) -> Result<(), EncodeError> {
        const TO_MEMORY: u32 = 5 << 8;
        let (low, high) = ((va & 0xffff_ffff) as u32, (va >> 32) as u32);
        self.push(&[header(opcode::WRITE_DATA, 5), TO_MEMORY, low, high, started])
    }

    /// Waits for everything before and writes the GPU's counter to the 64-bit word at `va`.
    pub fn stamp(&mut self, va: u64) -> Result<(), EncodeError> {
        const END_OF_PIPE: u32 = 0x14 | 5 << 8;
        const CLOCK: u32 = 3 << 29;
        let (low, high) = ((va & 0xffff_ffff) as u32, (va >> 32) as u32);
        self.push(&[header(opcode::RELEASE_MEM, 8), END_OF_PIPE, CLOCK, low, high, 0, 0, 0])
    }

    fn program_of(&self, recorded: &Recorded) -> [u32; 5] {
        const PRIVILEGED: u32 = 1 << 20;
        const LDS_SHIFT: u32 = 15;
        const LDS_MASK: u32 = 0x1ff << LDS_SHIFT;
        let kernel = &recorded.kernel;
        let code = kernel.entry >> 8;
        // gfx11.0 saves waves correctly only when this bit is set.
        let is_affected = self.isa.generation() == Generation::Gfx11 && self.isa.minor() == 0;
        let rsrc1 = kernel.rsrc1 | if is_affected { PRIVILEGED } else { 0 };
        let lds = recorded.dispatch.group_bytes.div_ceil(512);
        let rsrc2 = kernel.rsrc2 & !LDS_MASK | lds << LDS_SHIFT & LDS_MASK;
        [(code & 0xffff_ffff) as u32, (code >> 32) as u32, rsrc1, rsrc2, kernel.rsrc3]
    }

    /// Waits for all dispatches and writes L2 back, so that the host sees the results; returns the words used.
    pub fn finish(mut self) -> Result<usize, EncodeError> {
        if !self.is_started {
            return Err(EncodeError::Empty);
        }
        self.push(&WAIT_DONE)?;
        self.acquire(gcr::GL2_WB | gcr::GLK_WB)?;
        Ok(self.used)
    }
}

const fn initiator(is_wave32: bool, partial: bool) -> u32 {
    const COMPUTE_SHADER_EN: u32 = 1;
    const PARTIAL_TG_EN: u32 = 1 << 1;
    const FORCE_START_AT_000: u32 = 1 << 2;
    const CS_W32_EN: u32 = 1 << 15;
    let wave = if is_wave32 { CS_W32_EN } else { 0 };
    let partial = if partial { PARTIAL_TG_EN } else { 0 };
    COMPUTE_SHADER_EN | FORCE_START_AT_000 | wave | partial
}

#[cfg(test)]
mod tests {
    use super::super::aql::Scope;
    use super::*;

    #[test]
    fn the_vendor_packet_jumps_to_the_buffer() {
        let kind = PacketKind::Dispatch;
        let header = Header { kind, barrier: true, acquire: Scope::Agent, release: Scope::Agent };
        let ib = pm4_buffer(header, 0x7f00_1234_5000, 77);
        assert_eq!(&ib.0[..6], &[0x0001_0B00, 0xC002_3F00, 0x1234_5000, 0x7f00, 77 | 1 << 23, 10]);
    }
}
