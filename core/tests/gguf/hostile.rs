//! Bytes that lie: nothing panics, and what is accepted is consistent.

use crate::builder::{Builder, HEAP, array, string, strings};
use doorbell_core::gguf::{Gguf, Value};

/// A small file with one of everything.
fn tiny() -> Vec<u8> {
    Builder::new()
        .u32("general.alignment", 32)
        .entry("s", 8, string(b"text"))
        .entry("a", 9, strings([&b"x"[..], b"yz"]))
        .entry("n", 9, array(2, 2, &[1, 0, 2, 0]))
        .entry("f", 12, 1.5f64.to_le_bytes())
        .tensor("one", &[3, 2], 1, 12)
        .tensor("two", &[32, 1, 2], 8, 68)
        .build()
}

/// Walks everything that the file claims to hold.
fn walk(bytes: &[u8]) -> bool {
    let Ok(gguf) = Gguf::parse(bytes, HEAP) else { return false };
    for entry in gguf.metadata() {
        if let Value::Array(array) = entry.value {
            assert_eq!(array.iter().count(), array.len());
            assert!(array.strings().is_none_or(|strings| strings.count() == array.len()));
        }
        assert_eq!(gguf.metadata().iter().filter(|other| other.key == entry.key).count(), 1);
    }
    for tensor in gguf.tensors() {
        let elements = usize::try_from(tensor.elements()).unwrap();
        assert_eq!(tensor.ty.row_bytes(elements), Some(tensor.data.len()));
        assert_eq!(tensor.elements(), tensor.dims[0] * tensor.rows());
        assert!(tensor.data.is_empty() || bytes[tensor.at as usize..].starts_with(tensor.data));
    }
    gguf.split().is_ok()
}

#[test]
fn every_prefix_is_refused() {
    let bytes = tiny();
    assert!(walk(&bytes));
    for length in 0..bytes.len() {
        let error = Gguf::parse(&bytes[..length], HEAP).unwrap_err();
        assert!(error.at <= bytes.len() as u64 && !error.to_string().contains('\n'), "{length}: {error}");
    }
}

#[test]
fn every_flipped_bit_is_survived() {
    let mut bytes = tiny();
    let mut accepted = 0;
    for bit in 0..8 * bytes.len() {
        bytes[bit / 8] ^= 1 << (bit % 8);
        accepted += u32::from(walk(&bytes));
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(accepted > 0);
}

#[test]
fn every_byte_at_its_extremes_is_survived() {
    let original = tiny();
    for offset in 0..original.len() {
        for width in [1, 4, 8] {
            for value in [0x00, 0x7F, 0x80, 0xFF] {
                let mut bytes = original.clone();
                let end = bytes.len().min(offset + width);
                bytes[offset..end].fill(value);
                walk(&bytes);
            }
        }
    }
}

#[test]
fn arbitrary_bytes_are_survived() {
    arbtest::arbtest(|bytes| {
        walk(bytes.bytes(bytes.len())?);
        Ok(())
    })
    .budget_ms(200);
}

#[test]
fn arbitrary_bytes_after_a_header_are_survived() {
    arbtest::arbtest(|bytes| {
        let (tensors, entries) = (bytes.int_in_range(0..=3u64)?, bytes.int_in_range(0..=3u64)?);
        let header = Builder { tensor_count: Some(tensors), entry_count: Some(entries), ..Builder::new() };
        walk(&[&header.build(), bytes.bytes(bytes.len())?].concat());
        Ok(())
    })
    .budget_ms(200);
}

#[test]
fn random_mutations_are_survived() {
    let original = tiny();
    arbtest::arbtest(|bytes| {
        let mut file = original.clone();
        for _ in 0..bytes.int_in_range(1..=4)? {
            let offset = bytes.choose_index(file.len())?;
            match bytes.int_in_range(0..=3u8)? {
                0 => file[offset] = bytes.arbitrary()?,
                1 => drop(file.remove(offset)),
                2 => file.insert(offset, bytes.arbitrary()?),
                _ => file.truncate(offset),
            }
            if file.is_empty() {
                break;
            }
        }
        walk(&file);
        Ok(())
    })
    .budget_ms(500);
}
