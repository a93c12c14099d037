//! Vector instructions: the way of operands to the handlers and of results back, and the handlers by format.
//!
//! Not here: memory instructions (`memory_ops`), the instruction table (doorbell-isa).

mod arithmetic;
mod compare;
mod convert;
mod divide;
mod dot;
mod double;
mod half;
mod integer;
mod lane_loops;
mod lanes;
mod matrix;
mod minmax;
mod operands;
mod output;
mod packed;
mod small;
mod sparse;
mod table;
mod transcendental;

pub(crate) use operands::execute;

pub(crate) use table::find;
