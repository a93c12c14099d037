//! Files by gguf-py's writer, read as gguf-py's reader reads them (`tests/goldens/gguf/make.py`).

use crate::builder::HEAP;
use core::fmt::Write;
use doorbell_core::gguf::{Gguf, Kind, Tensor, Value};
use std::path::PathBuf;

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens/gguf");
    std::fs::read(folder.join(name)).unwrap()
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::F32(value) => format!("{:08x}", value.to_bits()),
        Value::F64(value) => format!("{:016x}", value.to_bits()),
        Value::Bool(value) => u8::from(value).to_string(),
        Value::String([]) => "-".into(),
        Value::String(bytes) => bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        }),
        Value::Array(array) => {
            let values: Vec<_> = array.iter().map(text).collect();
            format!("of {} {}: {}", array.len(), array.kind(), values.join(" "))
        }
        Value::U64(value) => value.to_string(),
        other => other.as_i64().unwrap().to_string(),
    }
}

fn fnv(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn line(tensor: &Tensor<'_>) -> String {
    let dims: Vec<_> = tensor.dims[..tensor.rank.into()].iter().map(u64::to_string).collect();
    let name = tensor.name_str().unwrap();
    format!("{name} {} {} {:016x}\n", dims.join("x"), tensor.ty, fnv(tensor.data))
}

fn dump(gguf: &Gguf<'_>) -> String {
    let mut dump = format!("alignment {}\n", gguf.alignment());
    for entry in gguf.metadata() {
        let key = core::str::from_utf8(entry.key).unwrap();
        writeln!(dump, "{key} {} {}", entry.value.kind(), text(entry.value)).unwrap();
        assert_eq!(gguf.get(key), Some(entry.value));
    }
    for tensor in gguf.tensors() {
        dump += &line(tensor);
        assert_eq!(gguf.tensor(tensor.name_str().unwrap()), Some(tensor));
    }
    dump
}

#[test]
fn every_kind_of_value_and_tensor() {
    let bytes = golden("kinds.gguf");
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    assert_eq!(gguf.version(), 3);
    assert_eq!(dump(&gguf), String::from_utf8(golden("kinds.txt")).unwrap());
    assert!(gguf.metadata().iter().any(|entry| entry.value.kind() == Kind::F64));
}

#[test]
fn version_2_has_the_same_layout() {
    let bytes = golden("v2.gguf");
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    assert_eq!(gguf.version(), 2);
    assert_eq!(dump(&gguf), String::from_utf8(golden("kinds.txt")).unwrap());
}

#[test]
fn a_split_set_is_one_model() {
    let parts = [1, 2, 3].map(|part| golden(&format!("set-0000{part}-of-00003.gguf")));
    let gguf = Gguf::parse_split(&parts.each_ref().map(Vec::as_slice), HEAP).unwrap();
    assert_eq!(dump(&gguf), String::from_utf8(golden("set.txt")).unwrap());
    let parts: Vec<_> = gguf.tensors().iter().map(|tensor| tensor.part).collect();
    assert_eq!(parts, [1, 1, 2, 2]);
}
