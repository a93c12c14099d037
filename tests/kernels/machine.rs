//! Launches on the software GPU: compiling, loading, running under strict sanitizers.

use core::cell::RefCell;
use doorbell_compiler::object::pack_arguments;
use doorbell_compiler::{Kernel, Options as Compile, compile};
use doorbell_isa::Target;
use doorbell_kernels::{KernelSpec, Launch};
use doorbell_soft::code::{Descriptor, Launch as Packet};
use doorbell_soft::memory::Space;
use doorbell_soft::processor::{Engine, Options, Profile};
use std::collections::HashMap;
use std::rc::Rc;

/// Distance from a descriptor to its code.
const CODE: usize = 256;

type Kernels = HashMap<(String, Target), (KernelSpec, Rc<Kernel>)>;

thread_local! {
    static KERNELS: RefCell<Kernels> = RefCell::default();
}

/// The kernel of a spec, compiled once per thread; equal names must be equal specs. Scratch is for none.
pub(crate) fn kernel(spec: &KernelSpec, target: Target) -> Rc<Kernel> {
    KERNELS.with_borrow_mut(|kernels| {
        let (known, kernel) = kernels.entry((spec.name(), target)).or_insert_with(|| {
            let function = spec.function(target).unwrap();
            let kernel = compile(&function, target, &Compile::default())
                .unwrap_or_else(|error| panic!("{} for {target}: {error}", spec.name()));
            assert_eq!(kernel.resources.scratch_bytes, 0, "{} for {target} takes scratch", spec.name());
            (spec.clone(), Rc::new(kernel))
        });
        assert_eq!(known, spec, "two specs have one name");
        kernel.clone()
    })
}

/// Memory of a chip.
pub(crate) struct Machine {
    pub(crate) target: Target,
    pub(crate) space: Space,
    options: Options,
    loaded: HashMap<String, u64>,
    /// Wave instructions so far.
    pub(crate) instructions: u64,
    /// Counts of launches so far, if they are wanted.
    pub(crate) profiles: Vec<Profile>,
}

impl Machine {
    pub(crate) fn new(target: Target, options: Options) -> Self {
        let options = Options { budget: 20_000_000_000, ..options };
        Self {
            target,
            space: Space::new(),
            options,
            loaded: HashMap::new(),
            instructions: 0,
            profiles: Vec::new(),
        }
    }

    /// A buffer with this content; its address.
    pub(crate) fn upload(&mut self, name: &str, bytes: &[u8]) -> u64 {
        let window = self.space.allocate(name, bytes.len().max(1)).unwrap();
        window.write(0, bytes);
        window.address()
    }

    pub(crate) fn upload_words(&mut self, name: &str, words: &[u32]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.upload(name, &bytes)
    }

    pub(crate) fn read(&mut self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.space.read(address, &mut bytes).unwrap();
        bytes
    }

    pub(crate) fn read_words(&mut self, address: u64, count: usize) -> Vec<u32> {
        let bytes = self.read(address, 4 * count);
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    /// Runs a launch; any finding is a failure.
    pub(crate) fn run(&mut self, launch: &Launch) {
        let kernel = kernel(&launch.spec, self.target);
        let name = launch.spec.name();
        let address = match self.loaded.get(&name) {
            Some(address) => *address,
            None => {
                let mut bytes = kernel.descriptor(CODE as i64).to_vec();
                bytes.resize(CODE, 0);
                bytes.extend(kernel.image());
                let address = self.upload("code", &bytes);
                self.loaded.insert(name.clone(), address);
                address
            }
        };
        let arguments = pack_arguments(&kernel.function, &launch.arguments)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let kernarg = self.upload("arguments", &arguments);
        let descriptor = Descriptor::parse(&kernel.descriptor(CODE as i64)).unwrap();
        let items = kernel.resources.workgroup;
        let [x, y, z] = launch.groups;
        let packet = Packet {
            name: name.clone(),
            grid: [x * items, y, z],
            group: [items, 1, 1],
            kernarg,
            ..Packet::default()
        };
        let dispatch = descriptor.dispatch(address, &packet, self.target).unwrap();
        let mut engine = Engine::new(self.target, self.options.clone());
        let report = engine
            .run(&[dispatch], &mut self.space)
            .unwrap_or_else(|fault| panic!("{name} on {}: {fault}\n{:?}", self.target, launch.arguments));
        self.instructions += report.instructions;
        self.profiles.extend(engine.take_profiles());
        let findings: Vec<String> = report.findings.iter().take(3).map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{name} on {}: {}", self.target, findings.join("\n"));
        self.space.remove(kernarg);
    }
}
