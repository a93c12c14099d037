//! A number that identifies the model of a prefix file.

use super::checksum::Checksum;
use core::fmt::{self, Write};
use doorbell_core::gguf::{Gguf, Value};

/// Bytes at either end of a tensor that are hashed: different weights differ there.
const SAMPLE: usize = 16 << 10;

struct Sink(Checksum);

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// Hash of all metadata and of a sample of every tensor.
pub(super) fn identity(gguf: &Gguf<'_>) -> u64 {
    let mut sink = Sink(Checksum::new(gguf.version().into()));
    for entry in gguf.metadata() {
        sink.0.update(entry.key);
        match entry.value {
            Value::Array(array) => {
                for value in array.iter() {
                    add_value(&mut sink, value);
                }
            }
            value => add_value(&mut sink, value),
        }
    }
    for tensor in gguf.tensors() {
        sink.0.update(tensor.name);
        // writing to a checksum can't fail
        _ = write!(sink, "{:?} {}", tensor.dims, tensor.ty.name());
        let ends = [
            &tensor.data[..SAMPLE.min(tensor.data.len())],
            &tensor.data[tensor.data.len().saturating_sub(SAMPLE)..],
        ];
        ends.into_iter().for_each(|bytes| sink.0.update(bytes));
    }
    sink.0.value()
}

fn add_value(sink: &mut Sink, value: Value<'_>) {
    match value.as_bytes() {
        Some(bytes) => sink.0.update(bytes),
        None => _ = write!(sink, "{value:?}"),
    }
}
