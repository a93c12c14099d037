//! Every refusal: what was wrong, in which key or tensor, at which byte.

use crate::builder::{Builder, array, string};
use doorbell_core::gguf::{Fault, Kind, Subject};
use doorbell_core::quant::Type;

/// Bytes of the fixed header.
const HEADER: u64 = 24;

#[track_caller]
fn key(builder: &Builder, name: &str, fault: Fault) {
    let error = builder.refusal();
    assert_eq!(error.fault, fault);
    let Subject::Key(label) = &error.subject else { panic!("{error}") };
    assert_eq!(label.to_string(), name);
}

#[track_caller]
fn tensor(builder: &Builder, name: &str, fault: Fault) {
    let error = builder.refusal();
    assert_eq!(error.fault, fault);
    let Subject::Tensor(label) = &error.subject else { panic!("{error}") };
    assert_eq!(label.to_string(), name);
}

#[track_caller]
fn elsewhere(builder: &Builder, subject: Subject, at: u64, fault: Fault) {
    let error = builder.refusal();
    assert_eq!((error.fault, error.subject, error.at), (fault, subject, at));
}

#[test]
fn magic() {
    let builder = Builder { magic: *b"\x7FELF", ..Builder::new() };
    elsewhere(&builder, Subject::Header, 0, Fault::Magic { found: *b"\x7FELF" });
    assert_eq!(
        builder.refusal().to_string(),
        "header at byte 0: not a GGUF file: it starts with \"\\x7fELF\""
    );
}

#[test]
fn versions() {
    for found in [0, 1, 4, 0x0101] {
        let builder = Builder { version: found, ..Builder::new() };
        elsewhere(&builder, Subject::Header, 4, Fault::Version { found });
    }
}

/// peers.md row 50.
#[test]
fn the_other_byte_order() {
    let builder = Builder { version: 3u32.swap_bytes(), ..Builder::new() };
    elsewhere(&builder, Subject::Header, 4, Fault::BigEndian);
}

/// peers.md rows 33 and 44.
#[test]
fn counts_beyond_limit_or_file() {
    let builder = Builder::new();
    for found in [u64::MAX, i64::MAX as u64, 1 << 63, (1 << 18) + 1] {
        let builder = Builder { tensor_count: Some(found), ..builder.clone() };
        elsewhere(&builder, Subject::Header, 4, Fault::Count { found, limit: 1 << 18 });
    }
    for found in [u64::MAX, 500_000_000] {
        let builder = Builder { entry_count: Some(found), ..builder.clone() };
        elsewhere(&builder, Subject::Header, 4, Fault::Count { found, limit: 1 << 16 });
    }
    let builder = Builder { entry_count: Some(1000), ..builder };
    elsewhere(&builder, Subject::Header, 4, Fault::Truncated { needed: 14_000, present: 0 });
}

/// peers.md row 36.
#[test]
fn empty_key() {
    elsewhere(&Builder::new().u32("", 1), Subject::Entry(0), HEADER, Fault::EmptyKey);
}

#[test]
fn duplicate_key() {
    let builder = Builder::new().u32("a", 1).u32("b", 2).u32("a", 1).u32("b", 1);
    key(&builder, "a", Fault::DuplicateKey);
    assert_eq!(builder.refusal().at, HEADER + 2 * (8 + 1 + 4 + 4));
}

#[test]
fn value_types() {
    key(&Builder::new().entry("a", 13, [0; 8]), "a", Fault::ValueType { found: 13 });
    key(&Builder::new().entry("a", 9, array(13, 0, &[])), "a", Fault::ValueType { found: 13 });
    key(&Builder::new().entry("a", u32::MAX, [0; 8]), "a", Fault::ValueType { found: u32::MAX });
}

#[test]
fn nested_arrays() {
    let inner = array(0, 1, &[7]);
    key(&Builder::new().entry("a", 9, array(9, 1, &inner)), "a", Fault::NestedArray);
}

