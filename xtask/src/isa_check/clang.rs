//! Code objects that clang makes from tests/opencl: every instruction must decode, with the disassembler's text.
//!
//! Instructions that the table lacks are listed by name. Not here: the random comparison (`isa_check.rs`).

use super::llvm::{Judge, disassembled};
use crate::opencl;
use anyhow::{Context, Result, bail};
use doorbell_isa::{DecodeError, Target, decode};
use std::collections::HashMap;

/// Instructions read, and those outside the table by name.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) objects: usize,
    pub(super) instructions: usize,
    pub(super) unknown: HashMap<String, usize>,
    pub(super) different: Vec<String>,
}

/// Compiles every program for one chip at two levels and decodes the code.
pub(super) fn decode_programs(judge: &Judge, target: Target) -> Result<Decoded> {
    let mut decoded = Decoded::default();
    for program in opencl::programs(target)? {
        for level in ["-O0", "-O2"] {
            let listing = judge.compile(&program, target, level)?;
            decode_listing(&listing, target, &mut decoded)
                .with_context(|| format!("{} {target} {level}", program.display()))?;
            decoded.objects += 1;
        }
    }
    Ok(decoded)
}

/// Decodes the dwords of a disassembly and compares the text of each instruction.
fn decode_listing(listing: &str, target: Target, decoded: &mut Decoded) -> Result<()> {
    for line in listing.lines() {
        let Some((_, text)) = disassembled(line) else { continue };
        let words = words(line)?;
        decoded.instructions += 1;
        match decode(&words, target) {
            Ok((inst, length)) => {
                let ours = inst.text(target).to_string();
                if ours != text || length != words.len() {
                    decoded.different.push(format!("ours '{ours}', LLVM's '{text}'"));
                }
            }
            Err(DecodeError::Unknown { .. } | DecodeError::Field { .. }) => {
                let name = text.split(' ').next().unwrap_or_default().to_owned();
                *decoded.unknown.entry(name).or_default() += 1;
            }
            Err(error) => bail!("{text}: {error}"),
        }
    }
    Ok(())
}

/// Dwords of a line such as `\tv_nop    // 000000000000: 7E000000 <label>`.
fn words(line: &str) -> Result<Vec<u32>> {
    let (_, comment) = line.rsplit_once("// ").context("a line of the disassembly")?;
    let (_, list) = comment.split_once(": ").context("an address")?;
    let words = list.split(' ').take_while(|word| word.len() == 8 && !word.starts_with('<'));
    words.map(|word| u32::from_str_radix(word, 16).context("a dword")).collect()
}
