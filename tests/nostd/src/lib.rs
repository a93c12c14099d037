//! The proof that the `no_std` crates need no std: this crate has a panic handler, and std has one too, so a
//! dependency that brings std in is a compile error (E0152). Nothing here runs.
#![no_std]

use doorbell_core as _;
use doorbell_cpu as _;
use doorbell_isa as _;
use doorbell_kfd as _;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
