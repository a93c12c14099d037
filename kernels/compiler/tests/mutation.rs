//! The checkers catch what they are for: each wait or hazard fix left out, each pair of registers exchanged.

use doorbell_compiler::machine::{Arg, Instr, Item, Line, Physical};
use doorbell_compiler::pass::fit::{Limits, fit};
use doorbell_compiler::pass::split::Split;
use doorbell_compiler::pass::{allocate, legalize, schedule, vopd};
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Options, check, compile};
use doorbell_isa::{Format, Inst, Operand, Operands, Target, decode, encode, op};

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
            let mut machine = legalize::legalize(&(sample.build)(target), target).unwrap();
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

fn is_scratch(instr: &Instr) -> bool {
    instr.op.row().format == Format::Scratch
}

/// Each instruction that splitting added left out, each slot exchanged for its neighbor, each constant of a value
/// computed again changed.
fn wrong_splits(split: &Split) -> Vec<(String, Split)> {
    let mut list = Vec::new();
    for (block, code) in split.machine.blocks.iter().enumerate() {
        for (index, item) in code.items.iter().enumerate() {
            let Item::Instr(instr) = item else { continue };
            let copy =
                matches!(instr.args.first(), Some(Arg::Reg(part)) if split.copies.contains_key(&part.reg));
            let copy = copy && instr.dst_count() == 1;
            let mut change = |what: &str, edit: &dyn Fn(&mut Vec<Item>)| {
                let mut wrong = split.clone();
                edit(&mut wrong.machine.blocks[block].items);
                list.push((format!("{} {what}, item {index} of block {block}", instr.op.name()), wrong));
            };
            if is_scratch(instr) || copy {
                change("left out", &|items| _ = items.remove(index));
            }
            let mut other = instr.clone();
            if is_scratch(instr) {
                other.memory.offset += if instr.memory.offset == 0 { 4 } else { -4 };
                change("with another slot", &|items| items[index] = Item::Instr(other.clone()));
            } else if copy {
                let constant = other.args.iter_mut().find_map(|arg| match arg {
                    Arg::Fixed(operand @ (Operand::Int(_) | Operand::Literal(_))) => Some(operand),
                    _ => None,
                });
                if let Some(constant) = constant {
                    *constant = Operand::Int(37);
                    change("of another constant", &|items| items[index] = Item::Instr(other.clone()));
                }
            }
        }
    }
    list
}

#[test]
fn wrong_splits_are_caught() {
    let (mut tried, mut missed) = (0u32, Vec::new());
    for target in TARGETS {
        for sample in SAMPLES {
            let machine = legalize::legalize(&(sample.build)(target), target).unwrap();
            let most = allocate::allocate(&machine, 256).unwrap().vgprs;
            for max_vgprs in [most / 2, most * 3 / 4] {
                let Ok((split, _)) = fit(&machine, Limits { max_vgprs, spill: true }) else { continue };
                assert_eq!(check::split::check(&machine, &split), Ok(()), "{} {target}", sample.name);
                for (what, wrong) in wrong_splits(&split) {
                    tried += 1;
                    if check::split::check(&machine, &wrong).is_ok() {
                        missed.push(format!("{} {target} {max_vgprs}: {what}", sample.name));
                    }
                }
            }
        }
    }
    println!("{} of {tried} wrong splits caught", tried as usize - missed.len());
    assert!(tried > 1000, "only {tried}");
    // A store behind which nothing is loaded any more is the one that may be left out.
    let unseen = missed.iter().filter(|missed| !missed.contains("scratch_store"));
    assert_eq!(unseen.collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(missed.len() * 50 <= tried as usize, "{} of {tried} missed: {missed:#?}", missed.len());
}