/// peers.md row 43.
#[test]
fn lengths_beyond_limit_or_file() {
    let limit = 1 << 30;
    let long = |length: u64| Builder::new().entry("a", 8, length.to_le_bytes());
    for found in [1 << 32, u64::MAX, limit + 1] {
        key(&long(found), "a", Fault::TooLong { found, limit });
        key(&Builder::new().entry("a", 9, array(0, found, &[])), "a", Fault::TooLong { found, limit });
    }
    key(&long(limit), "a", Fault::Truncated { needed: limit, present: 0 });
    let builder = Builder::new().entry("a", 9, array(10, limit, &[0; 16]));
    key(&builder, "a", Fault::Truncated { needed: 8 * limit, present: 16 });
    let builder = Builder::new().entry("a", 9, array(8, 3, &[0; 16]));
    key(&builder, "a", Fault::Truncated { needed: 24, present: 16 });
    let builder =
        Builder::new().entry("a", 9, array(8, 2, &[string(b"xy"), string(b"z")[..8].into()].concat()));
    key(&builder, "a", Fault::Truncated { needed: 1, present: 0 });
}

/// peers.md row 35.
#[test]
fn alignment() {
    const KEY: &str = "general.alignment";
    for found in [0, 3, 33, u32::MAX] {
        key(&Builder::new().u32(KEY, found), KEY, Fault::Alignment { found });
    }
    for (id, found, value) in [
        (0, Kind::U8, vec![32]),
        (5, Kind::I32, vec![32, 0, 0, 0]),
        (10, Kind::U64, vec![32, 0, 0, 0, 0, 0, 0, 0]),
        (8, Kind::String, string(b"32")),
    ] {
        key(&Builder::new().entry(KEY, id, value), KEY, Fault::AlignmentType { found });
    }
    let huge = Builder::new().u32(KEY, 1 << 31).tensor("t", &[1], 0, 4);
    tensor(&huge, "t", Fault::DataPastEnd { needed: 4, present: 0 });
}

#[test]
fn tensor_names() {
    let name = "n".repeat(64);
    let builder = Builder::new().tensor(&name, &[1], 0, 4);
    elsewhere(&builder, Subject::Declaration(0), HEADER, Fault::NameLength { found: 64 });
    let builder = Builder::new().tensor("a", &[1], 0, 4).tensor("b", &[1], 0, 4).tensor("a", &[1], 0, 4);
    tensor(&builder, "a", Fault::DuplicateTensor);
}

/// peers.md rows 45 and 46.
#[test]
fn ranks() {
    tensor(&Builder::new().tensor("t", &[1; 5], 0, 4), "t", Fault::Rank { found: 5 });
    let mut bytes = Builder::new().tensor("t", &[], 0, 4).build();
    bytes[33..37].copy_from_slice(&1_000_000u32.to_le_bytes());
    let error = doorbell_core::gguf::Gguf::parse(&bytes, crate::builder::HEAP).unwrap_err();
    assert_eq!(error.fault, Fault::Rank { found: 1_000_000 });
}

/// peers.md rows 31, 42 and 45.
#[test]
fn shapes() {
    let shape = |dims: &[u64], kind| Builder::new().declare("t", dims, kind, 0);
    let found = -1;
    tensor(&shape(&[1, u64::MAX], 0), "t", Fault::Dimension { axis: 1, found });
    tensor(&shape(&[u64::MAX, 2, 1, 1], 0), "t", Fault::Dimension { axis: 0, found });
    tensor(&shape(&[1 << 40, (1 << 42) + 1], 0), "t", Fault::SizeOverflow);
    tensor(&shape(&[1 << 62], 0), "t", Fault::SizeOverflow);
    tensor(&shape(&[1 << 32, 1 << 31], 24), "t", Fault::SizeOverflow);
    tensor(&shape(&[(1 << 63) - 1], 24), "t", Fault::SizeOverflow);
    tensor(&shape(&[31, 2], 8), "t", Fault::RowLength { ty: Type::Q8_0, found: 31 });
    tensor(&shape(&[], 12), "t", Fault::RowLength { ty: Type::Q4_K, found: 1 });
}

