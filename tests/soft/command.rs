//! The command processor alone: every header combination, barrier packets, PM4 waits and writes, SDMA packets.

use std::sync::Arc;

use doorbell_isa::{Inst, Operand, Target, op, s_range, v};
use doorbell_kfd::sys::Window;
use doorbell_soft::code::DescriptorError;
use doorbell_soft::command::{CommandProcessor, Notice, Queue, QueueKind};
use doorbell_soft::memory::Space;
use doorbell_soft::processor::{FindingKind, Level, Options};

use crate::program::assemble;

/// One GPU with a queue and a kernel that adds 1 to the word its arguments point at, once per group.
struct Gpu {
    space: Space,
    cp: CommandProcessor,
    queue: Queue,
    ring: Arc<Window>,
    pointers: Arc<Window>,
    data: Arc<Window>,
    object: u64,
}

const SLOTS: usize = 16;
/// Offsets in the data: counter, arguments, signals of 64 bytes each, an inactive signal.
const COUNTER: usize = 0;
const ARGUMENTS: usize = 64;
const SIGNALS: usize = 1024;
const INACTIVE: usize = 960;

impl Gpu {
    fn new(kind: QueueKind, seed: u64) -> Self {
        let mut space = Space::new();
        let ring = space.allocate("ring", SLOTS * 64).unwrap();
        let pointers = space.allocate("pointers", 4096).unwrap();
        let data = space.allocate("data", 8192).unwrap();
        let code = space.allocate("code", 4096).unwrap();
        let imm = Operand::Immediate;
        let program = assemble(
            &[
                Inst::new(op::s_load_b64, [s_range(2, 2), s_range(0, 2), Operand::Off]),
                Inst::new(op::v_mov_b32, [v(1), Operand::Int(0)]),
                Inst::new(op::v_mov_b32, [v(2), Operand::Int(1)]),
                Inst::new(op::s_waitcnt, [imm(0)]),
                Inst::new(op::global_atomic_add_u32, [v(1), v(2), s_range(2, 2)]),
                Inst::new(op::s_endpgm, [imm(0)]),
            ],
            Target::Gfx1151,
        );
        code.write(0, &program.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
        // The descriptor lies behind the code: 32 registers, wave32, kernel argument pointer.
        let object = code.address() + 1024;
        code.store64(1024 + 16, (-1024_i64).cast_unsigned());
        code.store32(1024 + 48, 0x60af_0003);
        code.store32(1024 + 52, 2 << 1 | 1 << 7);
        code.store32(1024 + 56, 0x408);
        data.store64(ARGUMENTS, data.address() + COUNTER as u64);
        pointers.store64(0xc0, data.address() + INACTIVE as u64);
        let base = pointers.address();
        let queue = Queue::new(1, kind, ring.address(), (SLOTS * 64) as u64, [base + 0x80, base + 0x38]);
        let options = Options { level: Level::Strict, seed, patience: 10_000, ..Options::default() };
        let cp = CommandProcessor::new(Target::Gfx1151, options);
        Self { space, cp, queue, ring, pointers, data, object }
    }

    fn packet(&self, header: u16, signal: u64) -> [u32; 16] {
        let mut packet = [0; 16];
        packet[0] = u32::from(header) | 1 << 16;
        packet[1] = 1 | 1 << 16;
        packet[2] = 1;
        packet[3..6].fill(1);
        (packet[8], packet[9]) = (self.object as u32, (self.object >> 32) as u32);
        let arguments = self.data.address() + ARGUMENTS as u64;
        (packet[10], packet[11]) = (arguments as u32, (arguments >> 32) as u32);
        (packet[14], packet[15]) = (signal as u32, (signal >> 32) as u32);
        packet
    }

    fn signal(&self, index: usize) -> u64 {
        self.data.address() + (SIGNALS + index * 64) as u64
    }

    fn set_signal(&self, index: usize, value: u64) {
        self.data.store64(SIGNALS + index * 64 + 8, value);
    }

    fn value(&self, index: usize) -> u64 {
        self.data.load64(SIGNALS + index * 64 + 8)
    }

    fn count(&self) -> u32 {
        self.data.load32(COUNTER)
    }

    /// Publishes packets and rings.
    fn submit(&mut self, packets: &[[u32; 16]]) -> Vec<Notice> {
        let mut written = self.pointers.load64(0x38);
        for packet in packets {
            for (index, word) in packet.iter().enumerate() {
                self.ring.store32(written as usize % SLOTS * 64 + index * 4, *word);
            }
            written += 1;
        }
        self.pointers.store64(0x38, written);
        self.queue.rung = Some(written - 1);
        self.run()
    }

    fn run(&mut self) -> Vec<Notice> {
        self.cp.run(&mut self.queue, &mut self.space)
    }

    /// Words in a ring of words.
    fn words(&mut self, words: &[u32]) -> Vec<Notice> {
        let unit = if self.queue.kind == QueueKind::Sdma { 4 } else { 1 };
        let written = self.pointers.load64(0x38) / unit;
        for (index, word) in words.iter().enumerate() {
            self.ring.store32((written as usize + index) % (SLOTS * 16) * 4, *word);
        }
        let written = (written + words.len() as u64) * unit;
        self.pointers.store64(0x38, written);
        self.queue.rung = Some(written);
        self.run()
    }
}

#[test]
fn every_header_runs_its_dispatches_and_completes_them_once() {
    for barrier in [0, 1 << 8] {
        for acquire in 0..3 {
            for release in 0..3 {
                let mut gpu = Gpu::new(QueueKind::Aql, u64::from(barrier | acquire << 2 | release));
                let header = 2 | barrier | acquire << 9 | release << 11;
                for index in 0..7 {
                    gpu.set_signal(index, 1);
                }
                let packets: Vec<_> = (0..7).map(|index| gpu.packet(header, gpu.signal(index))).collect();
                gpu.submit(&packets);
                assert_eq!(gpu.count(), 7, "{header:#x}");
                assert!((0..7).all(|index| gpu.value(index) == 0));
                assert_eq!(gpu.pointers.load64(0x80), 7);
                assert!(!gpu.queue.is_stopped);
            }
        }
    }
}

/// A kernel in the code's window, with its descriptor behind it: one wave, kernel argument pointer.
fn kernel_object(code: &Window, at: usize, program: &[Inst]) -> u64 {
    let words = assemble(program, Target::Gfx1151);
    code.write(at, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
    let descriptor = at + 512;
    code.store64(descriptor + 16, (-512_i64).cast_unsigned());
    code.store32(descriptor + 48, 0x60af_0003);
    code.store32(descriptor + 52, 2 << 1 | 1 << 7);
    code.store32(descriptor + 56, 0x408);
    code.address() + descriptor as u64
}

/// Findings of three dispatches: one reads beside a word, one stores the word, one with the header reads it.
fn found(header: u16, seed: u64) -> Vec<FindingKind> {
    let mut gpu = Gpu::new(QueueKind::Aql, seed);
    let code = gpu.space.allocate("more code", 4096).unwrap();
    let imm = Operand::Immediate;
    let wait = Inst::new(op::s_waitcnt, [imm(0)]);
    let end = Inst::new(op::s_endpgm, [imm(0)]);
    let zero = Inst::new(op::v_mov_b32, [v(1), Operand::Int(0)]);
    let base = Inst::new(op::s_load_b64, [s_range(2, 2), s_range(0, 2), Operand::Off]);
    let read = |at: i32| {
        let load = Inst::new(op::global_load_b32, [v(2), v(1), s_range(2, 2)]).offset(at);
        [base, zero, wait, load, wait, end]
    };
    let store = Inst::new(op::global_store_b32, [v(1), v(1), s_range(2, 2)]);
    let objects = [
        kernel_object(&code, 0, &read(64)),
        kernel_object(&code, 1024, &[base, zero, wait, store, end]),
        kernel_object(&code, 2048, &read(0)),
    ];
    let ordered = 2 | 1 << 8 | 2 << 11;
    let packets: Vec<_> = [ordered | 2 << 9, ordered, header]
        .into_iter()
        .zip(objects)
        .zip([8, 1, 8])
        .map(|((header, object), groups)| {
            gpu.object = object;
            let mut packet = gpu.packet(header, 0);
            // Enough readers for every compute unit to have one.
            packet[3] = groups;
            packet
        })
        .collect();
    gpu.submit(&packets);
    assert_eq!(gpu.pointers.load64(0x80), 3);
    gpu.cp.report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn the_header_decides_what_a_dispatch_may_see_of_those_before() {
    let mut rows = 0;
    for barrier in [0, 1 << 8] {
        for acquire in 0..3 {
            for release in 0..3 {
                let header = 2 | barrier | acquire << 9 | release << 11;
                let kinds: Vec<FindingKind> = (0..16).flat_map(|seed| found(header, seed)).collect();
                let of = |kind: FindingKind| kinds.contains(&kind);
                match (barrier, acquire) {
                    // Nothing orders the read behind the store: it is a race, or where it comes last, an old line.
                    (0, _) => assert!(of(FindingKind::GlobalRace), "{header:#x}: {kinds:?}"),
                    // The line that the first dispatch has brought may still be there.
                    (_, 0) => assert!(
                        !kinds.is_empty() && kinds.iter().all(|kind| *kind == FindingKind::StaleRead),
                        "{header:#x}: {kinds:?}"
                    ),
                    _ => assert!(kinds.is_empty(), "{header:#x}: {kinds:?}"),
                }
                rows += 1;
            }
        }
    }
    println!("{rows} combinations of barrier, acquire and release");
    assert_eq!(rows, 18);
}

#[test]
fn packets_of_an_invalid_slot_wait_until_the_header_is_there() {
    let mut gpu = Gpu::new(QueueKind::Aql, 1);
    let mut packet = gpu.packet(0x102, 0);
    packet[0] = packet[0] & !0xff | 1;
    gpu.submit(&[packet]);
    assert_eq!((gpu.count(), gpu.pointers.load64(0x80)), (0, 0));
    gpu.ring.store32(0, packet[0] & !0xff | 2);
    gpu.run();
    assert_eq!((gpu.count(), gpu.pointers.load64(0x80)), (1, 1));
}

fn barrier(kind: u16, signals: &[u64], completion: u64) -> [u32; 16] {
    let mut packet = [0; 16];
    packet[0] = u32::from(kind | 1 << 8);
    for (index, signal) in signals.iter().chain([&0; 5]).take(5).enumerate() {
        (packet[2 + 2 * index], packet[3 + 2 * index]) = (*signal as u32, (*signal >> 32) as u32);
    }
    (packet[14], packet[15]) = (completion as u32, (completion >> 32) as u32);
    packet
}

#[test]
fn barrier_packets_wait_for_all_or_for_any() {
    // Kind, values of two signals, whether the packet passes.
    let cases =
        [(3, [0, 0], true), (3, [0, 1], false), (3, [1, 1], false), (5, [0, 1], true), (5, [1, 1], false)];
    for (kind, values, passes) in cases {
        let mut gpu = Gpu::new(QueueKind::Aql, 2);
        for (index, value) in values.into_iter().enumerate() {
            gpu.set_signal(index, value);
        }
        gpu.set_signal(2, 1);
        let wait = barrier(kind, &[gpu.signal(0), gpu.signal(1)], gpu.signal(2));
        let packets = [wait, gpu.packet(0x102, 0)];
        gpu.submit(&packets);
        let expected = (u32::from(passes), u64::from(!passes));
        assert_eq!((gpu.count(), gpu.value(2)), expected, "{kind} {values:?}");
        gpu.set_signal(0, 0);
        gpu.set_signal(1, 0);
        gpu.run();
        assert_eq!((gpu.count(), gpu.value(2)), (1, 0));
    }
}

#[test]
fn completion_writes_the_mailbox_and_interrupts() {
    let mut gpu = Gpu::new(QueueKind::Aql, 3);
    let mailbox = 4096;
    gpu.set_signal(0, 5);
    gpu.data.store64(SIGNALS + 16, gpu.data.address() + mailbox as u64);
    gpu.data.store32(SIGNALS + 24, 9);
    // Profiling writes start and end.
    gpu.pointers.store32(0xb4, 0xa);
    let packet = gpu.packet(0x102, gpu.signal(0));
    assert_eq!(gpu.submit(&[packet]), [Notice::Interrupt(9)]);
    assert_eq!((gpu.value(0), gpu.data.load64(mailbox)), (4, 9));
    assert!(gpu.data.load64(SIGNALS + 40) > gpu.data.load64(SIGNALS + 32));
}

#[test]
fn a_wild_kernel_object_is_a_page_fault() {
    let mut gpu = Gpu::new(QueueKind::Aql, 4);
    let mut packet = gpu.packet(0x102, 0);
    (packet[8], packet[9]) = (0x5678_9040, 0x1234);
    let expected = Notice::PageFault { page: 0x1234_5678_9000, write: false, present: false };
    assert_eq!(gpu.submit(&[packet]), [expected]);
    assert!(gpu.queue.is_stopped);
}

fn type3(opcode: u32, body: &[u32]) -> Vec<u32> {
    let mut words = vec![3 << 30 | (body.len() as u32 - 1) << 16 | opcode << 8];
    words.extend(body);
    words
}

#[test]
fn pm4_queues_write_wait_and_release() {
    let mut gpu = Gpu::new(QueueKind::Pm4, 5);
    let at = |gpu: &Gpu, offset: usize| {
        let address = gpu.data.address() + offset as u64;
        [address as u32, (address >> 32) as u32]
    };
    let [low, high] = at(&gpu, 4096);
    gpu.words(&type3(0x37, &[5 << 8, low, high, 11, 12]));
    assert_eq!((gpu.data.load32(4096), gpu.data.load32(4100)), (11, 12));
    // Waits for 4100 to be 13, then writes.
    let [wait_low, wait_high] = at(&gpu, 4100);
    let mut words = type3(0x3c, &[3 | 1 << 4, wait_low, wait_high, 13, 0xff, 10]);
    words.extend(type3(0x37, &[5 << 8, low, high, 14]));
    words.extend(type3(0x10, &[0, 0, 0]));
    gpu.words(&words);
    assert_eq!(gpu.data.load32(4096), 11);
    gpu.data.store32(4100, 13);
    gpu.run();
    assert_eq!(gpu.data.load32(4096), 14);
    let [low, high] = at(&gpu, 4104);
    let release = type3(0x49, &[0x514, 2 << 29 | 2 << 24, low, high, 7, 8, 21]);
    assert_eq!(gpu.words(&release), [Notice::Interrupt(21)]);
    assert_eq!(gpu.data.load64(4104), 8 << 32 | 7);
    gpu.words(&type3(0x7f, &[1, 2]));
    assert!(gpu.queue.is_stopped);
}

#[test]
fn sdma_queues_copy_fill_poll_and_trap() {
    let mut gpu = Gpu::new(QueueKind::Sdma, 6);
    let base = gpu.data.address();
    let split = |address: u64| [address as u32, (address >> 32) as u32];
    let [low, high] = split(base + 4096);
    gpu.words(&[2 << 30 | 11, low, high, 0xabcd_1234, 60]);
    assert!((0..16).all(|index| gpu.data.load32(4096 + index * 4) == 0xabcd_1234));
    assert_eq!(gpu.data.load32(4096 + 64), 0);
    let [to, to_high] = split(base + 5001);
    gpu.words(&[1, 9, 0, low, high, to, to_high]);
    let mut copied = [0; 11];
    gpu.data.read(5001, &mut copied);
    assert_eq!(copied, [0x34, 0x12, 0xcd, 0xab, 0x34, 0x12, 0xcd, 0xab, 0x34, 0x12, 0]);
    // The form with an eighth dword.
    gpu.words(&[1 | 1 << 19, 3, 0, low, high, to, to_high, 0]);
    let [poll, poll_high] = split(base + 6000);
    let mut words = vec![8 | 5 << 28 | 1 << 31, poll, poll_high, 3, 0xff, 4 | 0xfff << 16];
    words.extend([2, low, high, 1, 41, 42, 6, 17, 0, 5 | 3 << 16, poll, poll_high, 99]);
    assert_eq!(gpu.words(&words), []);
    assert_eq!(gpu.data.load32(4096), 0xabcd_1234);
    gpu.data.store32(6000, 4);
    assert_eq!(gpu.run(), [Notice::Interrupt(17)]);
    assert_eq!((gpu.data.load32(4096), gpu.data.load32(4100), gpu.data.load32(6000)), (41, 42, 99));
    gpu.words(&[0x77]);
    assert!(gpu.queue.is_stopped);
}

#[test]
fn random_words_never_crash_the_host() {
    let mut random = doorbell_soft::memory::Random::new(11);
    for kind in [QueueKind::Aql, QueueKind::Pm4, QueueKind::Sdma] {
        for round in 0..300 {
            let mut gpu = Gpu::new(kind, round);
            for index in 0..SLOTS * 16 {
                // Small first bytes are real packet types.
                let word = random.bits() as u32;
                let word = if random.once_in(2) { word & !0xff | word & 7 } else { word };
                gpu.ring.store32(index * 4, word);
            }
            gpu.pointers.store64(0x38, random.bits() % 200);
            gpu.queue.rung = Some(random.bits() % 200);
            gpu.run();
        }
    }
}

#[test]
fn kernels_for_waves_of_64_lanes_are_refused_by_name() {
    let wave64 = |address: u64| [(address, DescriptorError::Wave64)];
    let mut gpu = Gpu::new(QueueKind::Aql, 1);
    let code = gpu.object - 1024;
    let properties = gpu.space.load32(gpu.object + 56).unwrap();
    gpu.space.store32(gpu.object + 56, properties & !(1 << 10)).unwrap();
    let packet = gpu.packet(2 | 1 << 8, gpu.signal(0));
    gpu.set_signal(0, 1);
    gpu.submit(&[packet]);
    assert_eq!((gpu.value(0), gpu.count(), gpu.queue.is_stopped), (1, 0, true));
    assert_eq!(gpu.data.load64(INACTIVE + 8), 8);
    assert_eq!(gpu.cp.refusals, wave64(gpu.object));
    assert!(gpu.cp.refusals[0].1.to_string().contains("wave32"));

    // The same by PM4: code address, registers, sizes, a dispatch without the bit of wave32.
    let mut gpu = Gpu::new(QueueKind::Pm4, 1);
    let address = [0xc002_7600, 0x20c, (code >> 8) as u32, (code >> 40) as u32];
    let sizes = [0xc003_7600, 0x207, 1, 1, 1];
    let dispatch = [0xc003_1500, 1, 1, 1, 1];
    let words = [&address[..], &sizes, &dispatch];
    gpu.words(&words.concat());
    assert_eq!((gpu.count(), gpu.queue.is_stopped), (0, true));
    assert_eq!(gpu.cp.refusals, wave64(code & !0xff));
}
