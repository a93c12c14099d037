//! Lists of dispatches: as AQL packets and as a resident PM4 buffer they leave the same memory, and both tell when each
//! dispatch ran.

use crate::rig::{Clock, Compiled, FIRST, Life, PATIENCE, compiled, open, sample, soft, text};
use doorbell_compiler::ir::{Axis, Builder, Elem, Width};
use doorbell_compiler::object::ArgumentValue;
use doorbell_isa::Target;
use doorbell_kfd::memory::{Buffer, Name, Usage};
use doorbell_kfd::packet::{
    Acquire, Dependency, Header, Packet, PacketKind, Recorded, Recorder, Scope, pm4_buffer,
};
use doorbell_kfd::process::Process;
use doorbell_kfd::queue::{Interval, Profile, QueueOptions};
use doorbell_soft::kernel::{Release, chip};
use doorbell_soft::processor::Level;
use doorbell_tests::random::Random;

/// Words of each buffer.
const WORDS: usize = 1024;
const BUFFERS: usize = 4;
const DISPATCHES: usize = 40;
const CHIPS: [(&str, Release); 4] = [
    ("RX 7900 XTX", Release::V6_1),
    ("780M", Release::V6_12),
    ("8060S", Release::V7_2),
    ("RX 9070 XT", Release::V7_2),
];

/// `out[i] = out[i] * 3 + in[n - 1 - i]` on integers: order and completeness of everything before show in the result.
fn mix(target: Target) -> Compiled {
    let mut k = Builder::new("mix", 64);
    let (input, out) = (k.buffer("in"), k.buffer("out"));
    let n = k.scalar("n", Elem::Int);
    let (group, item) = (k.workgroup_id(Axis::X), k.workitem_id());
    let (six, two, three, one) = (k.int(6), k.int(2), k.int(3), k.int(1));
    let base = k.shl(group, six);
    let i = k.add(base, item);
    let inside = k.lt_u(i, n);
    k.when(inside, |k| {
        let mirrored = k.sub(n, one);
        let mirrored = k.sub(mirrored, i);
        let (at, from) = (k.shl(i, two), k.shl(mirrored, two));
        let x = k.load(k.global(input, from), Width::Dwords(1), Elem::Int);
        let y = k.load(k.global(out, at), Width::Dwords(1), Elem::Int);
        let scaled = k.mul(y, three);
        let sum = k.add(scaled, x);
        k.store(k.global(out, at), Width::Dwords(1), sum);
    });
    compiled(&k.finish(), target)
}

/// A process with the kernel loaded, and buffers with the same numbers each time.
struct Bed {
    life: Life,
    buffers: Vec<Buffer>,
    kernarg: usize,
    mix: Compiled,
}

impl Bed {
    fn new(process: &mut Process<'_>, target: Target) -> Self {
        let mut life = Life::default();
        let mix = mix(target);
        let options = QueueOptions { profile: true, ..QueueOptions::default() };
        life.load(process, &mix.object, options).unwrap();
        let kernarg = life.buffer(process, Usage::Kernarg, "arguments").unwrap();
        let allocate =
            |_| process.allocate(FIRST, Usage::Staging, WORDS as u64 * 4, Name::new("numbers")).unwrap();
        let buffers = (0..BUFFERS).map(allocate).collect();
        let bed = Self { life, buffers, kernarg, mix };
        bed.fill();
        bed
    }

    fn fill(&self) {
        for (number, buffer) in self.buffers.iter().enumerate() {
            (0..WORDS).for_each(|at| buffer.window().unwrap().store32(at * 4, (at * 7 + number) as u32));
        }
    }

    fn memory(&self) -> Vec<u32> {
        let words = |buffer: &Buffer| {
            (0..WORDS).map(|at| buffer.window().unwrap().load32(at * 4)).collect::<Vec<_>>()
        };
        self.buffers.iter().flat_map(words).collect()
    }

    /// A dispatch from one buffer to another over `n` elements.
    fn dispatch(&self, (from, to): (usize, usize), n: u32, slot: usize) -> Recorded {
        let buffers = [from, to].map(|index| ArgumentValue::Buffer(self.buffers[index].va()));
        let arguments = [buffers[0], buffers[1], ArgumentValue::Scalar(n)];
        self.life.dispatch(self.kernarg, &self.mix, &arguments, n, slot)
    }

