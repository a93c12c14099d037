//! Figures of the submit path: heap allocations, which must be none, and time, which is printed only.
#![expect(unsafe_code, reason = "an allocator that counts")]

use crate::fake::Fake;
use crate::machines::{GIB, Machine, Release};
use crate::queue::{Clock, open, packets};
use doorbell_kfd::process::DeviceIndex;
use doorbell_kfd::queue::{Kernargs, Patience, Queue, QueueOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[test]
fn submitting_allocates_nothing() {
    let fake = Fake::new(Machine::new(Release::V6_12, 64 * GIB, &["RX 7900 XTX"]));
    let mut process = open(&fake);
    let first = DeviceIndex(0);
    let mut queue =
        Queue::create(&mut process, first, QueueOptions { packets: 4096, ..QueueOptions::default() })
            .expect("queue");
    let mut kernargs = Kernargs::new(&mut process, first, 1 << 20).expect("memory");
    fake.inject(|injection| injection.is_asleep = true);
    for count in [1, 64, 1024] {
        let batch = packets(count);
        let mut best = u128::MAX;
        for _ in 0..500 {
            let before = allocations();
            let (_, window, at) = kernargs.take(u64::from(count) * 64).expect("room");
            window.write(at, &[1; 64]);
            let start = Instant::now();
            let submission = queue.submit(&process, &batch, 0).expect("room");
            best = best.min(start.elapsed().as_nanos());
            assert!(kernargs.mark(submission));
            assert_eq!(allocations(), before, "{count} packets");
            fake.catch_up();
            let before = allocations();
            let mut clock = Clock::default();
            queue.wait(&mut process, submission, Patience::default(), &mut clock).expect("complete");
            kernargs.recycle(submission);
            assert_eq!(allocations(), before, "waiting");
        }
        println!("submitting {count} dispatches: {best} ns, {} ns each", best / u128::from(count));
    }
    kernargs.destroy(&mut process).expect("free");
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
}
