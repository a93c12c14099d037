//! Products of weight rows with activation rows: the arithmetic every matrix operation is made of.
//!
//! The unit is a pair of strips, 2 × 16 weight rows, against any number of activation rows:
//!
//! - Many activation rows: the strips are unpacked once into scratch, turned so that a lane is a weight row
//!   (`unpack`), then run over all activation rows in register tiles (`tile`).
//! - One activation row: the same vectors go straight from the file's bytes into the dot products (`single`, or
//!   `rows` where that reads faster).
//!
//! Weights stay where they are; there is no second copy.
//!
//! **Order of summation.** A quantized activation row has two terms; a result is the sum of theirs. A term's is one
//! chain of f32 additions over the blocks of its row in ascending order.
//! Per block of 32: `acc = fma(Σ, d·dₐ, acc)`, then `acc = fma(m, sₐ, acc)` where the format has minima. Per block
//! of 256: the integer sums over all sub-blocks are exact, `acc = fma(Σ, d·dₐ, acc)`, then
//! `acc = fnma(Σₘ, dmin·dₐ, acc)`. Plain numbers: a chain per 32 elements, the chains' sums added in order. Both
//! paths follow it, so a result does not depend on the other rows, on tiling or on threads. (Forms of the
//! processor agree on the integers; AVX2 and AVX-512 also on the floats.)
//!
//! The use of the products is not here.

mod generic_format;
mod rows;
mod run;
mod scratch;
mod single;
mod tile;
mod unpack;
pub(crate) mod view;
mod weights;

pub use run::{Products, Selection};
pub use scratch::Scratch;
pub use tile::OUT as OUT_COLS;
pub use weights::{Strip, Weights, WeightsError, activation};

#[cfg(test)]
mod tests;
