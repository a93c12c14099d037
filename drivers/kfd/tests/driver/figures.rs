//! Figures of the submit path: heap allocations, which must be none, and time, which is printed only.

use crate::fake::Fake;
use crate::machines::{GIB, Machine, Release};
use crate::queue::{Clock, open, packets};
use doorbell_kfd::process::DeviceIndex;
use doorbell_kfd::queue::{Queue, QueueOptions, WaitLimits};
use rustix::time::{ClockId, clock_gettime};

/// Rounds that a figure is the mean of.
const ROUNDS: u64 = 500;

/// CPU time of this thread, in nanoseconds.
fn cpu_time() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn submitting_allocates_nothing() {
    let fake = Fake::new(Machine::new(Release::V6_12, 64 * GIB, &["RX 7900 XTX"]));
    let mut process = open(&fake);
    let first = DeviceIndex(0);
    let mut queue =
        Queue::create(&mut process, first, QueueOptions { packets: 4096, ..QueueOptions::default() })
            .expect("queue");
    // What reading the clock itself costs.
    let start = cpu_time();
    let clock = (0..ROUNDS).map(|_| cpu_time()).max().expect("rounds").saturating_sub(start) / ROUNDS;
    fake.inject(|injection| injection.is_asleep = true);
    for count in [1, 64, 1024] {
        let batch = packets(count);
        let mut total = 0;
        for _ in 0..ROUNDS {
            let mut made = None;
            let submitting = allocation_counter::measure(|| {
                let start = cpu_time();
                made = queue.submit(&process, &batch, 0).ok();
                total += cpu_time() - start;
            });
            assert_eq!(submitting.count_total, 0, "{count} packets");
            fake.catch_up();
            let waiting = allocation_counter::measure(|| {
                let submission = made.expect("submitted");
                let mut clock = Clock::default();
                queue.wait(&mut process, submission, WaitLimits::default(), &mut clock).expect("complete");
            });
            assert_eq!(waiting.count_total, 0, "waiting");
        }
        let mean = (total / ROUNDS).saturating_sub(clock);
        println!("submitting {count} dispatches: {mean} ns of CPU time, {} ns each", mean / u64::from(count));
    }
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
}
