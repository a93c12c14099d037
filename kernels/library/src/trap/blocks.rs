//! The handler's code from entry to exit.

use crate::trap::layout::{
    ABORT, APERTURE, CAUSE, DOORBELL_BITS, ILLEGAL, Layout, MESSAGE, MSG_GET_DOORBELL, MSG_INTERRUPT, PC,
    PC_HIGH, RECORDS, SCHED_MODE, SCHED_MODE_AT, SLOT, STATE, TRAP, TRAP_ABORT, TRAP_DEBUG, USER_TRAP,
    VIOLATION, WAVE_NUMBER,
};
use crate::trap::writer::{Block, UNKNOWN, Writer, bits, field, pair, ttmp};
use doorbell_compiler::isa::{Cache, Inst, Operand, Scalar, Scope, op, v, v_range};

impl Writer {
    /// `s_trap 3` is a break point, at which the wave goes on without a debugger.
    pub(crate) fn entry(&mut self, layout: &Layout) {
        self.begin(Block::Entry);
        self.add(op::s_bfe_u32, [ttmp(TRAP), ttmp(PC_HIGH), bits(layout.trap)]);
        self.add(op::s_cmp_eq_u32, [ttmp(TRAP), Operand::Int(TRAP_DEBUG)]);
        self.branch(op::s_cbranch_scc0, Block::Report);
        self.advance(Operand::Int(4));
        self.branch(op::s_branch, Block::Leave);
    }

    /// Finds the queue and the cause of the exception.
    pub(crate) fn report(&mut self, layout: &Layout) {
        self.begin(Block::Report);
        self.wait();
        self.add(op::s_sendmsg_rtn_b32, [ttmp(MESSAGE), Operand::Immediate(MSG_GET_DOORBELL)]);
        self.wait();
        let doorbell = Operand::Literal((1 << DOORBELL_BITS) - 1);
        self.add(op::s_and_b32, [ttmp(MESSAGE), ttmp(MESSAGE), doorbell]);
        self.add(op::s_getreg_b32, [ttmp(CAUSE), field((layout.flags, 0, 32))]);
        self.report_exception_if(layout.not_present, VIOLATION, Block::NotViolation);
        // A page that is not there violates memory; otherwise the address lies in no aperture.
        self.branch(op::s_branch, Block::NotAperture);
        self.begin(Block::NotViolation);
        self.report_exception_if(layout.violation, APERTURE, Block::NotAperture);
        self.begin(Block::NotAperture);
        self.report_exception_if(layout.illegal, ILLEGAL, Block::NotIllegal);
        self.begin(Block::NotIllegal);
        self.add(op::s_cmp_eq_u32, [ttmp(TRAP), Operand::Int(TRAP_ABORT)]);
        self.branch(op::s_cbranch_scc0, Block::NotAbort);
        self.report_exception(ABORT);
        self.begin(Block::NotAbort);
        self.add(op::s_lshr_b32, [ttmp(SLOT), ttmp(MESSAGE), Operand::Int(DOORBELL_BITS)]);
        self.branch(op::s_cbranch_scc1, Block::Record);
        self.report_exception(USER_TRAP);
    }

    /// Writes the record, interrupts the kernel, and makes the wave halt where nothing can follow. EXEC and the first vector
    /// registers are lost: the wave has no use for them any more.
    pub(crate) fn record(&mut self, layout: &Layout) {
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
        // Halted at the end of a program a wave cannot be saved: it halts inside the handler.
        self.add(op::s_getpc_b64, [pair(PC)]);
        self.settle();
        self.advance(UNKNOWN);
        self.settle();
    }

    pub(crate) fn leave(&mut self, layout: &Layout) {
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
}
