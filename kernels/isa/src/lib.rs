//! The RDNA3, RDNA3.5 and RDNA4 instruction sets as data.
//!
//! One table row per instruction (`table/`) says name, opcodes, operand kinds, flags and timing; encoder, decoder
//! and printer derive from it. Not here: a compiler, hazards, or what instructions compute.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod check;
mod decode;
mod effect;
mod encode;
mod error;
mod index;
mod inst;
pub mod operand_kind;
mod operand;
mod print;
mod row;
mod table;
mod chip;

pub use chip::{CHIPS, Chip, Generation, TARGETS, Target};
pub use decode::decode;
pub use effect::{Access, Counter, Counters, Effects, Resource};
pub use encode::{Code, encode};
pub use error::{DecodeError, EncodeError, Problem};
pub use inst::{
    Cache, Dpp16, DppControl, Form, Inst, Lanes, MAX_OPERANDS, Memory, Modifiers, Operands, OutputModifier,
    Scope,
};
pub use operand::{InlineFloat, Operand, Scalar, Special, Vgpr, s, s_range, v, v_range};
pub use print::Text;
pub use row::{ABSENT, Flags, Format, Op, Row, Timing};
pub use table::op;
