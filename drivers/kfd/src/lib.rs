//! AMD GPUs through the Linux kernel's KFD interface: discovery, memory, queues, signals, faults.
//!
//! Nothing of ours is below this crate, and no runtime library is: `/dev/kfd`, the render nodes and sysfs are
//! all it talks to, by system calls of its own. What a kernel computes and which kernel runs is not known here.
//! All `unsafe` code is in [`sys`]; everything above it works on any [`sys::Kernel`], the real one or a
//! software one. Modules in the order they are used:
#![no_std]

extern crate alloc;

pub mod sys;

mod heap;
pub mod topology;

pub mod process;

pub mod memory;

pub mod code;
pub mod packet;

pub mod fault;
pub mod queue;

pub mod doctor;

pub use heap::OutOfMemory;
