//! The second-level trap handler: tells the host by name why a wave stopped, and stops it for good.
//!
//! The kernel's own handler enters it after an exception or `s_trap`. It leaves a record of 16 bytes for the host,
//! sends the interrupt that the kernel turns into the queue's exception, and halts the wave. Not here: who installs it
//! and reads the records (`doorbell-kfd`).
//!
//! Source: `amdkfd/cwsr_trap_handler_gfx10.asm` and `_gfx12.asm` for what holds on entry; ROCR-Runtime's second-level
//! handler for the interrupt's format. On entry ttmp0:1 is the program counter with the trap's number in the high word,
//! ttmp12 STATUS (gfx12: STATE_PRIV), ttmp14:15 the records; ttmp2 to ttmp5 are free.

use alloc::vec::Vec;
use doorbell_compiler::isa::{
    Cache, Generation, Inst, Op, Operand, Scalar, Scope, Target, encode, op, v, v_range,
};
use doorbell_compiler::machine::{BlockId, Line, Physical};
use doorbell_compiler::object::{CODE_END, PADDING_WORDS};
use doorbell_compiler::pass::emit;
use doorbell_compiler::{CompileError, check};

/// The wave's stopping place and why it entered.
const PC: u8 = 0;
const PC_HIGH: u8 = 1;
/// The number of the trap; later a copy of M0.
const TRAP: u8 = 2;
/// What the interrupt says: the queue's doorbell and a bit for each exception.
const MESSAGE: u8 = 3;
const CAUSE: u8 = 4;
const SLOT: u8 = 5;
const STATE: u8 = 12;
const RECORDS: u8 = 14;

/// Bits of a doorbell's number; the exceptions' bits are above them.
const DOORBELL_BITS: i8 = 10;

/// Exceptions by the kernel's numbers (`enum kfd_dbg_trap_exception_code`).
const ABORT: i8 = 1;
const USER_TRAP: i8 = 2;
const ILLEGAL: i8 = 4;
const VIOLATION: i8 = 5;
const APERTURE: i8 = 6;

/// Numbers of `s_trap` with a meaning (LLVM, `AMDGPUUsage.rst`, trap handler ABI).
const TRAP_ABORT: i8 = 2;
const TRAP_DEBUG: i8 = 3;

/// Messages of `s_sendmsg`.
const MSG_INTERRUPT: i32 = 1;
const MSG_GET_DOORBELL: i32 = 0x80;

/// Where a generation keeps what the handler reads.
struct Layout {
    /// Lowest bit and width of the trap's number in the high half of the program counter.
    trap: (u32, u32),
    /// The register of exception flags, and in it: memory violation, aperture violation, illegal instruction.
    flags: u32,
    not_present: i8,
    violation: i8,
    illegal: i8,
    /// The register that is written on leaving: number, lowest bit, width; and the bit that halts.
    state: (u32, u32, u32),
    halt: i8,
}

const GFX11: Layout = Layout {
    trap: (16, 8),
    flags: 3,
    not_present: 28,
    violation: 8,
    illegal: 11,
    state: (2, 0, 32),
    halt: 13,
};

const GFX12: Layout = Layout {
    trap: (28, 4),
    flags: 17,
    not_present: 12,
    violation: 4,
    illegal: 6,
    // Barrier bits below may have changed since they were read.
    state: (4, 9, 7),
    halt: 14,
};

/// Number of the gfx12 register of relaxed scheduling, whose bits the first level leaves in ttmp1.
const SCHED_MODE: (u32, u32, u32) = (26, 0, 2);
const SCHED_MODE_AT: u32 = 26;

/// The wave's number on its SIMD unit.
const WAVE_NUMBER: (u32, u32, u32) = (23, 0, 5);

/// Stands for a distance that is not known yet.
const UNKNOWN: Operand = Operand::Int(-1);

