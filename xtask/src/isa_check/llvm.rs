//! LLVM's assembler and disassembler as judges: thousands of lines per call.

use anyhow::{Context, Result, bail};
use doorbell_isa::Target;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ASSEMBLER: &str = "llvm-mc-19";
const DISASSEMBLER: &str = "llvm-objdump-19";
const COMPILER: &str = "clang-19";

/// True if the tools can be started.
pub(super) fn is_installed() -> bool {
    [ASSEMBLER, DISASSEMBLER, COMPILER]
        .iter()
        .all(|tool| Command::new(tool).arg("--version").output().is_ok())
}

/// The assembler's result for one line.
pub(super) type Assembled = core::result::Result<Vec<u8>, String>;

/// A folder for the files exchanged with LLVM.
pub(super) struct Judge {
    folder: PathBuf,
}

impl Judge {
    /// Uses a folder, which is created.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { folder: folder.to_path_buf() })
    }

    fn run(&self, tool: &str, arguments: &[&str]) -> Result<Output> {
        let output = Command::new(tool).args(arguments).current_dir(&self.folder).output();
        output.with_context(|| format!("cannot start {tool}"))
    }

    /// Assembles each line on its own: bytes or the assembler's complaint.
    pub(super) fn assemble(&self, lines: &[String], target: Target) -> Result<Vec<Assembled>> {
        std::fs::write(self.folder.join("in.s"), lines.join("\n") + "\n")?;
        let cpu = format!("-mcpu={target}");
        let output = self.run(ASSEMBLER, &["-triple=amdgcn-amd-amdhsa", &cpu, "-show-encoding", "in.s"])?;
        let errors = complaints(&String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let mut encodings = text.lines().filter_map(encoding);
        let mut results = Vec::with_capacity(lines.len());
        for line in 1..=lines.len() {
            results.push(match errors.get(&line) {
                Some(error) => Err(error.clone()),
                None => Ok(encodings.next().context("the assembler printed too few encodings")?),
            });
        }
        if encodings.next().is_some() {
            bail!("the assembler printed too many encodings");
        }
        Ok(results)
    }

    /// Compiles an OpenCL C program and returns the disassembly of its code.
    pub(super) fn compile(&self, program: &Path, target: Target, level: &str) -> Result<String> {
        let cpu = format!("-mcpu={target}");
        let program = program.to_str().context("paths are UTF-8")?;
        let language = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-nogpulib"];
        let files = [level, &cpu, "-c", program, "-o", "program.o"];
        let output = self.run(COMPILER, &[&language[..], &files[..]].concat())?;
        if !output.status.success() {
            bail!("{COMPILER}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let output = self.run(DISASSEMBLER, &["-d", "program.o"])?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Disassembles instructions, each by itself at an address of its own.
    pub(super) fn disassemble(&self, codes: &[Vec<u32>], target: Target) -> Result<Vec<String>> {
        const SLOT: usize = 4;
        const NOP: u32 = 0xbf80_0000;
        let mut source = String::new();
        for code in codes {
            let padded = code.iter().copied().chain(core::iter::repeat(NOP)).take(SLOT);
            let words: Vec<String> = padded.map(|word| format!("{word}")).collect();
            source += &format!(".long {}\n", words.join(","));
        }
        std::fs::write(self.folder.join("bytes.s"), source)?;
        let cpu = format!("-mcpu={target}");
        let arguments = ["-triple=amdgcn-amd-amdhsa", &cpu, "-filetype=obj", "bytes.s", "-o", "bytes.o"];
        let output = self.run(ASSEMBLER, &arguments)?;
        if !output.status.success() {
            bail!("{ASSEMBLER}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let output = self.run(DISASSEMBLER, &["-d", "bytes.o"])?;
        let mut texts = vec![String::new(); codes.len()];
        for (address, text) in String::from_utf8_lossy(&output.stdout).lines().filter_map(disassembled) {
            if address % (4 * SLOT) == 0
                && let Some(slot) = texts.get_mut(address / (4 * SLOT))
            {
                *slot = text;
            }
        }
        Ok(texts)
    }
}

/// Error message by line number.
fn complaints(stderr: &str) -> HashMap<usize, String> {
    let mut errors = HashMap::new();
    for line in stderr.lines() {
        let Some(rest) = line.strip_prefix("in.s:") else { continue };
        let Some((number, rest)) = rest.split_once(':') else { continue };
        let (Ok(number), Some((_, message))) = (number.parse(), rest.split_once("error: ")) else { continue };
        errors.entry(number).or_insert_with(|| message.to_owned());
    }
    errors
}

/// Bytes of a line such as `v_nop ; encoding: [0x00,0x00,0x00,0x7e]`.
fn encoding(line: &str) -> Option<Vec<u8>> {
    let list = line.split_once("encoding: [")?.1.split_once(']')?.0;
    list.split(',').map(|byte| u8::from_str_radix(byte.trim().strip_prefix("0x")?, 16).ok()).collect()
}

/// Address and text of a disassembled line such as `\tv_nop    // 000000000000: 7E000000`.
pub(super) fn disassembled(line: &str) -> Option<(usize, String)> {
    let (text, comment) = line.rsplit_once("// ")?;
    let address = usize::from_str_radix(comment.split_once(':')?.0, 16).ok()?;
    Some((address, text.trim().to_owned()))
}