    /// A random list in which only those that touch nothing of each other are independent.
    fn list(&self, seed: u64) -> Recorder {
        let mut random = Random::new(seed);
        let mut recorder = Recorder::new();
        let mut touched = [false; BUFFERS];
        for slot in 0..DISPATCHES {
            let from = random.below(BUFFERS);
            let to = (from + 1 + random.below(BUFFERS - 1)) % BUFFERS;
            let n = 1 + random.below(WORDS) as u32;
            let mut recorded = self.dispatch((from, to), n, slot);
            // the last group may be partial
            recorded.dispatch.grid[0] = n;
            if touched[from] || touched[to] || random.below(3) == 0 {
                touched = [false; BUFFERS];
            } else {
                recorded.dependency = Dependency::None;
            }
            (touched[from], touched[to]) = (true, true);
            assert_eq!(recorded.acquire, Acquire::Agent);
            recorder.add(recorded).unwrap();
        }
        recorder
    }

    fn end(self, process: &mut Process<'_>) {
        self.life.end(process).unwrap();
        for buffer in self.buffers {
            process.free(buffer).unwrap();
        }
    }
}

/// A PM4 list lies in memory and is run by one packet, as often as wanted.
struct Resident {
    buffer: Buffer,
    packet: Packet,
}

impl Resident {
    fn new(process: &mut Process<'_>, words: &[u32]) -> Self {
        let buffer = process.allocate(FIRST, Usage::Ring, words.len() as u64 * 4, Name::new("list")).unwrap();
        let window = buffer.window().unwrap();
        words.iter().enumerate().for_each(|(at, word)| window.store32(at * 4, *word));
        let header = Header {
            kind: PacketKind::Vendor,
            barrier: true,
            acquire: Scope::System,
            release: Scope::System,
        };
        let packet = pm4_buffer(header, buffer.va(), words.len() as u32);
        Self { buffer, packet }
    }
}

#[test]
fn a_resident_list_leaves_the_memory_that_packets_leave() {
    for (name, release) in CHIPS {
        for seed in 0..8 {
            let kernel = soft(release, name, if seed == 0 { Level::Fast } else { Level::Strict }, seed);
            let mut process = open(&kernel).unwrap();
            let mut bed = Bed::new(&mut process, chip(name).unwrap().target);
            let list = bed.list(seed);
            let mut packets = [Packet::INVALID; DISPATCHES];
            assert_eq!(list.encode_aql(&mut packets), Ok(DISPATCHES));
            let mut words = [0; 4096];
            let used = list.encode_pm4(process.device(FIRST).node().isa(), &mut words).unwrap();
            let resident = Resident::new(&mut process, &words[..used]);
            let mut memories = Vec::new();
            for packets in [&packets[..], &[resident.packet]] {
                bed.fill();
                let mut after = vec![bed.memory()];
                for _ in 0..3 {
                    bed.life.run(&mut process, packets).unwrap();
                    after.push(bed.memory());
                }
                assert!(after.windows(2).all(|pair| pair[0] != pair[1]), "each run changes something");
                memories.push(after);
            }
            assert!(memories[0] == memories[1], "{name} on {release:?}, list {seed}");
            assert_eq!(kernel.report(process.device(FIRST).gpu_id()).unwrap().findings, []);
            process.free(resident.buffer).unwrap();
            bed.end(&mut process);
            process.shutdown().unwrap();
            assert_eq!(kernel.held(), (0, 0, 0));
        }
    }
}

/// Intervals have their order where the list has one, and lie between two looks at the GPU's clock.
fn check_order(intervals: &[Interval], list: &Recorder, before: u64, after: u64) {
    assert_eq!(intervals.len(), list.list().len());
    let mut end_of_before = before;
    let mut latest = before;
    for (interval, recorded) in intervals.iter().zip(list.list()) {
        if recorded.dependency == Dependency::Previous {
            end_of_before = latest;
        }
        assert!(end_of_before <= interval.start && interval.start < interval.end, "{interval:?}");
        latest = latest.max(interval.end);
    }
    assert!(latest <= after);
}

#[test]
fn every_dispatch_tells_when_it_ran() {
    for (name, release) in CHIPS {
        let kernel = soft(release, name, Level::Fast, 9);
        let mut process = open(&kernel).unwrap();
        let mut bed = Bed::new(&mut process, chip(name).unwrap().target);
        let list = bed.list(5);
        let mut packets = [Packet::INVALID; DISPATCHES];
        list.encode_aql(&mut packets).unwrap();
        let mut profile = Profile::new(&mut process, FIRST, DISPATCHES).unwrap();
        assert!(!profile.attach(&mut [Packet::INVALID; 65]), "a page has 64 signals");
        for _ in 0..3 {
            assert!(profile.attach(&mut packets));
            let before = process.clocks(FIRST).unwrap().gpu;
            bed.life.run(&mut process, &packets).unwrap();
            let after = process.clocks(FIRST).unwrap().gpu;
            let intervals: Vec<_> =
                profile.intervals(bed.life.queue.as_ref().unwrap()).map(Option::unwrap).collect();
            check_order(&intervals, &list, before, after);
            let nanoseconds: u64 =
                intervals.iter().map(|interval| interval.nanoseconds(profile.counter_hz())).sum();
            assert!(nanoseconds > 0 && profile.counter_hz() == 100_000_000);
        }
        profile.destroy(&mut process).unwrap();
        bed.end(&mut process);
        process.shutdown().unwrap();
        assert_eq!(kernel.held(), (0, 0, 0));
    }
}