/// Blocks of the handler, in the order of the code.
#[derive(Clone, Copy)]
enum Block {
    Entry,
    Report,
    NotViolation,
    NotAperture,
    NotIllegal,
    NotAbort,
    Record,
    Leave,
    Parked,
}

const BLOCKS: usize = Block::Parked as usize + 1;

/// Builds the code block by block.
struct Writer {
    target: Target,
    blocks: Vec<Vec<Line>>,
}

fn ttmp(first: u8) -> Operand {
    Operand::Scalar(Scalar::ttmp(first, 1))
}

fn pair(first: u8) -> Operand {
    Operand::Scalar(Scalar::ttmp(first, 2))
}

/// A field of a hardware register: number, lowest bit, width.
fn field((number, low, width): (u32, u32, u32)) -> Operand {
    Operand::Immediate((number | low << 6 | (width - 1) << 11).cast_signed())
}

/// A field for `s_bfe`: lowest bit, width.
fn bits((low, width): (u32, u32)) -> Operand {
    Operand::Literal(low | width << 16)
}

impl Writer {
    fn add<const N: usize>(&mut self, op: Op, operands: [Operand; N]) {
        self.line(Inst::new(op, operands), None);
    }

    fn branch(&mut self, op: Op, to: Block) {
        self.line(Inst::new(op, [Operand::Immediate(0)]), Some(BlockId(to as u32)));
    }

    fn line(&mut self, inst: Inst, to: Option<BlockId>) {
        if let Some(block) = self.blocks.last_mut() {
            block.push(Line::Inst(inst, to));
        }
    }

    fn begin(&mut self, block: Block) {
        debug_assert_eq!(self.blocks.len(), block as usize, "blocks in order");
        self.blocks.push(Vec::new());
    }

    fn is_gfx12(&self) -> bool {
        self.target.generation() == Generation::Gfx12
    }

    /// Waits for every memory operation and message.
    fn wait(&mut self) {
        let zero = Operand::Immediate(0);
        if self.is_gfx12() {
            self.add(op::s_wait_loadcnt, [zero]);
            self.add(op::s_wait_storecnt, [zero]);
            self.add(op::s_wait_dscnt, [zero]);
            self.add(op::s_wait_kmcnt, [zero]);
        } else {
            self.add(op::s_waitcnt, [zero]);
            self.add(op::s_waitcnt_vscnt, [Operand::NULL, zero]);
        }
    }

    /// Lets scalar results settle: on gfx12 nothing else orders them where vector instructions have read the registers.
    fn settle(&mut self) {
        if self.is_gfx12() {
            self.add(op::s_wait_alu, [Operand::Immediate(0)]);
        }
    }

    /// Adds to the 64-bit program counter.
    fn advance(&mut self, by: Operand) {
        let (add, carry) = if self.is_gfx12() {
            (op::s_add_co_u32, op::s_add_co_ci_u32)
        } else {
            (op::s_add_u32, op::s_addc_u32)
        };
        self.add(add, [ttmp(PC), ttmp(PC), by]);
        self.settle();
        self.add(carry, [ttmp(PC_HIGH), ttmp(PC_HIGH), Operand::Int(0)]);
    }

    /// Says that `exception` has happened.
    fn say(&mut self, exception: i8) {
        let bit = Operand::Int(DOORBELL_BITS + exception - 1);
        self.add(op::s_bitset1_b32, [ttmp(MESSAGE), bit]);
    }

    /// What `exception` is called if `bit` is among the flags; goes on at `next` otherwise.
    fn say_if(&mut self, bit: i8, exception: i8, next: Block) {
        self.add(op::s_bitcmp1_b32, [ttmp(CAUSE), Operand::Int(bit)]);
        self.branch(op::s_cbranch_scc0, next);
        self.say(exception);
    }