/// peers.md row 49.
#[test]
fn tensor_types() {
    let of = |kind| Builder::new().tensor("t", &[256], kind, 0);
    for found in [43, 101, u32::MAX] {
        tensor(&of(found), "t", Fault::TensorType { found });
    }
    for ty in Type::all().filter(|ty| ty.is_removed()) {
        tensor(&of(ty.id()), "t", Fault::RemovedType { ty });
    }
    assert!(of(43).refusal().to_string().contains("type 43: a newer or private format"));
    assert!(of(36).refusal().to_string().contains("I2_S"));
}

#[test]
fn offsets() {
    let pair = |offset| Builder::new().tensor("a", &[5], 0, 20).declare("b", &[1], 0, offset);
    for found in [0, 16, 20, 31, 33, 64, u64::MAX] {
        tensor(&pair(found), "b", Fault::Offset { expected: 32, found });
    }
    let first = Builder::new().declare("a", &[1], 0, 32);
    tensor(&first, "a", Fault::Offset { expected: 0, found: 32 });
}

/// peers.md row 32.
#[test]
fn sizes_whose_sum_overflows() {
    let half = 1u64 << 62;
    let builder = Builder::new().declare("a", &[half], 24, 0).declare("b", &[half], 24, half);
    tensor(&builder, "b", Fault::SizeOverflow);
}

/// peers.md row 47.
#[test]
fn data_beyond_the_end() {
    let builder = Builder::new().tensor("a", &[8], 0, 32).tensor("b", &[8], 0, 31);
    tensor(&builder, "b", Fault::DataPastEnd { needed: 32, present: 31 });
    assert_eq!(builder.refusal().at, builder.build().len() as u64 - 31);
    let builder = Builder::new().declare("a", &[1 << 40], 0, 0);
    tensor(&builder, "a", Fault::DataPastEnd { needed: 1 << 42, present: 0 });
    assert!(builder.refusal().to_string().ends_with("are there; the file is truncated"));
}

#[test]
fn the_private_layout_of_type_42() {
    let private = |dims: &[u64]| dims.iter().product::<u64>() as usize / 128 * 34;
    let dims = [1024, 2];
    // Told by where the next tensor starts.
    let before = Builder::new().tensor("q", &dims, 42, private(&dims)).tensor("b", &[1], 0, 4);
    tensor(&before, "q", Fault::PrivateQ2_0);
    // Told by the end of the file, with and without padding.
    let mut last = Builder::new().tensor("q", &dims, 42, private(&dims));
    tensor(&last, "q", Fault::PrivateQ2_0);
    last = Builder::new().tensor("q", &dims, 42, private(&dims).next_multiple_of(32));
    tensor(&last, "q", Fault::PrivateQ2_0);
    // Merely truncated.
    last = Builder::new().tensor("q", &dims, 42, 100);
    tensor(&last, "q", Fault::DataPastEnd { needed: 576, present: 100 });
    // A row of 64 can't be private.
    last = Builder::new().tensor("q", &[64, 32], 42, private(&dims));
    tensor(&last, "q", Fault::DataPastEnd { needed: 576, present: 544 });
}

#[test]
fn labels_of_hostile_names_are_short_and_printable() {
    let name = [[0xFF; 40], [b'\n'; 40]].concat();
    let error = Builder::new().entry(name, 13, []).entry("pad", 0, [0; 40]).refusal();
    let text = error.to_string();
    assert!(text.starts_with("key \"\u{fffd}") && text.contains("\\n...\" at byte "), "{text}");
    assert!(!text.contains('\n'), "{text}");
}
