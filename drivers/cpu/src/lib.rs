//! Runs a plan on host cores with the best SIMD present.
//!
//! The kernels need no operating system; the thread pool and the backend on top of it are behind the feature `std`.
#![no_std]

#[cfg(any(feature = "std", test))]
extern crate std;

pub mod budget;
#[cfg(feature = "std")]
pub mod bandwidth;
pub mod attention;
#[cfg(feature = "std")]
pub mod backend;
pub mod elementwise;
pub mod features;
pub mod kv;
pub mod panel;
#[cfg(feature = "std")]
pub mod pool;
pub mod simd;

pub mod product;

mod formats;
