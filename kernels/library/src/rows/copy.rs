//! A copy of memory on the device, 4-byte words.

use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use crate::launch::{Cost, Launch};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::Target;
use doorbell_compiler::object::ArgumentValue;

/// A copy of any number of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyWords;

const WORKGROUP: u32 = 256;
/// Words of a work item.
const WORDS: u32 = 8;

impl Kernel for CopyWords {
    fn name(&self) -> String {
        "copy_words".to_string()
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (from, to) = (k.buffer("from"), k.buffer("to"));
        let count = k.scalar("count", Elem::Int);
        let (group, item) = (k.workgroup_id(Axis::X), k.workitem_id());
        let first = k.eval(group * (WORKGROUP * WORDS) + item);
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

/// The launch that copies words to memory that does not overlap.
pub fn copy_words(from: u64, to: u64, count: u32) -> Launch {
    let mut arguments: Vec<ArgumentValue> = [from, to].map(ArgumentValue::Buffer).to_vec();
    arguments.push(ArgumentValue::Scalar(count));
    let bytes = 4 * u64::from(count);
    Launch {
        spec: CopyWords.into(),
        groups: [count.div_ceil(WORKGROUP * WORDS).max(1), 1, 1],
        arguments,
        waits: true,
        cost: Cost { read: bytes, written: bytes, products: 0 },
    }
}
