//! AMD GPUs through the Linux kernel's KFD interface: discovery, memory, queues, signals, faults.
//!
//! The crate depends on no other crate of this project and on no runtime library: it uses `/dev/kfd`, the render nodes
//! and sysfs by system calls of its own. Which kernels run and what they compute is up to the caller. All `unsafe` code
//! is in [`sys`]; everything above it works on any [`sys::Kernel`], the real one or a software one.
//!
//! Layers, each using those before it:
//!
//! 1. [`sys`]: ioctl structs, system calls, memory shared with devices.
//! 2. [`topology`]: the GPUs of a machine, their properties, memory limits, the choice of one.
//! 3. [`process`]: the connection to KFD and its devices, events, trap handlers.
//! 4. [`memory`]: buffers, the table of allocations, uploads.
//! 5. [`code`]: code objects in device memory; [`packet`]: AQL, PM4 and SDMA packets.
//! 6. [`queue`]: submitting and waiting; [`fault`]: what is reported when a device fails.
//! 7. [`doctor`]: everything that can keep a GPU from being used, with remedies.
//!
//! ```
//! use doorbell_kfd::process::Process;
//! use doorbell_kfd::sys::Linux;
//! use doorbell_kfd::topology::Topology;
//!
//! // Lists the GPUs of this machine and opens the first one.
//! let Ok(topology) = Topology::scan(&Linux) else { return };
//! for node in topology.gpus() {
//!     println!("{} at {}: {} compute units", node.isa(), node.identity(), node.compute_units());
//! }
//! if let Some(node) = topology.devices().next()
//!     && let Ok(process) = Process::open(&Linux, &[node])
//! {
//!     println!("KFD interface {}", process.version());
//! }
//! ```
//!
//! `examples/smoke_test.rs` goes on from there: an upload, a queue, packets, waiting.
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