    /// `s_trap 3` is a break point, which goes on when nobody debugs.
    fn entry(&mut self, layout: &Layout) {
        self.begin(Block::Entry);
        self.add(op::s_bfe_u32, [ttmp(TRAP), ttmp(PC_HIGH), bits(layout.trap)]);
        self.add(op::s_cmp_eq_u32, [ttmp(TRAP), Operand::Int(TRAP_DEBUG)]);
        self.branch(op::s_cbranch_scc0, Block::Report);
        self.advance(Operand::Int(4));
        self.branch(op::s_branch, Block::Leave);
    }

    /// Finds out whose queue it is and why the wave is here.
    fn report(&mut self, layout: &Layout) {
        self.begin(Block::Report);
        self.wait();
        self.add(op::s_sendmsg_rtn_b32, [ttmp(MESSAGE), Operand::Immediate(MSG_GET_DOORBELL)]);
        self.wait();
        let doorbell = Operand::Literal((1 << DOORBELL_BITS) - 1);
        self.add(op::s_and_b32, [ttmp(MESSAGE), ttmp(MESSAGE), doorbell]);
        self.add(op::s_getreg_b32, [ttmp(CAUSE), field((layout.flags, 0, 32))]);
        self.say_if(layout.not_present, VIOLATION, Block::NotViolation);
        // A page that is not there violates memory; otherwise the address lies in no aperture.
        self.branch(op::s_branch, Block::NotAperture);
        self.begin(Block::NotViolation);
        self.say_if(layout.violation, APERTURE, Block::NotAperture);
        self.begin(Block::NotAperture);
        self.say_if(layout.illegal, ILLEGAL, Block::NotIllegal);
        self.begin(Block::NotIllegal);
        self.add(op::s_cmp_eq_u32, [ttmp(TRAP), Operand::Int(TRAP_ABORT)]);
        self.branch(op::s_cbranch_scc0, Block::NotAbort);
        self.say(ABORT);
        self.begin(Block::NotAbort);
        self.add(op::s_lshr_b32, [ttmp(SLOT), ttmp(MESSAGE), Operand::Int(DOORBELL_BITS)]);
        self.branch(op::s_cbranch_scc1, Block::Record);
        self.say(USER_TRAP);
    }

    /// Writes the record, tells the kernel, and makes the wave halt where nothing can follow. EXEC and the first vector
    /// registers are lost: the wave has no use for them any more.
    fn record(&mut self, layout: &Layout) {
        self.begin(Block::Record);
        self.add(op::s_getreg_b32, [ttmp(SLOT), field(WAVE_NUMBER)]);
        self.add(op::s_lshl_b32, [ttmp(SLOT), ttmp(SLOT), Operand::Int(4)]);
        self.add(op::s_mov_b64, [Operand::Scalar(Scalar::EXEC), Operand::Int(1)]);
        self.settle();
        for (register, from) in [(0, SLOT), (2, PC), (3, PC_HIGH), (4, CAUSE), (5, MESSAGE)] {
            self.add(op::v_mov_b32, [v(register), ttmp(from)]);
        }
        let cache = if self.is_gfx12() {
            Cache::Gfx12 { scope: Scope::System, hint: 0 }
        } else {
            Cache::Gfx11 { glc: true, slc: true, dlc: true }
        };
        let operands = [v(0), v_range(2, 4), pair(RECORDS)];
        self.line(Inst::new(op::global_store_b128, operands).cache(cache), None);
        self.wait();
        let m0 = Operand::Scalar(Scalar::M0);
        self.settle();
        self.add(op::s_mov_b32, [ttmp(TRAP), m0]);
        self.settle();
        self.add(op::s_mov_b32, [m0, ttmp(MESSAGE)]);
        self.add(op::s_nop, [Operand::Immediate(0)]);
        self.add(op::s_sendmsg, [Operand::Immediate(MSG_INTERRUPT)]);
        self.wait();
        self.settle();
        self.add(op::s_mov_b32, [m0, ttmp(TRAP)]);
        self.add(op::s_bitset1_b32, [ttmp(STATE), Operand::Int(layout.halt)]);
        // Halted at the end of a program a wave cannot be saved: it halts at a place of the handler's own.
        self.add(op::s_getpc_b64, [pair(PC)]);
        self.settle();
        self.advance(UNKNOWN);
        self.settle();
    }

