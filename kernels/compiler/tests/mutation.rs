//! The checkers catch what they are for: each wait or hazard fix left out, each pair of registers exchanged.

use doorbell_compiler::machine::{Line, Physical};
use doorbell_compiler::pass::{allocate, legalise, schedule, vopd};
use doorbell_compiler::sample::SAMPLES;
use doorbell_compiler::{Options, check, compile};
use doorbell_isa::{Inst, Operand, Operands, Target, decode, encode, op};

const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];

fn is_wait(inst: &Inst) -> bool {
    inst.row().name.starts_with("s_wait") || inst.op == op::v_nop
}

#[test]
fn every_missing_wait_is_caught() {
    let nop = encode(&Inst::new(op::s_nop, [Operand::Immediate(0)]), Target::Gfx1100).unwrap();
    let mut tried = 0;
    for target in TARGETS {
        for sample in SAMPLES {
            let kernel = compile(&(sample.build)(target), target, &Options::default()).unwrap();
            let mut at = 0;
            while at < kernel.words.len() {
                let (inst, length) = decode(&kernel.words[at..], target).unwrap();
                if is_wait(&inst) {
                    assert_eq!(length, 1);
                    let mut words = kernel.words.clone();
                    words[at] = nop.words()[0];
                    let caught = check::binary::check(&words, target).is_err();
                    assert!(caught, "{} {target}: without {} at dword {at}", sample.name, inst.text(target));
                    tried += 1;
                }
                at += length;
            }
        }
    }
    assert!(tried > 150, "only {tried} waits");
    println!("{tried} of {tried} missing waits caught");
}

/// Register operands of one file and width that may be exchanged.
fn exchangeable(a: Operand, b: Operand) -> bool {
    match (a, b) {
        (Operand::Vgpr(a), Operand::Vgpr(b)) => a != b && a.count == b.count,
        (Operand::Scalar(a), Operand::Scalar(b)) => {
            a != b && a.count == b.count && a.is_general() && b.is_general()
        }
        _ => false,
    }
}

#[test]
fn exchanged_registers_are_caught() {
    let (mut tried, mut caught) = (0u32, 0u32);
    for target in TARGETS {
        for sample in SAMPLES {
            let mut machine = legalise::legalise(&(sample.build)(target), target).unwrap();
            schedule::schedule(&mut machine);
            let allocation = allocate::allocate(&machine, 256).unwrap();
            let mut code = allocate::rewrite(&machine, &allocation);
            vopd::pair(&mut code);
            assert_eq!(check::allocation::check(&machine, &code), Ok(()), "{} {target}", sample.name);
            for mutant in mutants(&code) {
                tried += 1;
                caught += u32::from(check::allocation::check(&machine, &mutant).is_err());
            }
        }
    }
    // A result that goes to the register of a source nobody needs any more is the one exchange without effect.
    assert!(tried > 1900 && caught * 100 >= tried * 99, "{caught} of {tried} caught");
    println!("{caught} of {tried} exchanges caught");
}

/// Every exchange of two operands.
fn exchanges(operands: &Operands) -> Vec<Operands> {
    let list = operands.as_slice();
    let mut results = Vec::new();
    for first in 0..list.len() {
        for second in first + 1..list.len() {
            if exchangeable(list[first], list[second]) {
                let mut changed = *operands;
                changed.as_mut_slice().swap(first, second);
                results.push(changed);
            }
        }
    }
    results
}

fn mutants(code: &Physical) -> Vec<Physical> {
    let mut list = Vec::new();
    for (block, lines) in code.blocks.iter().enumerate() {
        for (line, content) in lines.iter().enumerate() {
            let Line::Inst(inst, branch) = content else { continue };
            let first = exchanges(&inst.operands).into_iter().map(|operands| Inst { operands, ..*inst });
            let second = inst.second.into_iter().flat_map(|(op, operands)| {
                exchanges(&operands)
                    .into_iter()
                    .map(move |operands| Inst { second: Some((op, operands)), ..*inst })
            });
            for changed in first.chain(second) {
                let mut mutant = code.clone();
                mutant.blocks[block][line] = Line::Inst(changed, *branch);
                list.push(mutant);
            }
        }
    }
    list
}
