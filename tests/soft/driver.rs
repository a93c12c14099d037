//! The driver, unchanged, on the software kernel: bring-up, uploads, dispatches, waits, faults, resets.

use doorbell_kfd::code::Program;
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::{Buffer, Name, Uploader, Usage};
use doorbell_kfd::packet::{
    Acquire, Dependency, Dispatch, Header, Packet, PacketKind, Recorded, Recorder, Scope, pm4_buffer,
};
use doorbell_kfd::process::{DeviceIndex, Process};
use doorbell_kfd::queue::{CopyEngine, Queue, QueueOptions, WaitError, WaitLimits};
use doorbell_kfd::topology::{Isa, Topology};
use doorbell_soft::kernel::{Machine, Release, SoftKernel, chip};
use doorbell_soft::processor::{Level, Options};

pub(crate) const FIRST: DeviceIndex = DeviceIndex(0);

/// Time as a number: every delay is a step of it.
#[derive(Default)]
pub(crate) struct Clock(u64);

impl embedded_hal::delay::DelayNs for Clock {
    fn delay_ns(&mut self, ns: u32) {
        self.0 += u64::from(ns);
    }
}

/// Chip, first kernel release that supports it, code object.
pub(crate) static MACHINES: [(&str, Release, &[u8]); 3] = [
    ("RX 7900 XTX", Release::V6_1, include_bytes!("../goldens/soft/gfx1100-driver.co")),
    ("8060S", Release::V6_12, include_bytes!("../goldens/soft/gfx1151-driver.co")),
    ("RX 9060 XT", Release::V6_12, include_bytes!("../goldens/soft/gfx1200-driver.co")),
];

pub(crate) fn kernel(release: Release, name: &str, level: Level, seed: u64) -> SoftKernel {
    // The kernels are from LLVM 19, which does not follow the gfx12 rule for scalar registers.
    let options = Options { level, seed, patience: 100_000, scalar_reads: false, ..Options::default() };
    SoftKernel::new(Machine::new(release, 64 << 30, &[chip(name).unwrap()]), &options).unwrap()
}

pub(crate) fn open(kernel: &SoftKernel) -> Process<'_> {
    Process::open_all(kernel, &Topology::scan(kernel).expect("topology")).expect("bring-up")
}

pub(crate) fn staging(process: &mut Process<'_>, bytes: u64, name: &str) -> Buffer {
    process.allocate(FIRST, Usage::Staging, bytes, Name::new(name)).expect("memory")
}

/// Kernels, arguments and a queue for a test.
pub(crate) struct Bench {
    pub(crate) program: Program,
    uploader: Uploader,
    pub(crate) arguments: Buffer,
    pub(crate) queue: Queue,
}

impl Bench {
    pub(crate) fn new(process: &mut Process<'_>, file: &[u8]) -> Self {
        let mut uploader = Uploader::new(process, FIRST).expect("uploader");
        let machine = machine(process);
        let program =
            Program::load(process, &mut uploader, FIRST, file, machine, &mut Clock::default()).expect("code");
        let arguments =
            process.allocate(FIRST, Usage::Kernarg, 4096, Name::new("arguments")).expect("memory");
        let queue = Queue::create(process, FIRST, QueueOptions::default()).expect("queue");
        Self { program, uploader, arguments, queue }
    }

    /// A dispatch of `items` work-items with these arguments, which lie in slot `slot`.
    pub(crate) fn recorded(
        &self,
        name: &str,
        items: u32,
        slot: u64,
        arguments: &[u64],
        dependency: Dependency,
    ) -> Recorded {
        let window = self.arguments.window().expect("mapped");
        for (index, value) in arguments.iter().enumerate() {
            window.store64(slot as usize * 256 + index * 8, *value);
        }
        let kernel = *self.program.kernel(name).expect("there");
        let dispatch = Dispatch {
            workgroup: [64, 1, 1],
            grid: [items, 1, 1],
            group_bytes: kernel.group_bytes,
            kernel_object: kernel.descriptor,
            kernarg: self.arguments.va() + slot * 256,
        };
        Recorded { kernel, dispatch, dependency, acquire: Acquire::Agent }
    }

