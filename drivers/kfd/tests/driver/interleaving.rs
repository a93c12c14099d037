//! The ring and wait protocols under every interleaving, by exhaustive search over explicit states.
//!
//! The real [`Producer`] runs; only its memory is a model. Its stores become visible one by one in any order that
//! their release semantics allow, and the packet processor fetches in halves, publishes its read index late or
//! not, and marks slots invalid or not.

use doorbell_kfd::packet::Packet;
use doorbell_kfd::queue::{
    CompletionCounter, Producer, RingMemory, SleepResult, Sleeper, WaitLimits, WaitOutcome, wait_until,
};
use doorbell_kfd::sys::Errno;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

const READ: usize = 0x80;
const WRITE: usize = 0x38;
const SLOTS: usize = 4;
const PACKETS: u64 = 9;

/// One thing the producer does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Op {
    /// Loads the read index and sees this.
    Load(u64),
    /// Stores dwords of the ring in no order against others.
    Plain { slot: usize, first: usize, dwords: Vec<u32> },
    /// Stores a header after everything before it.
    Head { slot: usize, dword: u32 },
    /// Stores the write index after everything before it.
    WriteIndex(u64),
    /// Rings the doorbell after everything before it.
    Doorbell(u64),
}

/// The producer's memory: loads are answered from a script, stores are noted.
struct Recording {
    script: Vec<u64>,
    ops: RefCell<Vec<Op>>,
    /// The position at which the script ended.
    cut: Cell<Option<usize>>,
}

impl RingMemory for Recording {
    fn load64(&self, offset: usize) -> u64 {
        assert_eq!(offset, READ, "the producer reads nothing else");
        let loads = self.ops.borrow().iter().filter(|op| matches!(op, Op::Load(_))).count();
        let Some(&value) = self.script.get(loads) else {
            let at = self.ops.borrow().len();
            self.cut.set(self.cut.get().or(Some(at)));
            return 0;
        };
        self.ops.borrow_mut().push(Op::Load(value));
        value
    }

    fn store32(&self, offset: usize, dword: u32) {
        assert_eq!(offset % 64, 0, "the first dword is what becomes valid last");
        self.ops.borrow_mut().push(Op::Head { slot: offset / 64, dword });
    }

    fn store64(&self, offset: usize, value: u64) {
        assert_eq!(offset, WRITE);
        self.ops.borrow_mut().push(Op::WriteIndex(value));
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let dwords = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
        let (slot, first) = (offset / 64, offset % 64 / 4);
        self.ops.borrow_mut().push(Op::Plain { slot, first, dwords: dwords.collect() });
    }
}

/// Packet `index`: its number in every dword, a valid header in the first.
fn packet(index: u64) -> Packet {
    Packet([((index as u32 + 1) << 16) | 2; 16])
}

/// Order of publication: the driver's, or a wrong one that the search has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Driver,
    WriteIndexFirst,
    HeaderPlain,
    IgnoresReadIndex,
}

/// Actions of the producer when its loads return `script`; the second value is true if it is finished.
fn trace(way: Way, script: &[u64]) -> (Vec<Op>, bool) {
    let memory = Recording { script: script.to_vec(), ops: RefCell::default(), cut: Cell::new(None) };
    let mut producer = Producer::new(SLOTS as u64, READ, WRITE);
    let mut next = 0;
    for batch in [2u64, 1, 4, 2] {
        let packets: Vec<Packet> = (next..next + batch).map(packet).collect();
        let value = loop {
            if let Some(value) = producer.publish(&memory, &memory, &packets) {
                break value;
            }
            if memory.cut.get().is_some() {
                let mut ops = memory.ops.into_inner();
                ops.truncate(memory.cut.get().expect("cut"));
                return (distort(way, ops), false);
            }
        };
        memory.ops.borrow_mut().push(Op::Doorbell(value));
        next += batch;
    }
    let mut ops = memory.ops.into_inner();
    let finished = memory.cut.get().is_none();
    ops.truncate(memory.cut.get().unwrap_or(ops.len()));
    (distort(way, ops), finished)
}

