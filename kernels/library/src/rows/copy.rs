//! A copy of memory on the device, 4-byte words.

use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::Target;

/// A copy of any number of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyWords;

const WORKGROUP: u32 = 256;
/// Words of a work item.
const WORDS: u32 = 8;
/// Words of a workgroup.
pub(crate) const GROUP_WORDS: u32 = WORKGROUP * WORDS;

impl Kernel for CopyWords {
    fn name(&self) -> String {
        "copy_words".to_string()
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (from, to) = (k.buffer("from"), k.buffer("to"));
        let count = k.scalar("count", Elem::Int);
        let (group, item) = (k.workgroup_id(Axis::X), k.workitem_id());
        let first = k.eval(group * GROUP_WORDS + item);
        let last = k.eval(count - 1);
        // Behind the end the last word is read, and nothing written.
        let words: Vec<(Value, Value)> = (0..WORDS)
            .map(|number| {
                let word = k.eval(first + number * WORKGROUP);
                (word, k.read_int(from, word.min(last) << 2))
            })
            .collect();
        for (word, value) in words {
            k.when(word.lt(count), |k| k.write(to, word << 2, value));
        }
        Ok(k.finish())
    }
}
