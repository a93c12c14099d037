//! Small programs in instructions: assembling, running, reading results back.

use std::sync::Arc;

use doorbell_isa::{Inst, Target, encode};
use doorbell_kfd::sys::Window;
use doorbell_soft::memory::Space;
use doorbell_soft::processor::{Dispatch, Engine, Fault, Options, Report};

/// Dwords of instructions.
pub(crate) fn assemble(instructions: &[Inst], target: Target) -> Vec<u32> {
    instructions
        .iter()
        .flat_map(|inst| {
            let code = encode(inst, target).unwrap_or_else(|error| panic!("{}: {error}", inst.text(target)));
            code.words().to_vec()
        })
        .collect()
}

/// A space with code in it.
pub(crate) struct Machine {
    /// All memory.
    pub(crate) space: Space,
    /// Address of the code.
    pub(crate) entry: u64,
    _code: Arc<Window>,
}

impl Machine {
    /// Loads code.
    pub(crate) fn new(words: &[u32]) -> Self {
        let mut space = Space::new();
        let code = space.allocate("code", words.len() * 4 + 512).unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        code.write(0, &bytes);
        Self { entry: code.address(), space, _code: code }
    }

    /// A dispatch of one group with a buffer pointer in s[0:1].
    pub(crate) fn dispatch(&self, items: u32, argument: u64) -> Dispatch {
        Dispatch {
            name: "test".into(),
            entry: self.entry,
            grid: [items, 1, 1],
            group: [items, 1, 1],
            lds: 65536,
            scratch: 65536,
            vgprs: 256,
            user: vec![argument as u32, (argument >> 32) as u32],
            user_defined: 3,
            ids: [true, false, false],
            mode: 0x3f0,
        }
    }

    /// Runs one group.
    pub(crate) fn run(
        &mut self,
        target: Target,
        options: Options,
        dispatch: Dispatch,
    ) -> Result<Report, Fault> {
        Engine::new(target, options).run(&[dispatch], &mut self.space)
    }
}
