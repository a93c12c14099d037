//! Split sets that do not fit together.

use crate::builder::{Builder, HEAP};
use doorbell_core::gguf::{Fault, Gguf, Split, Subject};

fn part(number: u16, count: u16, tensors: u32) -> Builder {
    Builder::new().u16("split.no", number).u16("split.count", count).u32("split.tensors.count", tensors)
}

#[track_caller]
fn refusal(parts: &[Builder]) -> (Fault, usize) {
    let files: Vec<_> = parts.iter().map(Builder::build).collect();
    let slices: Vec<_> = files.iter().map(Vec::as_slice).collect();
    let error = Gguf::parse_split(&slices, HEAP).unwrap_err();
    (error.fault, error.part)
}

fn a(builder: Builder) -> Builder {
    builder.tensor("a", &[1], 0, 4)
}

fn b(builder: Builder) -> Builder {
    builder.tensor("b", &[1], 0, 4)
}

#[test]
fn a_part_says_where_it_belongs() {
    let bytes = part(1, 2, 7).build();
    let split = Gguf::parse(&bytes, HEAP).unwrap().split();
    assert_eq!(split, Ok(Some(Split { number: 1, count: 2, tensors: Some(7) })));
    let bytes = Builder::new().build();
    assert_eq!(Gguf::parse(&bytes, HEAP).unwrap().split(), Ok(None));
}

#[test]
fn one_file_is_a_set() {
    let alone = a(Builder::new()).build();
    assert_eq!(Gguf::parse_split(&[&alone], HEAP).unwrap().tensors().len(), 1);
    let alone = a(part(0, 1, 1)).build();
    assert_eq!(Gguf::parse_split(&[&alone], HEAP).unwrap().tensors().len(), 1);
}

#[test]
fn no_files() {
    assert_eq!(refusal(&[]), (Fault::EmptySet, 0));
}

#[test]
fn missing_and_odd_keys() {
    assert_eq!(refusal(&[a(Builder::new()), b(part(1, 2, 2))]), (Fault::SplitKeys, 0));
    assert_eq!(refusal(&[a(part(0, 2, 2)), b(Builder::new())]), (Fault::SplitKeys, 1));
    let half = Builder::new().u16("split.no", 0);
    assert_eq!(refusal(&[half]), (Fault::SplitKeys, 0));
    let odd = Builder::new().u16("split.no", 0).entry("split.count", 6, 1f32.to_le_bytes());
    assert_eq!(refusal(&[odd]), (Fault::SplitKeys, 0));
}

#[test]
fn wrong_order_and_missing_files() {
    let swapped = [b(part(1, 2, 2)), a(part(0, 2, 2))];
    assert_eq!(refusal(&swapped), (Fault::SplitNumber { expected: 0, found: 1 }, 0));
    let twice = [a(part(0, 2, 2)), b(part(0, 2, 2))];
    assert_eq!(refusal(&twice), (Fault::SplitNumber { expected: 1, found: 0 }, 1));
    let short = [a(part(0, 3, 2)), b(part(1, 3, 2))];
    assert_eq!(refusal(&short), (Fault::SplitCount { expected: 2, found: 3 }, 0));
    let stranger = [a(part(0, 2, 2)), b(part(1, 3, 2))];
    assert_eq!(refusal(&stranger), (Fault::SplitCount { expected: 2, found: 3 }, 1));
}

#[test]
fn wrong_number_of_tensors() {
    let parts = [a(part(0, 2, 3)), b(part(1, 2, 3))];
    assert_eq!(refusal(&parts), (Fault::SplitTensors { expected: 2, found: 3 }, 0));
}

#[test]
fn names_are_unique_over_the_set() {
    let files = [a(part(0, 2, 2)), a(part(1, 2, 2))].map(|part| part.build());
    let error = Gguf::parse_split(&files.each_ref().map(Vec::as_slice), HEAP).unwrap_err();
    assert_eq!((error.fault, error.part), (Fault::DuplicateTensor, 1));
    let Subject::Tensor(label) = &error.subject else { panic!("{error}") };
    assert_eq!(label.bytes(), b"a");
}

#[test]
fn faults_inside_a_part_name_it() {
    let (fault, part_index) = refusal(&[a(part(0, 2, 2)), part(1, 2, 2).tensor("b", &[2], 0, 4)]);
    assert_eq!((fault, part_index), (Fault::DataPastEnd { needed: 8, present: 4 }, 1));
}
