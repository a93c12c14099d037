//! The bandwidth of this machine's memory: the limit of decoding, measured on the machine that is compared with it.

extern crate alloc;

use alloc::vec::Vec;
use core::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Bytes read in one pass, by all threads together: more than the caches hold.
const TOTAL: usize = 512 << 20;

/// Passes; the fastest counts, since disturbances only slow down.
const PASSES: usize = 6;

/// Bytes a second that `threads` threads read together from memory, each its own part in order.
///
/// Takes 512 MiB of memory and a fraction of a second.
#[must_use]
pub fn read_bandwidth(threads: usize) -> f64 {
    let threads = threads.max(1);
    let share = TOTAL / threads / 8;
    let barrier = Barrier::new(threads);
    let seconds = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| passes(share, &barrier))).collect();
        let times = workers.into_iter().filter_map(|worker| worker.join().ok());
        // a pass lasts as long as its slowest thread
        let slowest =
            |all: [f64; PASSES], one: [f64; PASSES]| core::array::from_fn(|pass| all[pass].max(one[pass]));
        times.fold([0.0; PASSES], slowest)
    });
    let fastest = seconds.into_iter().fold(f64::INFINITY, f64::min);
    (share * 8 * threads) as f64 / fastest
}

/// The seconds of each pass over `len` words of this thread's own.
fn passes(len: usize, barrier: &Barrier) -> [f64; PASSES] {
    // written first, so that each word has memory of its own
    let words: Vec<u64> = (0..len as u64).collect();
    core::array::from_fn(|_| {
        barrier.wait();
        let start = Instant::now();
        black_box(sum(&words));
        let seconds = start.elapsed().as_secs_f64();
        barrier.wait();
        seconds
    })
}

/// The sum in eight lanes, which compilers turn into wide loads.
fn sum(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<8>();
    let mut lanes = [0_u64; 8];
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().chain(rest).fold(0, |sum, word| sum.wrapping_add(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_reads_every_word() {
        let words: Vec<u64> = (0..1003).collect();
        assert_eq!(sum(&words), 1002 * 1003 / 2);
    }
}