fn distort(way: Way, mut ops: Vec<Op>) -> Vec<Op> {
    match way {
        Way::Driver => {}
        Way::WriteIndexFirst => {
            for at in 1..ops.len() {
                if matches!((&ops[at - 1], &ops[at]), (Op::Head { .. }, Op::WriteIndex(_))) {
                    ops.swap(at - 1, at);
                }
            }
        }
        Way::HeaderPlain => {
            for op in &mut ops {
                if let Op::Head { slot, dword } = *op {
                    *op = Op::Plain { slot, first: 0, dwords: vec![dword] };
                }
                if let Op::WriteIndex(value) = *op {
                    // Not ordered after the plain stores either: the search lets it pass them.
                    *op = Op::Doorbell(value - 1);
                }
            }
        }
        Way::IgnoresReadIndex => {}
    }
    ops
}

/// Everything that may differ between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    script: Vec<u64>,
    issued: usize,
    /// The issued stores that are visible.
    visible: u64,
    ring: [[u32; 16]; SLOTS],
    write_index: u64,
    doorbell: u64,
    /// The processor: packets taken, what it has of the next one, what it has published.
    taken: u64,
    half: Option<[u32; 8]>,
    published: u64,
}

struct Search {
    way: Way,
    invalidates: bool,
    seen: HashSet<State>,
    states: usize,
}

impl Search {
    fn run(way: Way, invalidates: bool) -> Result<usize, String> {
        let start = State {
            script: Vec::new(),
            issued: 0,
            visible: 0,
            ring: [[1; 16]; SLOTS],
            write_index: 0,
            doorbell: 0,
            taken: 0,
            half: None,
            published: 0,
        };
        let mut search = Self { way, invalidates, seen: HashSet::new(), states: 0 };
        let mut stack = vec![start];
        while let Some(state) = stack.pop() {
            if search.seen.insert(state.clone()) {
                search.states += 1;
                let next = search.next(&state)?;
                if next.is_empty() && state.taken != PACKETS {
                    return Err(format!("stuck with {} of {PACKETS} packets taken", state.taken));
                }
                stack.extend(next);
            }
        }
        Ok(search.states)
    }

    fn next(&self, state: &State) -> Result<Vec<State>, String> {
        let mut all = Vec::new();
        let (ops, finished) = trace(self.way, &state.script);
        if let Some(op) = ops.get(state.issued) {
            let mut next = state.clone();
            next.issued += 1;
            if matches!(op, Op::Load(_)) {
                next.visible |= 1 << state.issued;
            }
            all.push(next);
        } else if !finished {
            let seen = if self.way == Way::IgnoresReadIndex { state.write_index } else { state.published };
            // A load that sees what the last one saw changes nothing: the producer spins.
            if state.script.last() != Some(&seen) {
                let mut next = state.clone();
                next.script.push(seen);
                all.push(next);
            }
        }
        for at in 0..state.issued {
            if state.visible & 1 << at == 0 && self.may_show(&ops, state, at) {
                let mut next = state.clone();
                show(&mut next, &ops[at], at);
                all.push(next);
            }
        }
        self.processor(state, &mut all)?;
        Ok(all)
    }

    /// Releasing stores wait for all before them; plain ones only for earlier stores to the same slot.
    fn may_show(&self, ops: &[Op], state: &State, at: usize) -> bool {
        let hidden = |earlier: &usize| state.visible & 1 << *earlier == 0;
        match &ops[at] {
            Op::Doorbell(_) if self.way == Way::HeaderPlain => true,
            Op::Plain { slot, .. } => !(0..at).filter(hidden).any(|earlier| match &ops[earlier] {
                Op::Plain { slot: other, .. } | Op::Head { slot: other, .. } => other == slot,
                _ => false,
            }),
            _ => !(0..at).any(|earlier| hidden(&earlier)),
        }
    }

    fn processor(&self, state: &State, all: &mut Vec<State>) -> Result<(), String> {
        let slot = state.taken as usize % SLOTS;
        // The scheduler may look at the write index at any time, doorbell or not.
        let limit = state.write_index.max(state.doorbell);
        match state.half {
            None if state.taken < limit => {
                let mut next = state.clone();
                next.half = state.ring[slot].first_chunk().copied();
                all.push(next);
            }
            Some(half) => {
                let expected = packet(state.taken).0;
                let got: Vec<u32> = half.iter().chain(&state.ring[slot][8..]).copied().collect();
                if got != expected {
                    return Err(format!("packet {} was fetched as {got:x?}", state.taken));
                }
                let mut next = state.clone();
                (next.half, next.taken) = (None, state.taken + 1);
                if self.invalidates {
                    next.ring[slot][0] = 1;
                }
                all.push(next);
            }
            None => {}
        }
        if state.published < state.taken && state.half.is_none() {
            let mut next = state.clone();
            next.published = state.taken;
            all.push(next);
        }
        Ok(())
    }
}

