//! Unusual files that are valid.

use crate::builder::{Builder, HEAP, string, strings};
use doorbell_core::gguf::{Gguf, Kind, Value};
use doorbell_core::quant::Type;

#[test]
fn a_vocabulary_without_tensors_needs_no_padding() {
    let bytes = Builder::new().u32("a", 1).build();
    assert!(!bytes.len().is_multiple_of(32));
    assert!(Gguf::parse(&bytes, HEAP).unwrap().tensors().is_empty());
}

#[test]
fn alignment_may_be_any_power_of_two() {
    let mut builder = Builder::new().u32("general.alignment", 1);
    builder.alignment = 1;
    let bytes = builder.tensor("a", &[3], 24, 3).tensor("b", &[2], 24, 2).build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    assert_eq!(gguf.alignment(), 1);
    assert_eq!(gguf.tensor("b").unwrap().data, [3, 4]);

    let bytes = Builder::new().u32("general.alignment", 1 << 31).build();
    assert_eq!(Gguf::parse(&bytes, HEAP).unwrap().alignment(), 1 << 31);
}

#[test]
fn a_tensor_without_dimensions_has_one_element() {
    let bytes = Builder::new().tensor("scalar", &[], 0, 4).build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    let tensor = gguf.tensor("scalar").unwrap();
    assert_eq!((tensor.rank, tensor.dims, tensor.elements(), tensor.data.len()), (0, [1; 4], 1, 4));
}

/// peers.md row 34.
#[test]
fn a_tensor_may_be_empty() {
    const HUGE: u64 = 1 << 62;
    let shapes = [(&[1, 0][..], 0), (&[0, 1], 1), (&[HUGE, 0], 0), (&[0, HUGE], HUGE)];
    // Products that overflow before or without the zero.
    let huge = [(&[HUGE, HUGE, 0][..], 0), (&[0, HUGE, HUGE], u64::MAX)];
    for (dims, rows) in shapes.into_iter().chain(huge) {
        let bytes = Builder::new().declare("t", dims, 0, 0).build();
        let gguf = Gguf::parse(&bytes, HEAP).unwrap();
        let tensor = gguf.tensor("t").unwrap();
        assert_eq!((tensor.elements(), tensor.rows(), tensor.data.len()), (0, rows, 0));
    }
}

#[test]
fn the_last_tensor_may_lack_its_padding() {
    let builder = Builder::new().tensor("a", &[1], 0, 4).tensor("b", &[32, 2], 8, 68);
    let bytes = builder.build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    let tensor = gguf.tensor("b").unwrap();
    assert_eq!((tensor.ty, tensor.rows(), tensor.data.len()), (Type::Q8_0, 2, 68));
    assert_eq!(tensor.at, bytes.len() as u64 - 68);
    let longer = [&bytes[..], &[0; 100]].concat();
    assert_eq!(Gguf::parse(&longer, HEAP).unwrap().tensor("b").unwrap().data.len(), 68);
}

#[test]
fn every_type_of_ggml_is_read() {
    for ty in Type::all().filter(|ty| !ty.is_removed()) {
        let row = ty.block_len() as u64;
        let bytes = Builder::new().tensor("t", &[row, 3], ty.id(), 3 * ty.block_bytes()).build();
        let gguf = Gguf::parse(&bytes, HEAP).unwrap();
        assert_eq!(gguf.tensors()[0].ty, ty);
        assert_eq!(gguf.tensors()[0].data.len(), 3 * ty.block_bytes());
    }
}

#[test]
fn anything_but_zero_is_true() {
    let builder = Builder::new().entry("a", 7, [2]).entry("b", 7, [0]);
    let bytes = builder.entry("c", 9, crate::builder::array(7, 3, &[0, 1, 255])).build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    assert_eq!(gguf.require("a"), Ok(true));
    assert_eq!(gguf.require("b"), Ok(false));
    let values: Vec<_> = gguf.get("c").unwrap().as_array().unwrap().iter().collect();
    assert_eq!(values, [Value::Bool(false), Value::Bool(true), Value::Bool(true)]);
}

#[test]
fn text_need_not_be_utf8() {
    let bytes = Builder::new().entry([0xFF], 8, string(&[0xE6, 0xAD])).tensor([0xFE], &[1], 0, 4).build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    let entry = gguf.metadata()[0];
    assert_eq!((entry.key, entry.value.text()), (&[0xFF][..], None));
    assert_eq!(entry.value.as_bytes(), Some(&[0xE6, 0xAD][..]));
    assert_eq!(gguf.tensors()[0].name_str(), None);
}

#[test]
fn strings_are_read_in_order() {
    let bytes = Builder::new().entry("t", 9, strings([&b"one"[..], b"", b"three"])).build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    let array = gguf.get("t").unwrap().as_array().unwrap();
    assert_eq!((array.kind(), array.len(), array.is_empty()), (Kind::String, 3, false));
    assert!(array.strings().unwrap().eq([&b"one"[..], b"", b"three"]));
    assert_eq!(array.get(0), None);
}

#[test]
fn numbers_are_read_by_index() {
    let elements: Vec<_> = [7u32, 8, 9].iter().flat_map(|value| value.to_le_bytes()).collect();
    let bytes = Builder::new().entry("n", 9, crate::builder::array(4, 3, &elements)).build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    let array = gguf.get("n").unwrap().as_array().unwrap();
    assert_eq!((array.get(2), array.get(3), array.get(usize::MAX)), (Some(Value::U32(9)), None, None));
    assert!(array.strings().is_none());
    assert_eq!(array.into_iter().len(), 3);
}

#[test]
fn a_large_vocabulary_is_read_in_place() {
    let tokens: Vec<_> = (0..151_936).map(|id| format!("token {id}")).collect();
    let merges: Vec<_> = (0..151_387).map(|id| format!("left{id} right")).collect();
    let bytes = Builder::new()
        .entry("tokens", 9, strings(tokens.iter().map(String::as_bytes)))
        .entry("merges", 9, strings(merges.iter().map(String::as_bytes)))
        .build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    let array = gguf.get("tokens").unwrap().as_array().unwrap();
    assert!(array.strings().unwrap().eq(tokens.iter().map(String::as_bytes)));
    let merges = gguf.get("merges").unwrap().as_array().unwrap();
    assert_eq!((merges.len(), merges.strings().unwrap().last()), (151_387, Some(&b"left151386 right"[..])));
}

#[test]
fn ten_thousand_keys_and_tensors_are_found() {
    let mut builder = Builder::new();
    for index in 0..10_000u32 {
        builder = builder.u32(&format!("key.{:>200}", index ^ 0x1555), index);
        builder = builder.declare(format!("tensor.{:>50}", index ^ 0x1555), &[0], 0, 0);
    }
    let bytes = builder.build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    for index in 0..10_000u32 {
        assert_eq!(gguf.require(&format!("key.{:>200}", index ^ 0x1555)), Ok(index));
        let name = format!("tensor.{:>50}", index ^ 0x1555);
        assert_eq!(gguf.tensor(&name).unwrap().name, name.as_bytes());
    }
    assert!(gguf.tensor("tensor.").is_none() && gguf.get("zzz").is_none());
}
