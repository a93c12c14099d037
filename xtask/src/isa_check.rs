//! `cargo xtask isa-check`: compares the instruction table with LLVM. For every row and chip and random operands, our
//! bytes are the assembler's, our text is the disassembler's, and decoding gives the instruction back.
//!
//! Not here: the table (`kernels/isa`). Without LLVM the verb prints a message and succeeds.

mod clang;
mod llvm;
mod random;

use crate::process::root;
use anyhow::{Context, Result, bail, ensure};
use doorbell_isa::{Inst, Op, Target, decode, encode};
use llvm::Judge;
use random::Random;
use std::collections::HashMap;

/// Chips whose instruction sets differ; the others have the set of one of these.
const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];

/// Instructions per call of LLVM.
const BATCH: usize = 100_000;

/// Arguments of the verb.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Random operand choices per row and chip.
    #[arg(long, default_value_t = 1000)]
    cases: usize,
    /// Seed of the choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only rows whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Write the committed sample instead of comparing.
    #[arg(long)]
    sample: bool,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { cases: 1000, seed: 1, only: String::new(), sample: false }
    }
}

/// Compares the table with LLVM.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.sample {
        return sample(arguments.seed);
    }
    if !llvm::is_installed() {
        eprintln!("isa-check: LLVM 19 is not installed, nothing compared");
        return Ok(());
    }
    let judge = Judge::new(&root().join("target/isa-check"))?;
    let mut mismatches = 0;
    for target in TARGETS {
        mismatches += check_target(&judge, target, arguments)?;
        mismatches += check_programs(&judge, target)?;
    }
    if mismatches > 0 {
        bail!("{mismatches} mismatches");
    }
    Ok(())
}

fn check_target(judge: &Judge, target: Target, arguments: &Arguments) -> Result<usize> {
    let mut report = Report::default();
    let mut batch = Vec::new();
    let (mut rows, mut cases) = (0, 0);
    for op in Op::all() {
        let row = op.row();
        let first_half =
            row.format != doorbell_isa::Format::Vopd || row.opcode(target).is_some_and(|code| code < 16);
        if row.opcode(target).is_none() || !row.name.contains(&arguments.only) || !first_half {
            continue;
        }
        rows += 1;
        let mut random = Random::new(arguments.seed ^ hash(row.name));
        for _ in 0..arguments.cases {
            let Some(inst) = random::instruction(op, target, &mut random) else {
                bail!("{target}: no operands found for {}", row.name);
            };
            batch.push(inst);
        }
        if batch.len() >= BATCH {
            cases += batch.len();
            compare(judge, target, &core::mem::take(&mut batch), &mut report)?;
        }
    }
    cases += batch.len();
    compare(judge, target, &batch, &mut report)?;
    ensure!(rows > 0, "no row of {target} has a name that contains {:?}", arguments.only);
    println!("{target}: {rows} rows, {cases} cases, {} mismatches", report.total);
    let mut rows: Vec<_> = report.by_row.iter().collect();
    rows.sort();
    for (row, (count, example)) in rows {
        println!("  {row}: {count}\n    {example}");
    }
    Ok(report.total)
}

/// Decodes clang's code for the programs in tests/opencl. Returns the number of mismatches.
fn check_programs(judge: &Judge, target: Target) -> Result<usize> {
    let decoded = clang::decode_programs(judge, target)?;
    let unknown: usize = decoded.unknown.values().sum();
    let different = decoded.different.len();
    println!(
        "{target}: {} clang objects, {} instructions, {unknown} outside the table, {different} with other text",
        decoded.objects, decoded.instructions
    );
    let mut names: Vec<_> = decoded.unknown.iter().collect();
    names.sort();
    for (name, count) in names {
        println!("  outside the table: {name} ({count})");
    }
    for line in decoded.different.iter().take(20) {
        println!("  {line}");
    }
    Ok(unknown + different)
}

/// FNV-1a, so that a row's cases do not depend on its position in the table.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Mismatches by row, with one example each.
#[derive(Default)]
struct Report {
    total: usize,
    by_row: HashMap<&'static str, (usize, String)>,
}

impl Report {
    fn add(&mut self, op: Op, example: impl FnOnce() -> String) {
        self.total += 1;
        self.by_row.entry(op.name()).or_insert_with(|| (0, example())).0 += 1;
    }
}

fn compare(judge: &Judge, target: Target, insts: &[Inst], report: &mut Report) -> Result<()> {
    let texts: Vec<String> = insts.iter().map(|inst| inst.text(target).to_string()).collect();
    let mut codes = Vec::with_capacity(insts.len());
    for inst in insts {
        codes.push(encode(inst, target).context("the generator only keeps what encodes")?.words().to_vec());
    }
    let assembled = judge.assemble(&texts, target)?;
    let disassembled = judge.disassemble(&codes, target)?;
    for (index, inst) in insts.iter().enumerate() {
        let (text, code) = (&texts[index], &codes[index]);
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        match &assembled[index] {
            Ok(theirs) if *theirs == bytes => {}
            Ok(theirs) => report.add(inst.op, || format!("{text}: ours {bytes:02x?}, LLVM's {theirs:02x?}")),
            Err(error) => report.add(inst.op, || format!("{text}: refused: {error}")),
        }
        if disassembled[index] != *text {
            report.add(inst.op, || format!("ours '{text}', LLVM's '{}'", disassembled[index]));
        }
        match decode(code, target) {
            Ok((back, length)) if back == *inst && length == code.len() => {}
            other => report.add(inst.op, || format!("{text}: decoded as {other:?}")),
        }
    }
    Ok(())
}

/// Writes the committed sample: some instructions of every row, as `words|text`.
fn sample(seed: u64) -> Result<()> {
    let folder = root().join("kernels/isa/tests/sample");
    std::fs::create_dir_all(&folder)?;
    for (target, per_row) in TARGETS.into_iter().zip([2, 1, 2]) {
        let mut lines = String::new();
        for op in Op::all() {
            let mut random = Random::new(seed ^ hash(op.name()));
            for _ in 0..per_row {
                let Some(inst) = random::instruction(op, target, &mut random) else { continue };
                let code = encode(&inst, target).context("the generator only keeps what encodes")?;
                let words: Vec<String> = code.words().iter().map(|word| format!("{word:08x}")).collect();
                lines += &format!("{}|{}\n", words.join(" "), inst.text(target));
            }
        }
        std::fs::write(folder.join(format!("{target}.txt")), lines)?;
    }
    Ok(())
}
