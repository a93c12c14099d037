//! `cargo xtask nostd`: builds and runs the program without std and libc, and compares its output and its decoded defmt
//! log with the engine on the host. What the program shows is described in `tests/nostd`.

use crate::process::{cargo, command, execute, root};
use anyhow::{Context as _, bail, ensure};
use doorbell_core::backend::KvType;
use doorbell_core::engine::{Config, Engine, Event, GenerationParams, Nanos, Progress, Request, RequestId};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::{EncodeOptions, Tokenizer};
use doorbell_cpu::backend::CpuBackend;
use doorbell_tests::tiny;
use std::fs::File;
use std::process::Command;

const MANIFEST: &str = "tests/nostd/Cargo.toml";
const PROGRAM: &str = "doorbell-nostd";
const DECODER: &str = "doorbell-nostd-decode";
const HEAP: Heap<'static> = &Global;

/// The request of `tests/nostd/src/answer.rs`.
const PROMPT: &str = "how many people would write";
const TOKENS: u32 = 24;

/// Allowed relative difference between peak and prediction.
const TOLERANCE: f64 = 0.02;

pub(crate) fn run() -> Result<(), anyhow::Error> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        eprintln!("the program without std starts on x86-64 Linux only: skipped");
        return Ok(());
    }
    let target = root().join("target/nostd");
    // One package at a time; together they would share features.
    for (verb, package) in [("clippy", PROGRAM), ("build", PROGRAM), ("build", DECODER)] {
        let mut command = cargo([verb, "--release", "--quiet", "--package", package]);
        command.args(["--manifest-path", MANIFEST, "--target-dir"]).arg(&target);
        if verb == "clippy" {
            command.args(["--", "-D", "warnings"]);
        }
        execute(&mut command)?;
    }
    let program = target.join("release").join(PROGRAM);
    let frames = target.join("frames");
    let printed = text(command(&program, [""; 0]).stderr(File::create(&frames)?))?;
    let report = Report::read(&printed).with_context(|| format!("the program printed:\n{printed}"))?;
    let expected = host()?;
    report.check(&expected).with_context(|| format!("the program printed:\n{printed}"))?;
    let decoder = target.join("release").join(DECODER);
    let log = text(command(decoder, [&program]).stdin(File::open(&frames)?))?;
    check_log(&log, &expected).with_context(|| format!("the program logged:\n{log}"))?;
    let size = std::fs::metadata(&program)?.len();
    for answer in &report.answers {
        println!(
            "nostd: {}: {} tokens equal, {} allocations for them, peak {} bytes ({} predicted)",
            answer.instructions,
            answer.tokens.len(),
            answer.allocations,
            answer.peak,
            answer.predicted
        );
    }
    println!(
        "nostd: program {} KiB of which the model {} KiB; too small a heap: {}",
        size / 1024,
        tiny::embedded().len() / 1024,
        report.refusal
    );
    Ok(())
}

/// Standard output of a program.
fn text(command: &mut Command) -> Result<String, anyhow::Error> {
    let output = command.output().with_context(|| format!("start {:?}", command.get_program()))?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{:?}: {}\n{text}", command.get_program(), output.status);
    Ok(text)
}

/// Checks the decoded defmt log: each event of the request, and the refusal.
fn check_log(log: &str, tokens: &[u32]) -> Result<(), anyhow::Error> {
    let has = |line: String| log.lines().any(|known| known == line);
    for token in tokens {
        let line = format!("info Token {{ request: RequestId(1), token: TokenId({token}), logprobs: None }}");
        ensure!(has(line.clone()), "missing: {line}");
    }
    ensure!(log.contains("info Prefill { request: RequestId(1), done: "), "no progress of the prompt");
    ensure!(log.contains("info Finished { request: RequestId(1), reason: MaxTokens, usage: "), "no end");
    let refused =
        |line: &str| line.starts_with("error no answer: ") && line.contains("OutOfMemory { bytes: ");
    ensure!(log.lines().any(refused), "no refusal");
    Ok(())
}

/// The answer by one instruction set.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    instructions: String,
    tokens: Vec<u32>,
    allocations: u64,
    peak: u64,
    predicted: u64,
}

/// Output of the program.
#[derive(Debug, Default, PartialEq)]
struct Report {
    /// Slowest instruction set first.
    answers: Vec<Answer>,
    /// Differences of the driver's products from core's, by instruction set.
    kernels: Vec<f64>,
    refusal: String,
}

