//! Operations of the builder that no sample uses: control flow, lanes, atomics, wide addresses.

use crate::machine::{Arg, Outcome, Random, TARGETS, bytes, clean};
use doorbell_compiler::ir::{Alu, AtomicOp, Axis, Builder, Counted, Elem, Function, Scope, Value, Width};
use doorbell_compiler::{Options, compile};

/// Compiles for every chip and runs.
fn on_all(function: &Function, groups: u32, args: impl Fn() -> Vec<Arg>, check: impl Fn(Outcome)) {
    for target in TARGETS {
        let kernel = compile(function, target, &Options::default()).expect("compiles");
        check(clean(&kernel, [groups, 1], &args()));
    }
}

fn ints(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn shl(k: &mut Builder, value: Value, bits: u32) -> Value {
    let bits = k.int(bits);
    k.shl(value, bits)
}

/// Byte offset of the work item's dword in the grid.
fn own(k: &mut Builder, workgroup: u32) -> Value {
    let (group, item) = (k.workgroup_id(Axis::X), k.workitem_id());
    let size = k.int(workgroup);
    let first = k.mul(group, size);
    let index = k.add(first, item);
    shl(k, index, 2)
}

fn load(k: &mut Builder, buffer: Value, offset: Value) -> Value {
    k.load(k.global(buffer, offset), Width::Dwords(1), Elem::Int)
}

fn store(k: &mut Builder, buffer: Value, offset: Value, value: Value) {
    k.store(k.global(buffer, offset), Width::Dwords(1), value);
}

/// Partial sums of eight workgroups; the last to arrive adds them up.
#[test]
fn last_workgroup_sums_what_all_wrote() {
    let mut k = Builder::new("last_arrival", 64);
    let (x, partial, counter, out) =
        (k.buffer("x"), k.buffer("partial"), k.buffer("counter"), k.buffer("out"));
    let slot = k.local(4);
    let at = own(&mut k, 64);
    let value = load(&mut k, x, at);
    let doubled = k.add(value, value);
    store(&mut k, partial, at, doubled);
    let (zero, total) = (k.int(0), k.int(8));
    let last = k.last_arrival(k.global(counter, zero), total, slot);
    k.when(last, |k| {
        let item = k.workitem_id();
        let offset = shl(k, item, 2);
        let (end, step) = (k.int(8 * 256), k.int(256));
        let sum = k.for_range([zero, end, step], &[zero], |k, at, carried| {
            let from = k.add(at, offset);
            let value = load(k, partial, from);
            vec![k.add(carried[0], value)]
        })[0];
        store(k, out, offset, sum);
    });
    let function = k.finish();
    let mut random = Random(20);
    let input: Vec<u32> = (0..512).map(|_| random.next().into()).collect();
    let args = || vec![Arg::Buffer(ints(&input)), Arg::Fresh(2048), Arg::Buffer(vec![0; 4]), Arg::Fresh(256)];
    on_all(&function, 8, args, |outcome| {
        let expected: Vec<u32> =
            (0..64).map(|item| (0..8).map(|group| 2 * input[64 * group + item]).sum()).collect();
        assert_eq!(outcome.words(3), expected);
        assert_eq!(outcome.words(2), [8]);
    });
}

#[test]
fn old_values_of_lds_atomics_are_tickets() {
    let mut k = Builder::new("tickets", 64);
    let out = k.buffer("out");
    let slot = k.local(4);
    let item = k.workitem_id();
    let (zero, one) = (k.int(0), k.int(1));
    let mut counter = k.lds(zero);
    counter.constant = slot.cast_signed();
    let leader = k.eq(item, zero);
    k.when(leader, |k| k.store(counter, Width::Dwords(1), zero));
    k.barrier(false);
    let ticket = k.atomic_old(AtomicOp::AddInt, Scope::Workgroup, counter, one);
    let at = shl(&mut k, item, 2);
    store(&mut k, out, at, ticket);
    on_all(
        &k.finish(),
        1,
        || vec![Arg::Fresh(256)],
        |outcome| {
            let mut tickets = outcome.words(0);
            tickets.sort_unstable();
            assert_eq!(tickets, (0..64).collect::<Vec<u32>>());
        },
    );
}

/// Steps of the Collatz sequence, lane by lane, with a branch in the loop.
#[test]
fn lanes_leave_a_loop_one_by_one() {
    let mut k = Builder::new("collatz", 32);
    let (x, out) = (k.buffer("x"), k.buffer("out"));
    let at = own(&mut k, 32);
    let value = load(&mut k, x, at);
    let (zero, one, three) = (k.int(0), k.int(1), k.int(3));
    let first = k.ne(value, one);
    let steps = k.repeat(Some(first), &[value, zero], |k, inside| {
        let low = k.and(inside[0], one);
        let odd = k.eq(low, one);
        let next = k.choose(
            odd,
            |k| {
                let product = k.mul(inside[0], three);
                vec![k.add(product, one)]
            },
            |k| vec![k.shr(inside[0], one)],
        )[0];
        let count = k.add(inside[1], one);
        let again = k.ne(next, one);
        (vec![next, count], again)
    });
    store(&mut k, out, at, steps[1]);
    // All lanes are back.
    let all = k.reduce_wave(one, Alu::add);
    let more = k.int(256);
    let address = k.add(at, more);
    store(&mut k, out, address, all);
    let input: Vec<u32> = (1..=64).collect();
    on_all(
        &k.finish(),
        2,
        || vec![Arg::Buffer(ints(&input)), Arg::Fresh(512)],
        |outcome| {
            let steps = |mut value: u32| {
                let mut count = 0;
                while value != 1 {
                    value = if value % 2 == 1 { 3 * value + 1 } else { value / 2 };
                    count += 1;
                }
                count
            };
            let expected: Vec<u32> = input.iter().map(|value| steps(*value)).chain([32; 64]).collect();
            assert_eq!(outcome.words(1), expected);
        },
    );
}

#[test]
fn loops_without_trips_keep_the_initial_values() {
    let mut k = Builder::new("maybe", 32);
    let out = k.buffer("out");
    let n = k.scalar("n", Elem::Int);
    let at = own(&mut k, 32);
    let (zero, one, seven) = (k.int(0), k.int(1), k.int(7));
    let sum = k.for_range_maybe([zero, n, one], &[seven], |k, i, inside| vec![k.add(inside[0], i)])[0];
    // The trip count differs from lane to lane.
    let item = k.workitem_id();
    let first = k.lt_u(zero, item);
    let counts = k.repeat(Some(first), &[zero], |k, inside| {
        let next = k.add(inside[0], one);
        let again = k.lt_u(next, item);
        (vec![next], again)
    });
    let both = k.add(sum, counts[0]);
    store(&mut k, out, at, both);
    let function = k.finish();
    for n in [0, 1, 5] {
        on_all(
            &function,
            1,
            || vec![Arg::Fresh(128), Arg::Scalar(n)],
            |outcome| {
                let sum = 7 + (0..n).sum::<u32>();
                assert_eq!(outcome.words(0), (sum..sum + 32).collect::<Vec<u32>>());
            },
        );
    }
}

/// A base that moves by a uniform 64-bit step, from far below the buffer.
#[test]
fn bases_move_by_more_than_four_gigabytes() {
    let mut k = Builder::new("far", 32);
    let (x, far, out) = (k.buffer("x"), k.buffer("far"), k.buffer("out"));
    let (rows, pitch, n) =
        (k.scalar("rows", Elem::Int), k.scalar("pitch", Elem::Int), k.scalar("n", Elem::Int));
    let distance = k.wide_mul(rows, pitch);
    let base = k.wide_add(far, distance);
    let at = own(&mut k, 32);
    let (zero, one, step) = (k.int(0), k.int(1), k.int(128));
    let counted = Counted { start: zero, end: n, step: one, maybe: true, uniform: 1 };
    let sums = k.counted(counted, &[base, zero], |k, _, inside| {
        let value = load(k, inside[0], at);
        let sum = k.add(inside[1], value);
        vec![k.wide_add(inside[0], step), sum]
    });
    // Also the buffer itself, so that it is known to be an argument.
    let first = load(&mut k, x, at);
    let result = k.sub(sums[1], first);
    store(&mut k, out, at, result);
    let input: Vec<u32> = (0..96).map(|index| index * index).collect();
    let (rows, pitch) = (700_001u32, 99_991u32);
    let args = || {
        let distance = u64::from(rows) * u64::from(pitch);
        vec![
            Arg::Buffer(ints(&input)),
            Arg::Before(0, distance),
            Arg::Fresh(128),
            Arg::Scalar(rows),
            Arg::Scalar(pitch),
            Arg::Scalar(3),
        ]
    };
    on_all(&k.finish(), 1, args, |outcome| {
        let expected: Vec<u32> = (0..32).map(|lane| input[32 + lane] + input[64 + lane]).collect();
        assert_eq!(outcome.words(1), expected);
    });
}

#[test]
fn lanes_read_each_other() {
    let mut k = Builder::new("lanes", 32);
    let (x, from, out) = (k.buffer("x"), k.buffer("from"), k.buffer("out"));
    let lane = k.scalar("lane", Elem::Int);
    let at = own(&mut k, 32);
    let (value, source) = (load(&mut k, x, at), load(&mut k, from, at));
    let one = k.read_lane(value, lane);
    let gathered = k.lane_gather(value, source);
    let sum = k.add(gathered, one);
    store(&mut k, out, at, sum);
    let mut random = Random(21);
    let x: Vec<u32> = (0..32).map(|_| random.next().into()).collect();
    let from: Vec<u32> = (0..32).map(|_| (random.next() % 32).into()).collect();
    let args = || vec![Arg::Buffer(ints(&x)), Arg::Buffer(ints(&from)), Arg::Fresh(128), Arg::Scalar(13)];
    on_all(&k.finish(), 1, args, |outcome| {
        let expected: Vec<u32> = from.iter().map(|from| x[*from as usize] + x[13]).collect();
        assert_eq!(outcome.words(2), expected);
    });
}

/// Conditions of both kinds, combined; barriers stand in branches on uniform ones.
#[test]
fn conditions_combine() {
    let mut k = Builder::new("logic", 64);
    let out = k.buffer("out");
    let n = k.scalar("n", Elem::Int);
    let x = k.scalar("x", Elem::Float);
    let at = own(&mut k, 64);
    let item = k.workitem_id();
    let (zero, one, two, ten) = (k.int(0), k.int(1), k.int(2), k.int(10));
    let (half, small) = (k.float(0.5), k.lt_u(item, ten));
    let low = k.and(item, one);
    let odd = k.eq(low, one);
    let big = k.gt_u(n, two);
    let positive = k.fgt(x, half);
    let uniform = k.both(big, positive);
    let other = k.either(big, positive);
    let neither = k.negate(other);
    let even = k.negate(odd);
    let small_even = k.both(small, even);
    let mixed = k.either(small_even, neither);
    let bits = k.select(mixed, one, zero);
    let four = k.int(4);
    let (flag, none) = (k.select(uniform, two, zero), k.select(neither, four, zero));
    let flags = k.or(flag, none);
    let bits = k.or(bits, flags);
    let eight = k.int(8);
    let bits = k.choose(
        uniform,
        |k| {
            k.barrier(false);
            vec![k.or(bits, eight)]
        },
        |_| vec![bits],
    )[0];
    store(&mut k, out, at, bits);
    let function = k.finish();
    for (n, x) in [(0u32, 0f32), (3, 0.0), (0, 1.0), (3, 1.0)] {
        on_all(
            &function,
            1,
            || vec![Arg::Fresh(256), Arg::Scalar(n), Arg::Scalar(x.to_bits())],
            |outcome| {
                let (big, positive) = (n > 2, x > 0.5);
                let neither = !(big || positive);
                let expected: Vec<u32> = (0..64)
                    .map(|item| {
                        let mixed = item < 10 && item % 2 == 0 || neither;
                        let uniform = if big && positive { 10 } else { 0 };
                        u32::from(mixed) + uniform + if neither { 4 } else { 0 }
                    })
                    .collect();
                assert_eq!(outcome.words(0), expected, "{n} {x}");
            },
        );
    }
}

/// Rounding conversions and narrow stores.
#[test]
fn floats_become_halves_and_integers() {
    let mut k = Builder::new("rounding", 32);
    let (x, halves, pairs, rounded, bytes_out) =
        (k.buffer("x"), k.buffer("halves"), k.buffer("pairs"), k.buffer("rounded"), k.buffer("bytes"));
    let at = own(&mut k, 32);
    let value = k.load(k.global(x, at), Width::Dwords(1), Elem::Float);
    let half = k.cvt_h_f(value);
    let (one, two) = (k.int(1), k.int(2));
    let half_at = k.shr(at, one);
    k.store(k.global(halves, half_at), Width::U16, half);
    let negative = k.fneg(value);
    let size = k.fabs(value);
    let pair = k.half_pair(negative, size);
    store(&mut k, pairs, at, pair);
    let (low, high) = (k.float(-100.0), k.float(100.0));
    let limited = k.clamp(value, low, high);
    let integer = k.round_to_int(limited);
    store(&mut k, rounded, at, integer);
    let byte_at = k.shr(at, two);
    k.store(k.global(bytes_out, byte_at), Width::U8, integer);
    let mut input: Vec<f32> = vec![0.5, 1.5, -2.5, 65519.0, 65520.0, 1e-7, 6.1e-5, -0.0, 2049.0, 2051.0];
    let mut random = Random(22);
    input.extend((0..22).map(|_| f32::from(random.next()) / 37.0 - 900.0));
    let args =
        || vec![Arg::Buffer(bytes(&input)), Arg::Fresh(64), Arg::Fresh(128), Arg::Fresh(128), Arg::Fresh(32)];
    on_all(&k.finish(), 1, args, |outcome| {
        let half = |x: f32| half::f16::from_f32(x).to_bits();
        let halves: Vec<u8> = input.iter().flat_map(|x| half(*x).to_le_bytes()).collect();
        assert_eq!(outcome.buffers[1], halves);
        let pairs: Vec<u32> =
            input.iter().map(|x| u32::from(half(-x)) | u32::from(half(x.abs())) << 16).collect();
        assert_eq!(outcome.words(2), pairs);
        let rounded: Vec<i32> =
            input.iter().map(|x| x.clamp(-100.0, 100.0).round_ties_even() as i32).collect();
        assert_eq!(outcome.words(3), rounded.iter().map(|x| x.cast_unsigned()).collect::<Vec<u32>>());
        assert_eq!(outcome.buffers[4], rounded.iter().map(|x| *x as u8).collect::<Vec<u8>>());
    });
}
