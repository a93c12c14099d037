//! Compares our code with clang's for the same kernels in OpenCL C: registers, instructions, instructions per loop trip.

use crate::process::{command, output};
use anyhow::{Context, Result};
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Options, compile};
use doorbell_isa::{Flags, Inst, Operand, Target, decode, op};
use std::collections::HashMap;
use std::path::Path;

/// Prints the table for one chip.
pub(super) fn compare(program: &Path, folder: &Path, target: Target) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let object = folder.join("rival.o");
    let cpu = format!("-mcpu={target}");
    let language = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-nogpulib", "-O3", "-c"];
    output(command("clang-19", language).args([cpu.as_str(), "-o"]).arg(&object).arg(program))?;
    let listing = output(command("llvm-objdump-19", ["-d"]).arg(&object))?;
    let notes = output(command("llvm-readelf-19", ["--notes"]).arg(&object))?;
    let theirs = functions(&String::from_utf8_lossy(&listing), target)?;
    let registers = registers(&String::from_utf8_lossy(&notes));
    println!("{:14} {:>12} {:>18} {:>24}", "kernel", "VGPRs", "instructions", "per loop trip");
    for sample in SAMPLES {
        let (Some(insts), Some(vgprs)) = (theirs.get(sample.name), registers.get(sample.name)) else {
            continue;
        };
        let kernel = compile(&(sample.build)(target), target, &Options::default())?;
        let ours = instructions(&kernel.words, target)?;
        println!(
            "{:14} {:>5} : {:<4} {:>8} : {:<7} {:>11} : {:<11}",
            sample.name,
            kernel.resources.vgprs,
            vgprs,
            ours.len(),
            insts.len(),
            format!("{:?}", loops(&ours)),
            format!("{:?}", loops(insts)),
        );
    }
    Ok(())
}

/// Instructions with their dword offsets.
type Code = Vec<(usize, Inst)>;

fn instructions(words: &[u32], target: Target) -> Result<Code> {
    let mut code = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let (inst, length) = decode(&words[at..], target).context("our own code")?;
        code.push((at, inst));
        at += length;
    }
    Ok(code)
}

/// Code by function name.
fn functions(listing: &str, target: Target) -> Result<HashMap<String, Code>> {
    let functions = words_by_function(listing).into_iter();
    functions.map(|(name, words)| Ok((name, instructions(&words, target)?))).collect()
}

/// Dwords of each function of a listing, without the padding after it.
pub(super) fn words_by_function(listing: &str) -> Vec<(String, Vec<u32>)> {
    const PADDING: [u32; 2] = [0xbf9f_0000, 0xbf80_0000];
    let mut functions: Vec<(String, Vec<u32>)> = Vec::new();
    for line in listing.lines() {
        if let Some(label) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            functions.push((label.1.to_owned(), Vec::new()));
        } else if let Some((_, comment)) = line.rsplit_once("// ")
            && let Some((_, list)) = comment.split_once(": ")
            && let Some((_, words)) = functions.last_mut()
        {
            words.extend(list.split(' ').map_while(|word| u32::from_str_radix(word, 16).ok()));
        }
    }
    for (_, words) in &mut functions {
        while words.last().is_some_and(|word| PADDING.contains(word)) {
            words.pop();
        }
    }
    functions.retain(|(_, words)| !words.is_empty());
    functions
}

/// VGPRs by kernel name from the metadata.
fn registers(notes: &str) -> HashMap<String, u32> {
    let mut found = HashMap::new();
    let mut name = String::new();
    for line in notes.lines() {
        let value = |key: &str| line.strip_prefix(key).map(|value| value.trim().to_owned());
        if let Some(value) = value("    .name:") {
            name = value;
        } else if let Some(value) = value("    .vgpr_count:") {
            found.insert(name.clone(), value.parse().unwrap_or(0));
        }
    }
    found
}

/// Lengths of the innermost loops, without waits and hints.
fn loops(code: &Code) -> Vec<usize> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for (index, (at, inst)) in code.iter().enumerate() {
        let [Operand::Immediate(distance)] = inst.operands.as_slice() else { continue };
        if !inst.row().has(Flags::BRANCHES) || *distance >= 0 {
            continue;
        }
        let target = at.wrapping_add(1).wrapping_add_signed(*distance as isize);
        if let Ok(first) = code.binary_search_by_key(&target, |entry| entry.0) {
            spans.push((first, index));
        }
    }
    let inner = |span: &&(usize, usize)| {
        !spans.iter().any(|other| other != *span && span.0 <= other.0 && other.1 <= span.1)
    };
    let counted = |inst: &Inst| {
        !inst.row().name.starts_with("s_wait") && !matches!(inst.op, op::s_delay_alu | op::s_clause)
    };
    let length =
        |span: &(usize, usize)| code[span.0..=span.1].iter().filter(|(_, inst)| counted(inst)).count();
    spans.iter().filter(inner).map(length).collect()
}