    fn leave(&mut self, layout: &Layout) {
        self.begin(Block::Leave);
        if self.is_gfx12() {
            self.add(op::s_bfe_u32, [ttmp(TRAP), ttmp(PC_HIGH), bits((SCHED_MODE_AT, SCHED_MODE.2))]);
            self.settle();
            self.add(op::s_setreg_b32, [field(SCHED_MODE), ttmp(TRAP)]);
            let low = Operand::Int(layout.state.1 as i8);
            self.add(op::s_lshr_b32, [ttmp(STATE), ttmp(STATE), low]);
        }
        self.add(op::s_and_b32, [ttmp(PC_HIGH), ttmp(PC_HIGH), Operand::Literal(0xffff)]);
        self.settle();
        self.add(op::s_setreg_b32, [field(layout.state), ttmp(STATE)]);
        self.add(op::s_rfe_b64, [pair(PC)]);
        self.begin(Block::Parked);
        self.add(op::s_trap, [Operand::Immediate(TRAP_ABORT.into())]);
        self.branch(op::s_branch, Block::Parked);
    }

    /// Puts the distance to where waves are parked into the addition after `s_getpc_b64`.
    fn aim(&mut self) -> Result<(), CompileError> {
        let mut at = 0u32;
        let (mut from, mut parked) = (0, 0);
        for (index, block) in self.blocks.iter().enumerate() {
            if index == Block::Parked as usize {
                parked = at;
            }
            for line in block {
                let Line::Inst(inst, _) = line else { continue };
                let code = encode(inst, self.target);
                let code = code.map_err(|error| CompileError::Emit(emit::EmitError::Encode(error)))?;
                at += 4 * code.words().len() as u32;
                if inst.op == op::s_getpc_b64 {
                    from = at;
                }
            }
        }
        let bytes = parked - from;
        let distance = i8::try_from(bytes).ok().filter(|&distance| distance <= 64);
        let too_far = CompileError::Emit(emit::EmitError::Distance { dwords: i64::from(bytes / 4) });
        let distance = Operand::Int(distance.ok_or(too_far)?);
        for line in &mut self.blocks[Block::Record as usize] {
            if let Line::Inst(inst, _) = line {
                let unknown = inst.operands.as_mut_slice().iter_mut().filter(|operand| **operand == UNKNOWN);
                unknown.for_each(|operand| *operand = distance);
            }
        }
        Ok(())
    }
}

/// Machine code of the handler for a chip, padded so that prefetch stays inside. It must lie 256-byte aligned in
/// executable memory; the records are 32 times 16 bytes: program counter as on entry, flags, message.
///
/// # Errors
/// The code does not encode or breaks a rule of the hardware: a fault of this program.
pub fn trap_handler(target: Target) -> Result<Vec<u8>, CompileError> {
    let words = words(target)?;
    let padding = core::iter::repeat_n(CODE_END, PADDING_WORDS);
    Ok(words.into_iter().chain(padding).flat_map(u32::to_le_bytes).collect())
}

fn words(target: Target) -> Result<Vec<u32>, CompileError> {
    let layout = if target.generation() == Generation::Gfx12 { &GFX12 } else { &GFX11 };
    let mut writer = Writer { target, blocks: Vec::with_capacity(BLOCKS) };
    writer.entry(layout);
    writer.report(layout);
    writer.record(layout);
    writer.leave(layout);
    writer.aim()?;
    let code = Physical { target, blocks: writer.blocks };
    let words = emit::emit(&code).map_err(CompileError::Emit)?;
    check::binary::check(&words, target).map_err(CompileError::Binary)?;
    Ok(words)
}
