//! Runs a plan on host cores with the best SIMD present.
//!
//! In layers, from below:
//!
//! 1. [`simd`]: vectors of 32-bit lanes, with AVX-512, with AVX2 and in plain Rust; [`features`] chooses among them.
//! 2. `lines`, [`pool`] and `phase`: memory in cache lines, threads, and how threads share memory between two barriers.
//!    These, `simd` and `product::view` are where `unsafe` is allowed ([`budget`] implements an unsafe trait); all
//!    else is safe code over them.
//! 3. [`activations`], [`product`], [`elementwise`], [`kv`] and [`attention`]: kernels, written once for all forms.
//! 4. [`backend`]: a plan's operations as phases of tasks.
//!
//! Neither the kernels nor the backend need an operating system: without the feature `std` the backend's team is the
//! calling thread ([`single_thread`] in place of [`pool`]).
//!
//! A matrix of two rows in Q8_0, times one row of activations:
//!
//! ```
//! use doorbell_core::{heap::Global, quant::Type};
//! use doorbell_cpu::activations::{Layout, Quantize};
//! use doorbell_cpu::features::Isa;
//! use doorbell_cpu::product::{OUT_COLS, Products, Scratch, Selection, Weights};
//!
//! let isa = Isa::best();
//! // Blocks of 32: the scale, here 1 in half precision, then a signed byte for each element.
//! let mut rows = [[0x00, 0x3c].as_slice(), &[1; 32], &[0x00, 0x3c], &[2; 32]].concat();
//! rows[2] = 5;
//! let weights = Weights::new(Type::Q8_0, 32, &rows)?;
//!
//! let layout = Layout::new(weights.activation(), 32).unwrap();
//! let mut activations = vec![0; layout.stride];
//! isa.run(Quantize::new(&layout, &[0.5; 32], &mut activations));
//!
//! let mut scratch = Scratch::new(&Global);
//! scratch.reserve(weights.cols(), weights.row_bytes())?;
//! let mut out = [0.0; OUT_COLS];
//! let products = Products::new(isa, &layout, &activations, Selection::Range { first: 0, count: 1 });
//! products.pair(weights.strip(0), None, &mut scratch, &mut out);
//! assert!((out[0] - 18.0).abs() < 1e-3 && (out[1] - 32.0).abs() < 1e-3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]

#[cfg(any(feature = "std", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod budget;
pub mod features;
pub mod simd;
pub mod activations;
pub mod product;
pub mod elementwise;
pub mod kv;
pub mod attention;
mod delta_net;
#[cfg(feature = "std")]
pub mod bandwidth;
#[cfg(feature = "std")]
pub mod pool;
#[cfg(any(not(feature = "std"), test, doc))]
pub mod single_thread;
#[cfg(not(feature = "std"))]
pub use single_thread as pool;
pub mod backend;

mod formats;
mod lines;
mod phase;
