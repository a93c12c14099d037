//! Compares with a newer LLVM on gfx12, since Debian's LLVM lacks a hazard there. Our checker must accept its code for the
//! programs in tests/opencl, and the same code with our waits in place of its own.
//!
//! The newer LLVM is the one in PyPI's `llvmlite`. Without pip or network this is skipped with a message.

use super::rival::words_by_function;
use crate::process::{command, output};
use crate::{opencl, pip};
use anyhow::{Context, Result, bail, ensure};
use doorbell_compiler::check::binary::{Origin, check_from};
use doorbell_compiler::machine::{BlockId, Line, Physical};
use doorbell_compiler::pass::{emit, hazards, waits};
use doorbell_isa::{Flags, Inst, Operand, Target, decode, op};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that carries LLVM 22.
const PACKAGE: &str = "llvmlite==0.50.0";

/// The compiler of programs to intermediate code.
const COMPILER: &str = "clang-19";

const TARGET: Target = Target::Gfx1200;

/// Counts of functions, instructions and waits for the ALU, theirs and ours.
#[derive(Default)]
struct Figures {
    functions: usize,
    instructions: usize,
    theirs: usize,
    ours: usize,
    complaints: Vec<String>,
}

/// Checks its code for every program, optimized and not.
pub(super) fn check(folder: &Path) -> Result<()> {
    let package = folder.join("llvmlite");
    if Command::new(COMPILER).arg("--version").output().is_err() {
        eprintln!("skipped: no {COMPILER} here");
        return Ok(());
    }
    if !pip::unpacked(PACKAGE, &package) {
        eprintln!("skipped: {PACKAGE} can't be had here");
        return Ok(());
    }
    let mut figures = Figures::default();
    let objects = objects(&folder.join("newer"), &package)?;
    for object in &objects {
        let listing = output(Command::new("llvm-objdump-19").arg("-d").arg(object))?;
        for (name, words) in words_by_function(&String::from_utf8_lossy(&listing)) {
            let label = format!("{} {name}", object.file_name().unwrap_or_default().to_string_lossy());
            function(&label, &words, &mut figures)?;
        }
    }
    let Figures { functions, instructions, theirs, ours, complaints } = figures;
    println!(
        "{TARGET}: {} objects of the newer LLVM, {functions} functions, {instructions} instructions, {} complaints; \
         {theirs} waits for the ALU where our pass puts {ours}",
        objects.len(),
        complaints.len(),
    );
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}

/// Objects of all programs for the chip: clang gives the intermediate code, the newer LLVM the machine code.
fn objects(folder: &Path, package: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)?;
    let mut compile = command("python3", [opencl::folder().join("compile.py")]);
    compile.arg(TARGET.name()).env("PYTHONPATH", package);
    let mut objects = Vec::new();
    for source in opencl::programs(TARGET)? {
        let name = source.file_stem().context("a program has a name")?.to_string_lossy();
        for level in ["-O0", "-O2"] {
            let [code, object] =
                ["ll", "o"].map(|ending| folder.join(format!("{name}.{}.{ending}", &level[1..])));
            let language = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-nogpulib"];
            let cpu = format!("-mcpu={TARGET}");
            let mut clang = Command::new(COMPILER);
            clang.args(language).args([&cpu, level, "-S", "-emit-llvm"]).arg(&source).arg("-o").arg(&code);
            output(&mut clang)?;
            compile.arg(&code).arg(&object);
            objects.push(object);
        }
    }
    print!("{}", String::from_utf8_lossy(&output(&mut compile)?));
    Ok(objects)
}

/// Checks one function, then the same function with our waits.
fn function(label: &str, words: &[u32], figures: &mut Figures) -> Result<()> {
    figures.functions += 1;
    if let Err(error) = check_from(words, TARGET, Origin::Foreign) {
        figures.complaints.push(format!("{label}: {error}"));
    }
    let mut insts = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let (inst, length) = decode(&words[at..], TARGET).with_context(|| format!("{label}: dword {at}"))?;
        insts.push((at, inst));
        at += length;
    }
    figures.instructions += insts.len();
    // Calls need waits of their own; our kernels have no calls.
    if insts.iter().any(|(_, inst)| matches!(inst.op, op::s_swappc_b64 | op::s_setpc_b64)) {
        return Ok(());
    }
    let mut code = without_waits(&insts, words.len())?;
    waits::insert(&mut code);
    hazards::insert(&mut code);
    let for_alu = |inst: &Inst| inst.op == op::s_wait_alu;
    figures.theirs += insts.iter().filter(|(_, inst)| for_alu(inst)).count();
    let lines = code.blocks.iter().flatten();
    figures.ours += lines.filter(|line| matches!(line, Line::Inst(inst, _) if for_alu(inst))).count();
    if let Err(error) = check_from(&emit::emit(&code)?, TARGET, Origin::Foreign) {
        figures.complaints.push(format!("{label}, with our waits: {error}"));
    }
    Ok(())
}

/// The code in blocks, without waits and hints.
fn without_waits(insts: &[(usize, Inst)], end: usize) -> Result<Physical> {
    let after = |index: usize| insts.get(index + 1).map_or(end, |next| next.0);
    let mut targets = Vec::new();
    let mut leads = vec![false; insts.len() + 1];
    for (index, (_, inst)) in insts.iter().enumerate() {
        let mut target = None;
        if inst.row().has(Flags::BRANCHES) {
            let [Operand::Immediate(distance)] = inst.operands.as_slice() else {
                bail!("{} jumps to an unknown address", inst.op.name());
            };
            let dword = after(index).wrapping_add_signed(*distance as isize);
            let found = insts.binary_search_by_key(&dword, |entry| entry.0);
            let number = found.ok().context("a branch to no instruction")?;
            (leads[number], leads[index + 1]) = (true, true);
            target = Some(number);
        }
        targets.push(target);
    }
    // Block of each instruction.
    let mut numbers = Vec::new();
    let mut number = 0u32;
    for (index, leads) in leads.iter().enumerate() {
        number += u32::from(index > 0 && *leads);
        numbers.push(number);
    }
    let mut blocks = vec![Vec::new(); number as usize + 1];
    for (index, (_, inst)) in insts.iter().enumerate() {
        let name = inst.row().name;
        if !name.starts_with("s_wait") && !matches!(inst.op, op::s_delay_alu | op::s_clause) {
            let target = targets[index].map(|target| BlockId(numbers[target]));
            blocks[numbers[index] as usize].push(Line::Inst(*inst, target));
        }
    }
    Ok(Physical { target: TARGET, blocks })
}
