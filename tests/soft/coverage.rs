//! Which instructions of the table the processor has, and which the tests execute.

use doorbell_isa::{Op, TARGETS, Target, decode};
use doorbell_soft::code::CodeObject;
use doorbell_soft::processor::{Level, Options, supports};
use std::collections::BTreeSet;

use crate::opencl::{OBJECTS, items, run};
use crate::references::REFERENCES;

#[test]
fn every_instruction_of_the_table_has_a_handler() {
    let missing: Vec<&str> = Op::all()
        .filter(|op| TARGETS.iter().any(|target| op.row().opcode(*target).is_some()))
        .filter(|op| !supports(*op))
        .map(Op::name)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn tests_execute_most_instructions_with_known_results() {
    let mut executed: BTreeSet<Op> = BTreeSet::new();
    for line in include_str!("../goldens/soft/values.txt").lines() {
        let words = line.split(" | ").nth(2).unwrap();
        let words: Vec<u32> =
            words.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
        let mut at = 0;
        while let Ok((inst, length)) = decode(&words[at..], Target::Gfx1100) {
            executed.insert(inst.op);
            executed.extend(inst.second.map(|(op, _)| op));
            at += length;
        }
    }
    let (input, rows) = items();
    for (_, _, file) in OBJECTS {
        let object = CodeObject::parse(file).unwrap();
        let items = rows.iter().map(|(name, _)| format!("k_{name}"));
        for name in items.chain(REFERENCES.iter().map(|(name, _)| (*name).to_owned())) {
            let options = Options { level: Level::Fast, ..Options::default() };
            executed.extend(run(&object, &name, &input, options).unwrap().2);
        }
    }
    executed.extend(crate::table::judged());
    executed.extend(crate::rows::covered().into_iter().map(|(op, _)| op));
    let total = Op::all().count();
    println!("{} of {total} instructions executed", executed.len());
    assert!(executed.len() >= 1050, "{} of {total}", executed.len());
}
