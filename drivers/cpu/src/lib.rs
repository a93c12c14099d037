//! Runs a plan on host cores with the best SIMD present.
//!
//! The kernels need no operating system; the thread pool and the backend on top of it are behind the feature `std`.
#![no_std]

#[cfg(any(feature = "std", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod budget;
pub mod features;
pub mod simd;
pub mod panel;
pub mod product;
pub mod elementwise;
pub mod kv;
pub mod attention;
#[cfg(feature = "std")]
pub mod bandwidth;
#[cfg(feature = "std")]
pub mod pool;
#[cfg(feature = "std")]
pub mod backend;

mod formats;
