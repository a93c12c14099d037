//! Loops with loads ahead, for every small number of trips; values that share registers with what a loop carries.

use crate::machine::{Arg, TARGETS, clean};
use doorbell_compiler::ir::{Builder, Counted, Elem, Function, Width};
use doorbell_compiler::{Options, compile};
use doorbell_isa::{Counter, decode};

fn ints(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `out[lane] = fold over i = start, start + 3, ... < end of sum * 31 + x[i * 32 + lane] * i`, 16 bytes loaded a trip.
fn fold(maybe: bool) -> Function {
    let mut k = Builder::new("fold", 32);
    let (x, out) = (k.buffer("x"), k.buffer("out"));
    let (start, end) = (k.scalar("start", Elem::Int), k.scalar("end", Elem::Int));
    let lane = k.workitem_id();
    let (step, four, seven) = (k.int(3), k.int(4), k.int(7));
    let own = k.shl(lane, four);
    let trips = Counted { start, end, step, maybe, uniform: 1 };
    let load = |k: &mut Builder, i| {
        let nine = k.int(9);
        let row = k.shl(i, nine);
        let at = k.add(row, own);
        vec![k.load(k.global(x, at), Width::Dwords(4), Elem::Int)]
    };
    let sums = k.pipelined(trips, &[seven, seven], load, |k, i, loaded, carried| {
        let factor = k.int(31);
        let count = k.add(carried[0], i);
        let mut sum = carried[1];
        for index in 0..4 {
            let value = k.extract(loaded[0], index);
            let product = k.mul(value, i);
            let scaled = k.mul(sum, factor);
            sum = k.add(scaled, product);
        }
        vec![count, sum]
    });
    let result = k.add(sums[0], sums[1]);
    let two = k.int(2);
    let at = k.shl(lane, two);
    k.store(k.global(out, at), Width::Dwords(1), result);
    k.finish()
}

fn expected(x: &[u32], start: u32, end: u32) -> Vec<u32> {
    let lane = |lane: u32| {
        let (mut count, mut sum) = (7u32, 7u32);
        for i in (start..end).step_by(3) {
            count = count.wrapping_add(i);
            for index in 0..4 {
                let value = x[(i * 128 + lane * 4 + index) as usize];
                sum = sum.wrapping_mul(31).wrapping_add(value.wrapping_mul(i));
            }
        }
        sum.wrapping_add(count)
    };
    (0..32).map(lane).collect()
}

#[test]
fn every_number_of_trips() {
    // The buffer ends with the last row that any trip reads.
    for (start, end) in [(2, 3), (2, 5), (2, 6), (2, 9), (2, 12), (1, 16), (2, 2), (9, 2)] {
        for maybe in [false, true] {
            if !maybe && start >= end {
                continue;
            }
            let function = fold(maybe);
            let last = (start..end).step_by(3).next_back().unwrap_or(0);
            let x: Vec<u32> = (0..(last + 1) * 128).map(|at: u32| at.wrapping_mul(2_654_435_761)).collect();
            for target in TARGETS {
                let kernel = compile(&function, target, &Options::default()).expect("compiles");
                let args = [Arg::Buffer(ints(&x)), Arg::Fresh(128), Arg::Scalar(start), Arg::Scalar(end)];
                let outcome = clean(&kernel, [1, 1], &args);
                assert_eq!(outcome.words(1), expected(&x, start, end), "{target} {start} to {end}");
            }
        }
    }
}

/// In the loop, loads are issued before what an earlier trip loaded is waited for, and the wait lets them run.
#[test]
fn waits_leave_the_next_trips_loads_outstanding() {
    for target in TARGETS {
        let kernel = compile(&fold(false), target, &Options::default()).expect("compiles");
        let (mut outstanding, mut kept, mut at) = (0u32, 0u32, 0);
        while let Some(Ok((inst, length))) = kernel.words.get(at..).map(|rest| decode(rest, target)) {
            outstanding += u32::from(inst.counters(target).has(Counter::Load));
            let text = inst.text(target).to_string();
            let count = text
                .strip_prefix("s_waitcnt vmcnt(")
                .and_then(|rest| rest.split(')').next()?.parse().ok())
                .or_else(|| u32::from_str_radix(text.strip_prefix("s_wait_loadcnt 0x")?, 16).ok());
            if let Some(count) = count {
                kept += u32::from(count > 0 && outstanding > 0);
            }
            at += length;
        }
        assert!(kept >= 1, "{target}: every wait is for all loads\n{}", kernel.assembly());
    }
}

/// Elements of a carried value are used after the value for the next trip is computed.
#[test]
fn elements_of_carried_values_keep_their_registers() {
    let mut k = Builder::new("elements", 32);
    let (x, out) = (k.buffer("x"), k.buffer("out"));
    let lane = k.workitem_id();
    let (zero, one, four, end) = (k.int(0), k.int(1), k.int(4), k.int(5));
    let own = k.shl(lane, four);
    let first = k.load(k.global(x, own), Width::Dwords(4), Elem::Int);
    let ends = k.for_range([zero, end, one], &[first, zero], |k, i, carried| {
        let parts: Vec<_> = (0..4).map(|index| k.extract(carried[0], index)).collect();
        let nine = k.int(9);
        let row = k.shl(i, nine);
        let at = k.add(row, own);
        let next = k.load(k.global(x, at), Width::Dwords(4), Elem::Int);
        let mut sum = carried[1];
        for part in parts {
            let part = k.bits(part, Elem::Float);
            let part = k.bits(part, Elem::Int);
            sum = k.add(sum, part);
        }
        vec![next, sum]
    });
    let last = k.extract(ends[0], 3);
    let result = k.add(ends[1], last);
    let two = k.int(2);
    let at = k.shl(lane, two);
    k.store(k.global(out, at), Width::Dwords(1), result);
    let function = k.finish();
    let x: Vec<u32> = (0..5 * 128).map(|at| at * at).collect();
    let row = |row: usize, lane: usize| x[row * 128 + lane * 4..][..4].iter().sum::<u32>();
    let sums = (0..32).map(|lane| row(0, lane) + (0..4).map(|i| row(i, lane)).sum::<u32>());
    let expected: Vec<u32> = sums.enumerate().map(|(lane, sum)| sum + x[4 * 128 + lane * 4 + 3]).collect();
    for target in TARGETS {
        let kernel = compile(&function, target, &Options::default()).expect("compiles");
        let outcome = clean(&kernel, [1, 1], &[Arg::Buffer(ints(&x)), Arg::Fresh(128)]);
        assert_eq!(outcome.words(1), expected, "{target}");
    }
}