    pub(crate) fn run(&mut self, process: &mut Process<'_>, packets: &[Packet]) -> Result<(), WaitError> {
        let submission = self.queue.submit(process, packets, 7).expect("submitted");
        self.queue.wait(process, submission, WaitLimits { spin_us: 10, hang_ms: 50 }, &mut Clock::default())
    }

    fn destroy(self, process: &mut Process<'_>) {
        self.queue.destroy(process).expect("destroy");
        self.program.unload(process).expect("free");
        self.uploader.destroy(process).expect("destroy");
        process.free(self.arguments).expect("free");
    }
}

pub(crate) fn header(barrier: bool) -> Header {
    Header { kind: PacketKind::Dispatch, barrier, acquire: Scope::System, release: Scope::System }
}

#[test]
fn the_driver_runs_compiled_kernels_on_every_machine() {
    for release in Release::ALL {
        for (name, since, file) in MACHINES.iter().filter(|machine| machine.1 <= release) {
            for (level, seed) in [(Level::Fast, 0), (Level::Strict, 1), (Level::Strict, 2)] {
                let kernel = kernel(release, name, level, seed);
                let mut process = open(&kernel);
                let mut bench = Bench::new(&mut process, file);
                let input = staging(&mut process, 4096, "input");
                let output = staging(&mut process, 4096, "output");
                for index in 0..1000 {
                    input.window().unwrap().store32(index * 4, index as u32 * 3);
                }
                let arguments = [input.va(), output.va(), 1000 | 5 << 32];
                let scale = bench.recorded("scale_add", 1024, 0, &arguments, Dependency::None);
                let twice = bench.recorded("double_up", 1024, 1, &[output.va(), 1000], Dependency::Previous);
                let packets = [scale, twice].map(|recorded| recorded.dispatch.encode(header(true)));
                bench.run(&mut process, &packets).expect("complete");
                for index in 0..1000_u32 {
                    let found = output.window().unwrap().load32(index as usize * 4);
                    assert_eq!(
                        found,
                        (index * 3 * 5 + index) * 2,
                        "{name} {release:?} {since:?} word {index}"
                    );
                }
                let gpu = process.device(FIRST).gpu_id();
                let report = kernel.report(gpu).unwrap();
                assert_eq!(report.findings, []);
                assert!(report.instructions > 0);
                bench.destroy(&mut process);
                process.free(input).expect("free");
                process.free(output).expect("free");
                process.shutdown().expect("nothing left");
                assert_eq!(kernel.held(), (0, 0, 0));
            }
        }
    }
}

#[test]
fn indirect_buffers_run_the_same_dispatches() {
    for (name, _, file) in MACHINES {
        let kernel = kernel(Release::V6_12, name, Level::Strict, 3);
        let mut process = open(&kernel);
        let mut bench = Bench::new(&mut process, file);
        let output = staging(&mut process, 4096, "output");
        let words = process.allocate(FIRST, Usage::Ring, 4096, Name::new("indirect")).expect("memory");
        for index in 0..100 {
            output.window().unwrap().store32(index * 4, index as u32 + 1);
        }
        let mut recorder = Recorder::new();
        for slot in 0..3 {
            let arguments = [output.va(), 100];
            recorder.add(bench.recorded("double_up", 100, slot, &arguments, Dependency::Previous)).unwrap();
        }
        let mut encoded = [0; 512];
        let isa: Isa = process.device(FIRST).node().isa();
        let used = recorder.encode_pm4(isa, &mut encoded).expect("room");
        for (index, word) in encoded[..used].iter().enumerate() {
            words.window().unwrap().store32(index * 4, *word);
        }
        let header = Header { kind: PacketKind::Vendor, ..header(true) };
        bench.run(&mut process, &[pm4_buffer(header, words.va(), used as u32)]).expect("complete");
        for index in 0..100_u32 {
            assert_eq!(output.window().unwrap().load32(index as usize * 4), (index + 1) * 8, "{name}");
        }
        bench.destroy(&mut process);
        process.free(output).expect("free");
        process.free(words).expect("free");
        process.shutdown().expect("nothing left");
    }
}

