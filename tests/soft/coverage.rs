//! Coverage: the processor has every instruction of the table, and each has a case with a known result on every chip.

use doorbell_isa::{Op, TARGETS, Target, decode, op};
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

const CHIPS: [(char, Target); 3] = [('a', Target::Gfx1100), ('b', Target::Gfx1151), ('c', Target::Gfx1200)];

/// Rows that `traps.rs` tests.
static TRAPS: &[Op] = &[op::s_trap, op::s_rfe_b64, op::s_sethalt];

fn on_every_chip(list: &'static [Op]) -> impl Iterator<Item = (Op, char)> {
    list.iter().flat_map(|op| {
        CHIPS.iter().filter(|(_, target)| op.row().opcode(*target).is_some()).map(|(chip, _)| (*op, *chip))
    })
}

#[test]
fn every_row_has_a_case_with_a_known_result_on_every_chip() {
    let values = crate::rows::covered();
    let mut behavior = crate::behavior::covered();
    behavior.extend(on_every_chip(crate::modes::ROWS));
    behavior.extend(on_every_chip(TRAPS));
    let rows: BTreeSet<(Op, char)> = Op::all()
        .flat_map(|op| {
            let chips = CHIPS.iter().filter(move |(_, target)| op.row().opcode(*target).is_some());
            chips.map(move |(chip, _)| (op, *chip))
        })
        .collect();
    let ops = |pairs: &BTreeSet<(Op, char)>| pairs.iter().map(|(op, _)| *op).collect::<BTreeSet<Op>>();
    let covered: BTreeSet<(Op, char)> = values.union(&behavior).copied().collect();
    println!(
        "{} rows with values, {} with a stated behavior, of {} rows; {} of {} pairs of row and chip",
        ops(&values).len(),
        ops(&behavior).difference(&ops(&values)).count(),
        Op::all().count(),
        covered.intersection(&rows).count(),
        rows.len()
    );
    let missing: Vec<&(Op, char)> = rows.difference(&covered).collect();
    assert!(missing.is_empty(), "{} pairs of row and chip without a case: {missing:?}", missing.len());
    assert!(covered.is_subset(&rows), "cases of rows that a chip does not have");
}

/// Beside the cases of single instructions, these run in sequences of others: hardware's values, compiled programs, the
/// emulator of AMD's pseudo-code.
#[test]
fn most_rows_are_also_judged_by_others_results() {
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
    let total = Op::all().count();
    println!("{} of {total} rows", executed.len());
    assert!(executed.len() >= 823, "{} of {total}", executed.len());
}
