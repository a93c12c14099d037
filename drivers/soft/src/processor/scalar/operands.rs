//! Operands of scalar instructions in, result out.
//!
//! Not here: the handlers.

use doorbell_isa::Row;

use super::super::handler::ScalarOp;
use super::super::step::{Dest, Source, Step};
use super::super::wave::Wave;

/// A source as wide as its slot.
#[inline]
fn source(wave: &Wave, row: &Row, step: &Step, index: usize) -> u64 {
    match step.src[index] {
        Source::Const(value) => value,
        Source::Scalar(number) | Source::Mask(number) => {
            if row.src[index].ty.dwords() >= 2 {
                wave.scalar64(usize::from(number))
            } else {
                wave.scalar(usize::from(number)).into()
            }
        }
        Source::Scc => u64::from(wave.scc),
        Source::Vgpr(_) => 0,
    }
}

/// Executes an instruction with a scalar handler.
#[inline]
pub(crate) fn execute(wave: &mut Wave, step: &Step, handler: ScalarOp) {
    let row = step.row();
    let mut sources = [0; 3];
    for (index, slot) in sources.iter_mut().enumerate().take(usize::from(step.sources)) {
        *slot = source(wave, row, step, index);
    }
    let Dest::Scalar(number) = step.dst[0] else {
        handler(wave, sources);
        return;
    };
    let number = usize::from(number);
    let wide = row.dst[0].ty.dwords() == 2;
    if step.reads_dst {
        sources[2] = if wide { wave.scalar64(number) } else { wave.scalar(number).into() };
    }
    let value = handler(wave, sources);
    if wide { wave.set_scalar64(number, value) } else { wave.set_scalar(number, value as u32) }
}

/// Value of a scalar source, for instructions that execute their own way.
pub(crate) fn operand(wave: &Wave, step: &Step, index: usize) -> u64 {
    source(wave, step.row(), step, index)
}
