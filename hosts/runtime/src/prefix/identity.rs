//! Which model a file belongs to.

use super::checksum::Checksum;
use core::fmt::{self, Write};
use doorbell_core::gguf::{Gguf, Value};

/// Bytes from either end of a tensor that are looked at: other weights differ there.
const SAMPLE: usize = 16 << 10;

struct Sink(Checksum);

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// A number for all that the file says of the model, and a sample of every tensor.
pub(super) fn identity(gguf: &Gguf<'_>) -> u64 {
    let mut sink = Sink(Checksum::new(gguf.version().into()));
    for entry in gguf.metadata() {
        sink.0.update(entry.key);
        match entry.value {
            Value::Array(array) => {
                for value in array.iter() {
                    value_of(&mut sink, value);
                }
            }
            value => value_of(&mut sink, value),
        }
    }
    for tensor in gguf.tensors() {
        sink.0.update(tensor.name);
        // nothing that is written to a checksum is refused
        _ = write!(sink, "{:?} {}", tensor.dims, tensor.ty.name());
        let ends = [
            &tensor.data[..SAMPLE.min(tensor.data.len())],
            &tensor.data[tensor.data.len().saturating_sub(SAMPLE)..],
        ];
        ends.into_iter().for_each(|bytes| sink.0.update(bytes));
    }
    sink.0.value()
}

fn value_of(sink: &mut Sink, value: Value<'_>) {
    match value.as_bytes() {
        Some(bytes) => sink.0.update(bytes),
        None => _ = write!(sink, "{value:?}"),
    }
}