/// Dispatches of this many rounds of a full ring.
const ROUNDS: u64 = 1_000_000 / 1000;

#[test]
fn a_million_dispatches_go_through_a_ring_of_1024_packets() {
    let (name, _, file) = MACHINES[0];
    let kernel = kernel(Release::V6_12, name, Level::Fast, 4);
    let mut process = open(&kernel);
    let mut bench = Bench::new(&mut process, file);
    let counter = staging(&mut process, 4096, "counter");
    let count = bench.recorded("count", 1, 0, &[counter.va()], Dependency::None);
    // No barriers within a round: the packet processor may overlap and reorder.
    let packets = vec![count.dispatch.encode(header(false)); 1000];
    for _ in 0..ROUNDS {
        bench.run(&mut process, &packets).expect("complete");
    }
    assert_eq!(u64::from(counter.window().unwrap().load32(0)), ROUNDS * 1000);
    assert_eq!(bench.queue.indexes(), (ROUNDS * 1000, ROUNDS * 1000));
    bench.destroy(&mut process);
    process.free(counter).expect("free");
    process.shutdown().expect("nothing left");
}

#[test]
fn the_copy_engine_copies() {
    for (name, _, _) in MACHINES {
        let kernel = kernel(Release::V6_12, name, Level::Fast, 5);
        let mut process = open(&kernel);
        let mut engine = CopyEngine::create(&mut process, FIRST).expect("engine");
        let from = staging(&mut process, 1 << 20, "from");
        let to = staging(&mut process, 1 << 20, "to");
        let bytes: Vec<u8> = (0..1_000_001).map(|at: u32| (at * 7 % 251) as u8).collect();
        from.window().unwrap().write(3, &bytes);
        let ticket = engine.copy(&process, to.va() + 5, from.va() + 3, bytes.len() as u64);
        let ticket = ticket.expect("copy").expect("room");
        engine.wait(ticket, 100, &mut Clock::default()).expect("complete");
        let mut found = vec![0; bytes.len()];
        to.window().unwrap().read(5, &mut found);
        assert!(found == bytes);
        engine.destroy(&mut process).expect("destroy");
        process.free(from).expect("free");
        process.free(to).expect("free");
        process.shutdown().expect("nothing left");
    }
}

#[test]
fn a_store_outside_every_buffer_is_reported_as_a_memory_fault() {
    let (name, _, file) = MACHINES[0];
    let kernel = kernel(Release::V6_12, name, Level::Strict, 6);
    let mut process = open(&kernel);
    let mut bench = Bench::new(&mut process, file);
    let wild = bench.recorded("count", 1, 0, &[0x1234_5678_9000], Dependency::None);
    let result = bench.run(&mut process, &[wild.dispatch.encode(header(true))]);
    assert_eq!(result, Err(WaitError::Faulted));
    let Some(Fault::Memory(fault, _)) = bench.queue.fault() else { panic!("{:?}", bench.queue.fault()) };
    assert_eq!(fault.exception.va, 0x1234_5678_9000);
    let gpu = process.device(FIRST).gpu_id();
    assert_eq!(kernel.faults(gpu).len(), 1);
}

#[test]
fn errors_of_packets_land_in_the_inactive_signal() {
    let (name, _, file) = MACHINES[0];
    let good = |bench: &Bench| bench.recorded("count", 64, 0, &[0], Dependency::None).dispatch;
    type Change = fn(&mut Packet);
    let cases: [(u64, Change); 5] = [
        (0x2, |packet| packet.0[0] &= 0xffff),
        (0x4, |packet| packet.0[7] = 0x20000),
        (0x8, |packet| (packet.0[8], packet.0[9]) = (0, 0)),
        (0x20, |packet| packet.0[0] = packet.0[0] & !0xff | 9),
        (0x40, |packet| packet.0[1] = 1024 | 2 << 16),
    ];
    for (code, change) in cases {
        let kernel = kernel(Release::V6_12, name, Level::Fast, 7);
        let mut process = open(&kernel);
        let mut bench = Bench::new(&mut process, file);
        let mut packet = good(&bench).encode(header(true));
        change(&mut packet);
        assert_eq!(bench.run(&mut process, &[packet]), Err(WaitError::Faulted));
        let Some(Fault::Queue(errors, _)) = bench.queue.fault() else { panic!("{:?}", bench.queue.fault()) };
        assert_eq!(errors.packet, code);
    }
}