fn show(state: &mut State, op: &Op, at: usize) {
    state.visible |= 1 << at;
    match op {
        Op::Load(_) => {}
        Op::Plain { slot, first, dwords } => {
            state.ring[*slot][*first..*first + dwords.len()].copy_from_slice(dwords);
        }
        Op::Head { slot, dword } => state.ring[*slot][0] = *dword,
        Op::WriteIndex(value) => state.write_index = *value,
        Op::Doorbell(value) => state.doorbell = value + 1,
    }
}

#[test]
fn every_packet_is_fetched_whole_and_once_in_every_interleaving() {
    for invalidates in [false, true] {
        let states = Search::run(Way::Driver, invalidates).expect("the protocol holds");
        assert!(states > 1000, "{states} states are too few to mean anything");
        println!("{states} states, invalidating consumed slots: {invalidates}");
    }
}

#[test]
fn the_search_finds_each_wrong_protocol() {
    for way in [Way::WriteIndexFirst, Way::HeaderPlain, Way::IgnoresReadIndex] {
        let found = Search::run(way, false).expect_err("wrong");
        assert!(found.contains("was fetched as"), "{way:?}: {found}");
    }
}

/// A completion in three steps: the counter, the event page with its interrupt, and before both perhaps the event
/// of an earlier completion. They happen just before the waiter's operations with these numbers.
struct Gpu {
    schedule: [u32; 3],
    now: Cell<u32>,
    /// Steps done.
    done: Cell<usize>,
    count: Cell<u64>,
    age: Cell<u64>,
    keeps_age: bool,
    seen: Cell<u64>,
    timeouts: Cell<u32>,
}

impl Gpu {
    fn step(&self) {
        match self.done.get() {
            0 | 2 => {
                self.age.set(self.age.get() + 1);
            }
            _ => self.count.set(1),
        }
        self.done.set(self.done.get() + 1);
    }

    fn operation(&self) {
        self.now.set(self.now.get() + 1);
        while self.done.get() < 3 && self.schedule[self.done.get()] < self.now.get() {
            self.step();
        }
    }
}

impl CompletionCounter for Gpu {
    fn completed(&self) -> u64 {
        self.operation();
        self.count.get()
    }

    fn progress(&self) -> u64 {
        self.count.get()
    }

    fn has_error(&self) -> bool {
        self.operation();
        false
    }
}

struct Waiter<'g>(&'g Gpu);

impl Sleeper for Waiter<'_> {
    fn can_sleep(&self) -> bool {
        true
    }

    fn sleep(&mut self, timeout_ms: u32) -> Result<SleepResult, Errno> {
        let gpu = self.0;
        assert!(timeout_ms > 0);
        gpu.operation();
        if !gpu.keeps_age {
            gpu.seen.set(gpu.age.get());
        }
        loop {
            if gpu.age.get() != gpu.seen.get() {
                gpu.seen.set(gpu.age.get());
                return Ok(SleepResult::Woken);
            }
            if gpu.done.get() == 3 {
                gpu.timeouts.set(gpu.timeouts.get() + 1);
                return Ok(SleepResult::TimedOut);
            }
            gpu.step();
        }
    }
}

/// Completions at every step of the waiter; answers how many were slept through.
fn slept_through(keeps_age: bool) -> u32 {
    struct NoTime;
    impl embedded_hal::delay::DelayNs for NoTime {
        fn delay_ns(&mut self, _: u32) {}
    }
    let mut missed = 0;
    for first in 0..12 {
        for second in first..12 {
            for third in second..12 {
                let gpu = Gpu {
                    schedule: [first, second, third],
                    now: Cell::new(0),
                    done: Cell::new(0),
                    count: Cell::new(0),
                    age: Cell::new(1),
                    keeps_age,
                    seen: Cell::new(1),
                    timeouts: Cell::new(0),
                };
                let patience = WaitLimits { spin_us: 2, hang_ms: 5000 };
                let outcome = wait_until(&gpu, &mut Waiter(&gpu), 1, patience, &mut NoTime);
                assert_eq!(outcome, Ok(WaitOutcome::Complete), "{first} {second} {third}");
                missed += gpu.timeouts.get();
            }
        }
    }
    missed
}

#[test]
fn a_completion_is_never_slept_through() {
    assert_eq!(slept_through(true), 0);
    assert!(slept_through(false) > 0, "without ages the race must show, or the search finds nothing");
}
