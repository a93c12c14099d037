//! Instructions that small programs are made of. s[0:1] points at the program's buffer.

use doorbell_isa::{Inst, Operand, op, s_range, v};

/// A number of an instruction's own field.
pub(crate) fn imm(value: i32) -> Operand {
    Operand::Immediate(value)
}

/// An inline constant or a literal.
pub(crate) fn int(value: i32) -> Operand {
    Operand::int(value)
}

/// v[register] = value.
pub(crate) fn mov(register: u8, value: i32) -> Inst {
    Inst::new(op::v_mov_b32, [v(register), int(value)])
}

/// Waits for every counter of gfx11.
pub(crate) fn wait() -> Inst {
    Inst::new(op::s_waitcnt, [imm(0)])
}

/// Ends the wave.
pub(crate) fn end() -> Inst {
    Inst::new(op::s_endpgm, [imm(0)])
}

/// v10 = 4 * item, the offset of the item's word.
pub(crate) fn offset() -> Inst {
    Inst::new(op::v_lshlrev_b32, [v(10), int(2), v(0)])
}

/// v[register] = the word at s[0:1] + v10.
pub(crate) fn load(register: u8) -> Inst {
    Inst::new(op::global_load_b32, [v(register), v(10), s_range(0, 2)])
}

/// The word at s[0:1] + v10 = v[register].
pub(crate) fn store(register: u8) -> Inst {
    Inst::new(op::global_store_b32, [v(10), v(register), s_range(0, 2)])
}

/// LDS at v[address] = v[data].
pub(crate) fn lds_store(address: u8, data: u8) -> Inst {
    Inst::new(op::ds_store_b32, [v(address), v(data)])
}

/// v[register] = LDS at v[address].
pub(crate) fn lds_load(register: u8, address: u8) -> Inst {
    Inst::new(op::ds_load_b32, [v(register), v(address)])
}

/// Meets the other waves of the group.
pub(crate) fn barrier() -> Inst {
    Inst::new(op::s_barrier, [])
}
