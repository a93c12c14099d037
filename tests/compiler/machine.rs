//! Runs one kernel: buffers in, buffers and findings out.

use doorbell_compiler::object::{ArgumentValue, pack_arguments};
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Kernel, Options, compile};
use doorbell_isa::Target;
use doorbell_soft::code::{CodeObject, Descriptor, Launch};
use doorbell_soft::memory::Space;
use doorbell_soft::processor::{Engine, Level, Options as Choices};

/// The chips that every kernel runs on.
pub(crate) const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];

/// A kernel argument.
pub(crate) enum Arg {
    /// A buffer with content.
    Buffer(Vec<u8>),
    /// A buffer of so many bytes that nothing wrote yet.
    Fresh(usize),
    /// The address of an earlier buffer, by its number, less a distance.
    Before(usize, u64),
    /// A 32-bit value.
    Scalar(u32),
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The buffers in the order of the arguments.
    pub(crate) buffers: Vec<Vec<u8>>,
    /// Findings of the sanitizers.
    pub(crate) findings: Vec<String>,
}

impl Outcome {
    /// A buffer as words.
    pub(crate) fn words(&self, buffer: usize) -> Vec<u32> {
        words(&self.buffers[buffer])
    }

    /// A buffer as floats.
    pub(crate) fn floats(&self, buffer: usize) -> Vec<f32> {
        self.words(buffer).into_iter().map(f32::from_bits).collect()
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// Bytes of floats.
pub(crate) fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

/// A sample kernel for a chip.
pub(crate) fn sample(name: &str, target: Target) -> Kernel {
    let sample = SAMPLES.iter().find(|sample| sample.name == name).expect("a sample");
    compile(&(sample.build)(target), target, &Options::default()).expect("compiles")
}

/// Runs a kernel with `groups` workgroups.
pub(crate) fn run(kernel: &Kernel, groups: [u32; 2], args: &[Arg], seed: u64) -> Result<Outcome, String> {
    let object = CodeObject::parse(&kernel.object()).map_err(|error| error.to_string())?;
    let mut space = Space::new();
    let code = space.allocate("code", object.image.len()).expect("memory");
    code.write(0, &object.relocated(code.address()));
    let mut values = Vec::new();
    let (mut windows, mut addresses) = (Vec::new(), Vec::<u64>::new());
    for (index, arg) in args.iter().enumerate() {
        let name = &kernel.function.arguments[index].name;
        let window = match arg {
            Arg::Scalar(value) => {
                values.push(ArgumentValue::Scalar(*value));
                continue;
            }
            Arg::Before(buffer, distance) => {
                values.push(ArgumentValue::Buffer(addresses[*buffer].wrapping_sub(*distance)));
                continue;
            }
            Arg::Buffer(content) => {
                let window = space.allocate(name, content.len()).expect("memory");
                window.write(0, content);
                (window, content.len())
            }
            Arg::Fresh(len) => (space.allocate_undefined(name, *len).expect("memory"), *len),
        };
        values.push(ArgumentValue::Buffer(window.0.address()));
        addresses.push(window.0.address());
        windows.push(window);
    }
    let packed = pack_arguments(&kernel.function, &values).expect("as the kernel has them");
    let arguments = space.allocate("arguments", packed.len().max(4)).expect("memory");
    arguments.write(0, &packed);
    let entry = object.kernel(&kernel.function.name).expect("named");
    let descriptor = Descriptor::parse(&object.image[entry.descriptor as usize..]).expect("a descriptor");
    let size = kernel.function.workgroup;
    let launch = Launch {
        name: kernel.function.name.clone(),
        grid: [groups[0] * size, groups[1], 1],
        group: [size, 1, 1],
        kernarg: arguments.address(),
        ..Launch::default()
    };
    let dispatch = descriptor
        .dispatch(code.address() + entry.descriptor, &launch, kernel.target)
        .map_err(|error| error.to_string())?;
    let choices = Choices { level: Level::Strict, seed, budget: 20_000_000, ..Choices::default() };
    let report = Engine::new(kernel.target, choices)
        .run(&[dispatch], &mut space)
        .map_err(|fault| fault.to_string())?;
    let buffers = windows
        .into_iter()
        .map(|(window, len)| {
            let words = (0..len / 4).flat_map(|at| window.load32(4 * at).to_le_bytes());
            words.collect()
        })
        .collect();
    Ok(Outcome { buffers, findings: report.findings.iter().map(ToString::to_string).collect() })
}

/// Runs a kernel twice in different orders; nothing may be found.
pub(crate) fn clean(kernel: &Kernel, groups: [u32; 2], args: &[Arg]) -> Outcome {
    let label = format!("{} {}", kernel.function.name, kernel.target);
    let mut outcomes = [1, 2].map(|seed| {
        let outcome =
            run(kernel, groups, args, seed).unwrap_or_else(|error| panic!("{label} seed {seed}: {error}"));
        assert!(outcome.findings.is_empty(), "{label} seed {seed}: {}", outcome.findings.join("\n"));
        outcome
    });
    let [first, _] = &mut outcomes;
    Outcome { buffers: core::mem::take(&mut first.buffers), findings: Vec::new() }
}

/// A repeatable sequence of numbers.
pub(crate) struct Random(pub(crate) u32);

impl Random {
    /// The next 16 bits.
    pub(crate) fn next(&mut self) -> u16 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) as u16
    }

    /// Small whole numbers, whose sums are exact in f32.
    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| f32::from(self.next() % 33) - 16.0).collect()
    }

    /// Bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
