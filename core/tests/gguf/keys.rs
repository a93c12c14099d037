//! Typed access: which types take which values.

use crate::builder::{Builder, HEAP, array, string};
use doorbell_core::gguf::{Array, Gguf, KeyError, Kind};

/// peers.md row 51.
#[test]
fn integers_come_in_any_width() {
    let bytes = Builder::new()
        .entry("u8", 0, [200])
        .entry("i8", 1, [100])
        .entry("u16", 2, 4096u16.to_le_bytes())
        .entry("i16", 3, 4096i16.to_le_bytes())
        .entry("u32", 4, 4096u32.to_le_bytes())
        .entry("i32", 5, 4096i32.to_le_bytes())
        .entry("u64", 10, 4096u64.to_le_bytes())
        .entry("i64", 11, 4096i64.to_le_bytes())
        .build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    for (key, value) in [("u8", 200), ("i8", 100)] {
        assert_eq!(gguf.require::<u64>(key), Ok(value));
    }
    for key in ["u16", "i16", "u32", "i32", "u64", "i64"] {
        assert_eq!(gguf.require::<u64>(key), Ok(4096), "{key}");
        assert_eq!(gguf.require::<i64>(key), Ok(4096), "{key}");
        assert_eq!(gguf.require::<u32>(key), Ok(4096), "{key}");
    }
}

#[test]
fn integers_out_of_range_are_refused() {
    let bytes = Builder::new()
        .entry("negative", 5, (-1i32).to_le_bytes())
        .entry("large", 10, u64::MAX.to_le_bytes())
        .build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    assert!(matches!(gguf.require::<u64>("negative"), Err(KeyError::Unfit { found: Kind::I32, .. })));
    assert_eq!(gguf.require::<i64>("negative"), Ok(-1));
    assert!(matches!(gguf.find::<i64>("large"), Err(KeyError::Unfit { found: Kind::U64, .. })));
    assert!(matches!(gguf.find::<u32>("large"), Err(KeyError::Unfit { .. })));
    assert_eq!(gguf.require::<u64>("large"), Ok(u64::MAX));
}

#[test]
fn other_types_are_taken_as_they_are() {
    let bytes = Builder::new()
        .entry("single", 6, 0.5f32.to_le_bytes())
        .entry("double", 12, 0.25f64.to_le_bytes())
        .entry("text", 8, string("ü".as_bytes()))
        .entry("bytes", 8, string(&[0xFF]))
        .entry("array", 9, array(0, 1, &[9]))
        .build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    assert_eq!((gguf.require("single"), gguf.require("double")), (Ok(0.5f32), Ok(0.25f32)));
    assert_eq!(gguf.require("text"), Ok("ü"));
    assert_eq!(gguf.require("bytes"), Ok(&[0xFFu8][..]));
    assert!(gguf.require::<&str>("bytes").is_err());
    assert_eq!(gguf.require::<Array<'_>>("array").unwrap().len(), 1);
    assert!(gguf.require::<f32>("array").is_err() && gguf.require::<bool>("single").is_err());
    assert!(gguf.require::<u64>("single").is_err() && gguf.require::<Array<'_>>("text").is_err());
}

#[test]
fn errors_name_the_key() {
    let bytes = Builder::new().entry("a.b", 8, string(b"x")).build();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    assert_eq!(gguf.find::<u32>("missing"), Ok(None));
    assert_eq!(gguf.require::<u32>("missing").unwrap_err().to_string(), "key \"missing\" is missing");
    assert_eq!(
        gguf.require::<u32>("a.b").unwrap_err().to_string(),
        "key \"a.b\" should be an integer in 0..2^32, but is string or out of range"
    );
}
