//! Shared by tests of whole processes: machines, kernels compiled for each, a process with its clean-up.

use core::fmt::Display;
use doorbell_compiler::ir::{Builder, Elem, Function, Width};
use doorbell_compiler::object::{ArgumentValue, pack_arguments};
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Options as CompilerOptions, compile};
use doorbell_isa::Target;
use doorbell_kfd::code::Program;
use doorbell_kfd::memory::{Buffer, Bytes, Name, Uploader, Usage};
use doorbell_kfd::packet::{Acquire, Dependency, Dispatch, Packet, Recorded, Recorder};
use doorbell_kfd::process::{DeviceIndex, Process};
use doorbell_kfd::queue::{Queue, QueueOptions, WaitLimits};
use doorbell_kfd::sys::Kernel;
use doorbell_kfd::topology::Topology;
use doorbell_soft::kernel::{CHIPS, Machine, Release, SoftKernel, chip};
use doorbell_soft::processor::{Level, Options};
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) const FIRST: DeviceIndex = DeviceIndex(0);

/// Elements that the test kernel adds.
pub(crate) const ELEMENTS: u32 = 300;

/// Time as a number: every delay is a step of it.
#[derive(Default)]
pub(crate) struct Clock(u64);

impl embedded_hal::delay::DelayNs for Clock {
    fn delay_ns(&mut self, ns: u32) {
        self.0 += u64::from(ns);
    }
}

/// A wait that gives up soon.
pub(crate) const PATIENCE: WaitLimits = WaitLimits { spin_us: 10, hang_ms: 50 };

/// A kernel as a code object, and what packs its arguments.
pub(crate) struct Compiled {
    pub(crate) function: Function,
    pub(crate) object: Vec<u8>,
}

/// Compiles a function.
pub(crate) fn compiled(function: &Function, target: Target) -> Compiled {
    let kernel = compile(function, target, &CompilerOptions::default()).unwrap();
    Compiled { object: kernel.object(), function: kernel.function }
}

/// A sample of the compiler's by name.
pub(crate) fn sample(name: &str, target: Target) -> Compiled {
    let sample = SAMPLES.iter().find(|sample| sample.name == name).unwrap();
    compiled(&(sample.build)(target), target)
}

/// `vector_add` for every instruction set.
static ADD: LazyLock<BTreeMap<&str, Compiled>> = LazyLock::new(|| {
    let targets = CHIPS.iter().map(|chip| chip.target);
    targets.map(|target| (target.name(), sample("vector_add", target))).collect()
});

/// `vector_add` for a chip.
pub(crate) fn add_for(name: &str) -> &'static Compiled {
    &ADD[chip(name).unwrap().target.name()]
}

/// A kernel that never ends, as far as anybody waits.
pub(crate) fn endless(target: Target) -> Compiled {
    let mut k = Builder::new("endless", 32);
    let out = k.buffer("out");
    let zero = k.int(0);
    let range = [zero, k.int(u32::MAX), k.int(1)];
    let initial = k.load(k.global(out, zero), Width::Dwords(1), Elem::Int);
    let sum = k.for_range(range, &[initial], |k, at, carried| vec![k.xor(at, carried[0])]);
    k.store(k.global(out, zero), Width::Dwords(1), sum[0]);
    compiled(&k.finish(), target)
}

/// Every chip with every kernel that knows it.
pub(crate) fn machines() -> impl Iterator<Item = (Release, &'static str)> {
    let known = |release: Release, version: u32| release > Release::V6_1 || version < 110_500;
    Release::ALL.into_iter().flat_map(move |release| {
        let chips = CHIPS.iter().filter(move |chip| known(release, chip.version));
        chips.map(move |chip| (release, chip.name))
    })
}

pub(crate) fn soft(release: Release, name: &str, level: Level, seed: u64) -> SoftKernel {
    // The kernels are LLVM 19's, which does not know the rule of gfx12 for scalar registers.
    let options = Options { level, seed, patience: 100_000, scalar_reads: false, ..Options::default() };
    SoftKernel::new(Machine::new(release, 64 << 30, &[chip(name).unwrap()]), &options).unwrap()
}

pub(crate) fn open(kernel: &dyn Kernel) -> Result<Process<'_>, String> {
    let topology = Topology::scan(kernel).map_err(text)?;
    Process::open_all(kernel, &topology).map_err(text)
}

/// Any error as its message.
pub(crate) fn text(error: impl Display) -> String {
    error.to_string()
}

/// Resources of a process; all are given back at its end.
#[derive(Default)]
pub(crate) struct Life {
    uploader: Option<Uploader>,
    pub(crate) program: Option<Program>,
    pub(crate) queue: Option<Queue>,
    /// Code of a trap handler, to be installed before there is a queue.
    handler: Option<Vec<u8>>,
    buffers: Vec<Buffer>,
}

impl Life {
    /// A life whose device gets a trap handler.
    pub(crate) fn with_handler(code: Vec<u8>) -> Self {
        Self { handler: Some(code), ..Self::default() }
    }

    /// Memory of the device or of the system, by `usage`; its place in the list.
    pub(crate) fn buffer(
        &mut self,
        process: &mut Process<'_>,
        usage: Usage,
        name: &str,
    ) -> Result<usize, String> {
        let bytes = u64::from(ELEMENTS) * 4;
        self.buffers.push(process.allocate(FIRST, usage, bytes, Name::new(name)).map_err(text)?);
        Ok(self.buffers.len() - 1)
    }

    pub(crate) fn va(&self, index: usize) -> u64 {
        self.buffers[index].va()
    }

