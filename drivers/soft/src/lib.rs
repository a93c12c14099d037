//! A software GPU: the kernel's side of KFD plus an RDNA processor that is stricter than the hardware.
//!
//! A seed chooses where hardware may behave in several ways, and sanitizers report what hardware hides: early reads
//! of loads, stale or unwritten data, races. The layers, each on top of those before it:
//!
//! 1. [`memory`]: the GPU's address space, made of memory that the host shares.
//! 2. [`processor`]: waves, workgroups and dispatches of machine code, with sanitizers, counts and modelled time.
//! 3. [`code`]: code objects and kernel descriptors.
//! 4. [`command`]: the command processor, which runs queues of packets.
//! 5. [`kernel`]: files, ioctls with their error numbers, memory and queues as a driver sees them;
//!    [`kernel::SoftKernel`] implements [`doorbell_kfd::sys::Kernel`], so that the driver runs on it unchanged.
//!
//! One instruction for each of 32 work-items:
//!
//! ```
//! use doorbell_isa::{Inst, Operand, Target, encode, op, s_range, v}; use doorbell_soft::memory::Space; use
//! doorbell_soft::processor::{Dispatch, Engine, Options};
//!
//! let program = [
//!     Inst::new(op::v_lshlrev_b32, [v(1), Operand::int(2), v(0)]),
//!     Inst::new(op::global_store_b32, [v(1), v(0), s_range(0, 2)]),
//!     Inst::new(op::s_endpgm, [Operand::Immediate(0)]),
//! ]; let mut space = Space::new(); let code = space.allocate("code", 4096).expect("memory"); let mut at = 0; for
//! inst in &program {
//!     for word in encode(inst, Target::Gfx1100).expect("valid").words() {
//!         code.store32(at, *word);
//!         at += 4;
//!     }
//! } let data = space.allocate("data", 4096).expect("memory"); let dispatch = Dispatch {
//!     entry: code.address(),
//!     grid: [32, 1, 1],
//!     group: [32, 1, 1],
//!     vgprs: 8,
//!     user: vec![data.address() as u32, (data.address() >> 32) as u32],
//!     user_defined: 0b11,
//!     ..Dispatch::default()
//! }; let report = Engine::new(Target::Gfx1100, Options::default()).run(&[dispatch], &mut space)?;
//! assert!(report.findings.is_empty()); assert_eq!(data.load32(4 * 31), 31);
//! # Ok::<(), doorbell_soft::processor::Fault>(())
//! ```
//!
//! Not here: the instruction table (doorbell-isa), the driver that calls the kernel (doorbell-kfd).
#![no_std]

extern crate alloc;

#[cfg(any(test, feature = "std"))]
extern crate std;

mod chips;
pub mod code;
pub mod command;
pub mod kernel;
pub mod memory;
pub mod processor;