impl Report {
    fn read(text: &str) -> Result<Self, anyhow::Error> {
        let mut report = Self::default();
        let mut answer = Answer::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["instructions", name] => answer.instructions = name.into(),
                ["token", id] => answer.tokens.push(id.parse()?),
                ["allocations", _, "before", "tokens,", count, ..] => answer.allocations = count.parse()?,
                ["peak", peak, "predicted", predicted, ..] => {
                    (answer.peak, answer.predicted) = (peak.parse()?, predicted.parse()?);
                    report.answers.push(core::mem::take(&mut answer));
                }
                ["kernels", .., difference] => report.kernels.push(difference.parse()?),
                ["refused", ..] => report.refusal = words[1..].join(" "),
                ["prompt", _] => {}
                _ => bail!("an unexpected line: {line}"),
            }
        }
        Ok(report)
    }

    fn check(&self, expected: &[u32]) -> Result<(), anyhow::Error> {
        ensure!(self.answers.len() == self.kernels.len(), "an answer is missing");
        for Answer { instructions, tokens, allocations, peak, predicted } in &self.answers {
            ensure!(tokens == expected, "{instructions}: the tokens differ from the host's: {expected:?}");
            ensure!(*allocations == 0, "{instructions}: {allocations} allocations for tokens");
            let error = *peak as f64 / *predicted as f64 - 1.0;
            ensure!(
                error.abs() <= TOLERANCE,
                "{instructions}: the peak is {:+.2} % from the prediction",
                error * 100.0
            );
        }
        ensure!(self.refusal.starts_with("out of memory"), "too small a heap was not refused");
        ensure!(
            !self.kernels.is_empty() && self.kernels.iter().all(|error| *error < 5e-5),
            "the kernels err"
        );
        Ok(())
    }
}

/// Tokens of the engine on the host, set up as by `doorbell run`: all threads and the best instruction set.
fn host() -> Result<Vec<u32>, anyhow::Error> {
    let file = tiny::embedded();
    let gguf = Gguf::parse(&file, HEAP)?;
    let tokenizer = Tokenizer::new(&gguf, HEAP)?;
    let model = Model::new(&gguf, HEAP)?;
    let mut prompt = heap::Vec::new_in(HEAP);
    tokenizer.encode(PROMPT, EncodeOptions::default(), &mut prompt)?;
    let config = Config::new(model.hparams.context, 1, 64);
    let threads = std::thread::available_parallelism().map_or(1, core::num::NonZeroUsize::get);
    let backend = CpuBackend::new(&model, config.kv_pages(&model), KvType::F16, threads, HEAP)?;
    let mut engine = Engine::new(&model, backend, config, &[], HEAP)?;
    let sampler = SamplerParams::greedy();
    let id = RequestId(1);
    let request = Request {
        id,
        prompt: &prompt,
        params: GenerationParams {
            max_tokens: TOKENS,
            sampler: sampler.clone(),
            ignore_end: true,
            ..GenerationParams::default()
        },
    };
    engine.submit(&request, Nanos(0))?;
    let mut tokens = Vec::new();
    let mut events = |event: Event<'_>| {
        if let Event::Token { token, .. } = event {
            tokens.push(token.0);
        }
    };
    while engine.poll(Nanos(0), &mut events)? != Progress::Idle {}
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "instructions portable\nprompt 7\ntoken 92\ntoken 5\nallocations 108 before tokens, 0 for tokens\n\
        peak 100 predicted 101 array 1048576\nkernels Isa(Portable) 8.2e-8\n\
        refused out of memory: 65536 bytes refused array 65536\n";

    #[test]
    fn what_the_program_prints_is_checked() {
        let report = Report::read(TEXT).unwrap();
        assert!(report.check(&[92, 5]).is_ok());
        for (what, instead) in [
            ("token 5", "token 6"),
            (", 0 for", ", 1 for"),
            ("peak 100", "peak 95"),
            ("out of memory", "panic"),
            ("8.2e-8", "8.2e-2"),
        ] {
            assert!(Report::read(&TEXT.replace(what, instead)).unwrap().check(&[92, 5]).is_err(), "{what}");
        }
        assert!(Report::read("panic at").is_err());
    }
}
