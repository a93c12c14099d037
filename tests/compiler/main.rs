//! Kernels executed on the software GPU, under all its sanitizers, against scalar references.
//!
//! Not here: static checks of the same code (`mutation`, `random`).

mod alu;
mod features;
mod machine;
mod mutants;
mod pipeline;
mod pressure;
mod quant;
mod samples;
