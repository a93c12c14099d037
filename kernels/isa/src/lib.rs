//! The RDNA3, RDNA3.5 and RDNA4 instruction sets as data: encode, decode, print.
//!
//! One row of a table says everything about an instruction; encoder, decoder and printer are derived from it. The layers,
//! each on top of those before it:
//!
//! 1. [`Target`] and the chip table (`chip.rs`): one row per chip, also for the compiler, the kernels and the GPU driver.
//! 2. [`Operand`]s, [`operand_kind`]s, [`Row`]s and the instruction tables (`table/`, one file per format).
//! 3. [`Inst`]: an [`Op`] with operands and modifiers. [`Effects`] and [`Inst::counters`] say which registers and wait
//!    counters it touches.
//! 4. [`encode()`], which checks everything first, [`decode()`], which accepts only what encodes to the same dwords, and
//!    [`Inst::text`], the assembly text of LLVM 19.
//!
//! ```
//! use doorbell_isa::{Inst, Target, decode, encode, op, s, v};
//!
//! let inst = Inst::new(op::v_add_f32, [v(0), s(1), v(2)]);
//! let code = encode(&inst, Target::Gfx1100)?;
//! assert_eq!(code.words(), [0x0600_0401]);
//! let (decoded, dwords) = decode(code.words(), Target::Gfx1100).unwrap();
//! assert_eq!((decoded, dwords), (inst, 1));
//! assert_eq!(inst.text(Target::Gfx1100).to_string(), "v_add_f32_e32 v0, s1, v2");
//! # Ok::<(), doorbell_isa::EncodeError>(())
//! ```
//!
//! Not here: a compiler and hazards (doorbell-compiler), the results of instructions (doorbell-soft).
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod check;
mod chip;
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
