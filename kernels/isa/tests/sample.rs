//! The committed sample: instructions of every row, with their text and bytes by LLVM 19.
//!
//! `cargo xtask isa-check` compares a thousand per row; `cargo xtask isa-check --sample` writes this one.

use doorbell_isa::{Op, Target, decode, encode};
use std::collections::HashSet;

const SAMPLES: [(Target, &str); 3] = [
    (Target::Gfx1100, include_str!("sample/gfx1100.txt")),
    (Target::Gfx1151, include_str!("sample/gfx1151.txt")),
    (Target::Gfx1200, include_str!("sample/gfx1200.txt")),
];

/// Words and text of a line `words|text`.
fn parse(line: &str) -> (Vec<u32>, &str) {
    let (words, text) = line.split_once('|').expect("a line of the sample");
    (words.split(' ').map(|word| u32::from_str_radix(word, 16).expect("a hexadecimal word")).collect(), text)
}

#[test]
fn bytes_and_text_agree_with_llvm() {
    for (target, sample) in SAMPLES {
        for line in sample.lines() {
            let (words, text) = parse(line);
            let (inst, length) =
                decode(&words, target).unwrap_or_else(|error| panic!("{target} {line}: {error}"));
            assert_eq!(length, words.len(), "{target} {line}");
            assert_eq!(inst.text(target).to_string(), text, "{target}");
            assert_eq!(encode(&inst, target).unwrap().words(), words, "{target} {text}");
        }
    }
}

#[test]
fn every_row_is_in_the_sample() {
    for (target, sample) in SAMPLES {
        let mut seen = HashSet::new();
        for line in sample.lines() {
            let (inst, _) = decode(&parse(line).0, target).unwrap();
            seen.insert(inst.op);
            seen.extend(inst.second.map(|half| half.0));
        }
        let missing: Vec<Op> =
            Op::all().filter(|op| op.row().opcode(target).is_some() && !seen.contains(op)).collect();
        // Halves that can only be the second one appear by chance.
        assert!(missing.iter().all(|op| op.name().starts_with("v_dual")), "{target}: {missing:?}");
    }
}

#[test]
fn instructions_cut_off_are_errors() {
    for (target, sample) in SAMPLES {
        for line in sample.lines() {
            let (words, text) = parse(line);
            for length in 0..words.len() {
                assert!(decode(&words[..length], target).is_err(), "{target} {text} cut to {length}");
            }
        }
    }
}