    pub(crate) fn word(&self, index: usize, at: usize) -> u32 {
        self.buffers[index].window().unwrap().load32(at * 4)
    }

    /// Loads a code object and makes a queue.
    pub(crate) fn load(
        &mut self,
        process: &mut Process<'_>,
        object: &[u8],
        options: QueueOptions,
    ) -> Result<(), String> {
        let uploader = self.uploader.insert(Uploader::new(process, FIRST).map_err(text)?);
        let program =
            Program::load(process, uploader, FIRST, object, machine(process), &mut Clock::default());
        self.program = Some(program.map_err(text)?);
        if let Some(code) = &self.handler {
            process.set_trap_handler(uploader, FIRST, code, &mut Clock::default()).map_err(text)?;
        }
        self.queue = Some(Queue::create(process, FIRST, options).map_err(text)?);
        Ok(())
    }

    /// One dispatch whose arguments are written to the kernarg buffer at `slot`.
    pub(crate) fn dispatch(
        &self,
        kernarg: usize,
        compiled: &Compiled,
        arguments: &[ArgumentValue],
        items: u32,
        slot: usize,
    ) -> Recorded {
        let bytes = pack_arguments(&compiled.function, arguments).unwrap();
        self.buffers[kernarg].window().unwrap().write(slot * 64, &bytes);
        let kernel = *self.program.as_ref().unwrap().kernel(&compiled.function.name).unwrap();
        let group = compiled.function.workgroup as u16;
        let dispatch = Dispatch {
            workgroup: [group, 1, 1],
            grid: [items.next_multiple_of(group.into()), 1, 1],
            group_bytes: kernel.group_bytes,
            kernel_object: kernel.descriptor,
            kernarg: self.buffers[kernarg].va() + slot as u64 * 64,
        };
        Recorded { kernel, dispatch, dependency: Dependency::Previous, acquire: Acquire::Agent }
    }

    /// Submits and waits; a fault is told in full.
    pub(crate) fn run(&mut self, process: &mut Process<'_>, packets: &[Packet]) -> Result<(), String> {
        let queue = self.queue.as_mut().unwrap();
        let submission = queue.submit(process, packets, 7).map_err(text)?;
        queue
            .wait(process, submission, PATIENCE, &mut Clock::default())
            .map_err(|error| queue.fault().map_or_else(|| error.to_string(), ToString::to_string))
    }

    /// A whole life up to its end: memory, upload, code, queue, dispatch, wait, result.
    pub(crate) fn live(&mut self, process: &mut Process<'_>, compiled: &Compiled) -> Result<(), String> {
        let a = self.buffer(process, Usage::Data, "a")?;
        let b = self.buffer(process, Usage::Staging, "b")?;
        let out = self.buffer(process, Usage::Staging, "out")?;
        let kernarg = self.buffer(process, Usage::Kernarg, "arguments")?;
        self.load(process, &compiled.object, QueueOptions::default())?;
        let numbers: Vec<u8> = (0..ELEMENTS).flat_map(|at| (at as f32).to_le_bytes()).collect();
        let uploader = self.uploader.as_mut().unwrap();
        for index in [a, b] {
            let (target, bytes) = (&self.buffers[index], numbers.len() as u64);
            let mut source = Bytes(&numbers);
            uploader.upload(process, target, 0, &mut source, bytes, &mut Clock::default()).map_err(text)?;
        }
        let [a, b, target] = [a, b, out].map(|index| ArgumentValue::Buffer(self.va(index)));
        let arguments = [a, b, target, ArgumentValue::Scalar(ELEMENTS)];
        let mut recorder = Recorder::new();
        recorder.add(self.dispatch(kernarg, compiled, &arguments, ELEMENTS, 0)).unwrap();
        let mut packets = [Packet::INVALID];
        recorder.encode_aql(&mut packets).unwrap();
        self.run(process, &packets)?;
        for at in 0..ELEMENTS {
            let found = f32::from_bits(self.word(out, at as usize));
            assert_eq!(found, at as f32 * 2.0, "element {at}");
        }
        Ok(())
    }

    /// Gives everything back.
    pub(crate) fn end(self, process: &mut Process<'_>) -> Result<(), String> {
        if let Some(queue) = self.queue {
            queue.destroy(process).map_err(text)?;
        }
        if let Some(program) = self.program {
            program.unload(process).map_err(text)?;
        }
        if let Some(uploader) = self.uploader {
            uploader.destroy(process).map_err(text)?;
        }
        for buffer in self.buffers {
            process.free(buffer).map_err(text)?;
        }
        Ok(())
    }
}

/// Opens, lives, gives everything back and proves that driver and kernel hold nothing; the life's own result.
pub(crate) fn whole(kernel: &SoftKernel, compiled: &Compiled) -> Result<(), String> {
    whole_of(kernel, compiled, Life::default())
}

/// The same for a life that has been given something.
pub(crate) fn whole_of(kernel: &SoftKernel, compiled: &Compiled, mut life: Life) -> Result<(), String> {
    let mut process = match open(kernel) {
        Ok(process) => process,
        Err(error) => {
            assert_eq!(kernel.held(), (0, 0, 0), "after {error}");
            return Err(error);
        }
    };
    let result = life.live(&mut process, compiled);
    life.end(&mut process).unwrap();
    process.shutdown().unwrap();
    assert_eq!(kernel.held(), (0, 0, 0), "after {result:?}");
    result
}

/// The processor number of the device's code objects.
fn machine(process: &Process<'_>) -> u8 {
    let version = process.device(FIRST).node().isa().0;
    Target::for_version(version).map_or(0, Target::elf_machine)
}