#[test]
fn a_reset_in_mid_flight_loses_the_device() {
    let (name, _, file) = MACHINES[0];
    let kernel = kernel(Release::V6_12, name, Level::Fast, 8);
    let mut process = open(&kernel);
    let mut bench = Bench::new(&mut process, file);
    let counter = staging(&mut process, 4096, "counter");
    let count = bench.recorded("count", 64, 0, &[counter.va()], Dependency::None);
    let packets = [count.dispatch.encode(header(true))];
    bench.run(&mut process, &packets).expect("complete");
    kernel.inject(|injection| injection.reset_after = Some(0));
    assert_eq!(bench.run(&mut process, &packets), Err(WaitError::Faulted));
    assert!(matches!(bench.queue.fault(), Some(Fault::Reset(..))), "{:?}", bench.queue.fault());
    assert!(process.device(FIRST).is_lost());
}

#[test]
fn evicted_queues_and_spurious_wake_ups_change_nothing() {
    let (name, _, file) = MACHINES[0];
    let kernel = kernel(Release::V6_12, name, Level::Strict, 9);
    kernel.inject(|injection| injection.interruptions = 3);
    let mut process = open(&kernel);
    let mut bench = Bench::new(&mut process, file);
    let counter = staging(&mut process, 4096, "counter");
    let count = bench.recorded("count", 64, 0, &[counter.va()], Dependency::None);
    kernel.inject(|injection| (injection.evicted, injection.spurious) = (true, 2));
    bench.run(&mut process, &[count.dispatch.encode(header(true))]).expect("complete");
    assert_eq!(counter.window().unwrap().load32(0), 64);
}

#[test]
fn machines_of_several_gpus_come_up_and_work_on_each() {
    for chips in
        [&["RX 7900 XTX", "RX 9070 XT"][..], &["RX 7900 XT", "780M"], &["W7900"], &["8050S"], &["RX 7600"]]
    {
        let chips: Vec<_> = chips.iter().map(|name| chip(name).unwrap()).collect();
        let machine = Machine::new(Release::V7_2, 64 << 30, &chips);
        let kernel = SoftKernel::new(machine, &Options { level: Level::Fast, ..Options::default() }).unwrap();
        let mut process = open(&kernel);
        assert_eq!(process.devices().len(), chips.len());
        for index in 0..chips.len() {
            let device = DeviceIndex(index as u8);
            let mut engine = CopyEngine::create(&mut process, device).expect("engine");
            let buffer = process.allocate(device, Usage::Staging, 8192, Name::new("both")).expect("memory");
            buffer.window().unwrap().store32(0, 77);
            let ticket =
                engine.copy(&process, buffer.va() + 4096, buffer.va(), 4).expect("copy").expect("room");
            engine.wait(ticket, 100, &mut Clock::default()).expect("complete");
            assert_eq!(buffer.window().unwrap().load32(4096), 77);
            engine.destroy(&mut process).expect("destroy");
            process.free(buffer).expect("free");
        }
        process.shutdown().expect("nothing left");
    }
    let none = SoftKernel::new(Machine::new(Release::V6_12, 64 << 30, &[]), &Options::default()).unwrap();
    assert_eq!(Topology::scan(&none).expect("topology").gpus().count(), 0);
}

/// The processor number of the device's code objects.
pub(crate) fn machine(process: &Process<'_>) -> u8 {
    let version = process.device(FIRST).node().isa().0;
    doorbell_isa::Target::for_version(version).map_or(0, doorbell_isa::Target::elf_machine)
}
