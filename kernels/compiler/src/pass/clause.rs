//! Clause: marks runs of loads of one kind so that the memory unit takes them together.
//!
//! A hint; what may stand in a clause is checked by `check::binary`. Not here: bringing loads together (`schedule`).

use crate::machine::{Line, Physical};
use alloc::vec::Vec;
use doorbell_isa::{Flags, Format, Inst, Operand, op};

/// Longest clause.
const MOST: usize = 32;

/// Kinds of loads that form clauses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Vector,
    Scalar,
    Lds,
}

fn kind(line: &Line) -> Option<Kind> {
    let Line::Inst(inst, None) = line else { return None };
    let row = inst.row();
    match row.format {
        _ if !row.has(Flags::LOAD) => None,
        Format::Global | Format::Mubuf | Format::Scratch => Some(Kind::Vector),
        Format::Smem => Some(Kind::Scalar),
        Format::Ds => Some(Kind::Lds),
        _ => None,
    }
}

/// Marks every run of two or more.
pub fn mark(code: &mut Physical) {
    for block in &mut code.blocks {
        let mut lines = Vec::with_capacity(block.len());
        let mut rest = &block[..];
        while let Some(first) = rest.first() {
            let run = match kind(first) {
                Some(wanted) => rest.iter().take(MOST).take_while(|line| kind(line) == Some(wanted)).count(),
                None => 1,
            };
            if run > 1 {
                let length = Operand::Immediate(run as i32 - 1);
                lines.push(Line::Inst(Inst::new(op::s_clause, [length]), None));
            }
            lines.extend_from_slice(&rest[..run]);
            rest = &rest[run..];
        }
        *block = lines;
    }
}