#[test]
fn a_resident_list_tells_too() {
    for (name, release) in CHIPS {
        let kernel = soft(release, name, Level::Fast, 9);
        let mut process = open(&kernel).unwrap();
        let mut bed = Bed::new(&mut process, chip(name).unwrap().target);
        let list = bed.list(6);
        let stamps = process.allocate(FIRST, Usage::Signals, 4096, Name::new("stamps")).unwrap();
        let mut words = [0; 4096];
        let isa = process.device(FIRST).node().isa();
        let plain = list.encode_pm4(isa, &mut words).unwrap();
        let used = list.encode_pm4_stamped(isa, stamps.va(), &mut words).unwrap();
        assert_eq!(used, plain + (DISPATCHES + 1) * 8);
        let resident = Resident::new(&mut process, &words[..used]);
        let before = process.clocks(FIRST).unwrap().gpu;
        bed.life.run(&mut process, &[resident.packet]).unwrap();
        let after = process.clocks(FIRST).unwrap().gpu;
        let stamp = |at: usize| stamps.window().unwrap().load64(at * 8);
        let intervals: Vec<_> =
            (0..DISPATCHES).map(|at| Interval { start: stamp(at), end: stamp(at + 1) }).collect();
        check_order(&intervals, &list, before, after);
        process.free(stamps).unwrap();
        process.free(resident.buffer).unwrap();
        bed.end(&mut process);
        process.shutdown().unwrap();
    }
}

/// A queue that was made without profiling has no intervals.
#[test]
fn without_profiling_there_is_nothing_to_tell() {
    let kernel = soft(Release::V6_12, "RX 7600", Level::Fast, 9);
    let mut process = open(&kernel).unwrap();
    let mut life = Life::default();
    let mix = sample("vector_add", Target::Gfx1102);
    life.load(&mut process, &mix.object, QueueOptions::default()).map_err(text).unwrap();
    let header =
        Header { kind: PacketKind::BarrierAnd, barrier: true, acquire: Scope::None, release: Scope::None };
    let mut packets = [doorbell_kfd::packet::barrier_and(header, [0; 5]); 2];
    let mut profile = Profile::new(&mut process, FIRST, 2).unwrap();
    assert!(profile.attach(&mut packets));
    let queue = life.queue.as_mut().unwrap();
    let submission = queue.submit(&process, &packets, 0).unwrap();
    queue.wait(&mut process, submission, PATIENCE, &mut Clock::default()).unwrap();
    assert_eq!(profile.intervals(queue).collect::<Vec<_>>(), [None, None]);
    profile.destroy(&mut process).unwrap();
    life.end(&mut process).unwrap();
    process.shutdown().unwrap();
}

/// The software GPU would notice a dependency that is left out of either form, so equal memories mean something.
#[test]
fn a_list_without_its_dependencies_goes_wrong() {
    let mut wrong = [0, 0];
    for seed in 0..6 {
        for (form, wrong) in wrong.iter_mut().enumerate() {
            let kernel = soft(Release::V6_12, "RX 7900 XTX", Level::Strict, seed);
            let mut process = open(&kernel).unwrap();
            let mut bed = Bed::new(&mut process, Target::Gfx1100);
            let right = bed.list(seed);
            let mut broken = Recorder::new();
            for recorded in right.list() {
                broken.add(Recorded { dependency: Dependency::None, ..*recorded }).unwrap();
            }
            let mut memories = Vec::new();
            for list in [&right, &broken] {
                bed.fill();
                let (mut packets, mut words) = ([Packet::INVALID; DISPATCHES], [0; 4096]);
                list.encode_aql(&mut packets).unwrap();
                let used = list.encode_pm4(process.device(FIRST).node().isa(), &mut words).unwrap();
                let resident = Resident::new(&mut process, &words[..used]);
                let run = if form == 0 { &packets[..] } else { &[resident.packet] };
                bed.life.run(&mut process, run).unwrap();
                memories.push(bed.memory());
                process.free(resident.buffer).unwrap();
            }
            let findings = kernel.report(process.device(FIRST).gpu_id()).unwrap().findings;
            *wrong += usize::from(memories[0] != memories[1] || !findings.is_empty());
            bed.end(&mut process);
        }
    }
    assert!(wrong.iter().all(|&wrong| wrong > 3), "{wrong:?} of 6 lists went wrong");
}
