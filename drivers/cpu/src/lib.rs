//! Runs a plan on host cores with the best SIMD present.
//!
//! Neither the kernels nor the backend need an operating system: without the feature `std` the backend's team is the
//! calling thread alone.
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
#[cfg(feature = "std")]
pub mod bandwidth;
#[cfg(feature = "std")]
pub mod pool;
#[cfg(any(not(feature = "std"), test))]
pub mod single_thread;
#[cfg(not(feature = "std"))]
pub use single_thread as pool;
pub mod backend;

mod formats;
mod lines;
