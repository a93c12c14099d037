//! `doorbell bench`: prompt and generation speed, measured as by llama-bench.

mod profile;

use self::profile::Phase;
use super::plan::bytes_per_token;
use crate::device_args::DeviceArgs;
use crate::failure::{Failure, Kind};
use crate::generate::{self, BATCH_ROWS, Generator, Params};
use crate::interrupt::Interrupt;
use crate::loaded::{self, HEAP};
use crate::output::{print, print_json};
use doorbell_core::backend::Backend;
use doorbell_core::engine::{Config, FinishReason};
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::TokenId;
use doorbell_runtime::backend::{AnyBackend, read_bandwidth};
use doorbell_runtime::device::Device;
use doorbell_runtime::memory::peak_resident;
use doorbell_runtime::timings::RequestTimings;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file
    model: PathBuf,
    /// Tokens of the prompt test; 0 skips it
    #[arg(short, long, value_name = "N", default_value_t = 512)]
    prompt: u16,
    /// Tokens of the generation test; 0 skips it
    #[arg(short = 'n', value_name = "N", default_value_t = 128)]
    generate: u16,
    /// Repetitions of each test, after a warm-up run
    #[arg(short, long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    #[command(flatten)]
    device: DeviceArgs,
    /// Instead of rates show the time of each kernel, for one run of each test; a GPU measures, a software GPU models
    #[arg(long)]
    profile: bool,
    /// Also write a trace of the kernels for Chrome and Perfetto
    #[arg(long, value_name = "FILE", requires = "profile")]
    trace: Option<PathBuf>,
    /// Print one JSON document: pp, tg, bandwidth; or profile
    #[arg(long)]
    json: bool,
}

/// Rates of one test in tokens per second.
struct Rates(Vec<f64>);

impl Rates {
    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// The sample standard deviation; 0 for one repetition.
    fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|rate| (rate - mean).powi(2)).sum();
        (squares / (self.0.len().max(2) - 1) as f64).sqrt()
    }

    fn json(&self, tokens: u16) -> Value {
        json!({
            "tokens": tokens,
            "tokens_per_second": self.mean(),
            "deviation": self.deviation(),
            "repetitions": self.0,
        })
    }

    fn line(&self, name: &str, tokens: u16) -> String {
        format!("{name}{tokens:<6} {:>10.2} +- {:.2} tok/s", self.mean(), self.deviation())
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.prompt == 0 && arguments.generate == 0 {
        return Err(Failure::new(Kind::Input, "nothing to measure: -p and -n are 0; give one of them"));
    }
    let mut resolved = arguments.device.resolve()?;
    resolved.profile = arguments.profile;
    if arguments.profile && resolved.device == Device::Cpu {
        let reason = "the CPU has no timed kernels; use --device kfd or soft";
        return Err(Failure::new(Kind::Input, reason));
    }
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let model = loaded::bind(&file, &gguf)?;
    let tokenizer = loaded::tokenizer(&file, &gguf)?;
    let plan = model.plan(Shape { rows: 1, outputs: 1 }, HeadResult::Logits, HEAP);
    let per_token = bytes_per_token(&model, &plan.map_err(|error| Failure::new(Kind::Memory, error))?.ops);
    loaded::read_ahead(&file)?;
    let context = u32::from(arguments.prompt.max(arguments.generate)) + 2;
    let config = Config::new(context, 1, BATCH_ROWS);
    let mut generator = generate::generator(&model, &tokenizer, config, resolved, Interrupt::install()?)?;
    if arguments.profile {
        return profiled(arguments, &mut generator, model.vocabulary, &resolved.device.to_string());
    }
    let mut test = |prompt: u16, generated: u16| -> Result<Rates, Failure> {
        let tokens = |repetition| tokens(prompt, repetition, model.vocabulary);
        measure(&mut generator, &tokens, generated, arguments.repetitions).map(Rates)
    };
    let pp = (arguments.prompt > 0).then(|| test(arguments.prompt, 0)).transpose()?;
    let tg = (arguments.generate > 0).then(|| test(1, arguments.generate)).transpose()?;
    // only the host's memory bandwidth is measured here
    let read = (resolved.device == Device::Cpu).then(|| read_bandwidth(resolved.threads));
    let used = tg.as_ref().map(|tg| tg.mean() * per_token as f64);
    if arguments.json {
        return print_json(&json!({
            "pp": pp.map(|pp| pp.json(arguments.prompt)),
            "tg": tg.map(|tg| tg.json(arguments.generate)),
            "bytes_per_token": per_token,
            "weight_bytes_per_second": used,
            "read_bytes_per_second": read,
            "read_share": used.zip(read).map(|(used, read)| used / read),
            "device": resolved.device.to_string(),
            "threads": resolved.threads,
            "peak_resident_bytes": peak_resident(),
        }));
    }
    let mut lines: Vec<_> = pp.map(|pp| pp.line("pp", arguments.prompt)).into_iter().collect();
    lines.extend(tg.map(|tg| tg.line("tg", arguments.generate)));
    if let Some((used, read)) = used.zip(read) {
        let (used, read) = (used / 1e9, read / 1e9);
        let share = used / read * 100.0;
        lines.push(format!(
            "weights  {used:>10.2} GB/s, {share:.0} % of the {read:.2} GB/s that reading alone reaches"
        ));
    }
    lines.push(format!("device {}, {} threads", resolved.device, resolved.threads));
    print(lines.join("\n") + "\n")
}

/// A prompt. Its first token differs for each repetition, so that the engine doesn't find it in its prefix cache.
fn tokens(prompt: u16, repetition: u16, vocabulary: u32) -> Vec<TokenId> {
    let numbers = (0..u32::from(prompt)).map(|i| mixed(i + u32::from(repetition)));
    numbers.map(|number| TokenId(number % vocabulary)).collect()
}

/// Prints the times of the kernels of each test, after a warm-up run.
fn profiled(
    arguments: &Arguments,
    generator: &mut Generator<'_, '_, AnyBackend<'_, '_>>,
    vocabulary: u32,
    device: &str,
) -> Result<(), Failure> {
    let mut phases = Vec::new();
    let tests =
        [("pp", arguments.prompt, 0, arguments.prompt), ("tg", 1, arguments.generate, arguments.generate)];
    for (name, prompt, generated, count) in tests {
        if count == 0 {
            continue;
        }
        let tokens = |repetition| tokens(prompt, repetition, vocabulary);
        measure(generator, &tokens, generated, 0)?;
        let _ = generator.backend().take_timings();
        measure(generator, &|_| tokens(1), generated, 0)?;
        let timings = generator.backend().take_timings();
        phases.push(Phase { name: format!("{name}{count}"), timings });
    }
    if let Some(path) = &arguments.trace {
        profile::write_trace(path, &phases, device)?;
    }
    profile::print_times(&phases, device, arguments.json)
}

/// A fixed pseudorandom sequence of token numbers.
fn mixed(index: u32) -> u32 {
    (index.wrapping_mul(2_654_435_761) ^ 0x5bd1_e995).rotate_left(13)
}

/// Tokens per second of each repetition: of the prompt, or of `generated` tokens after it if there are any.
fn measure<B: Backend>(
    generator: &mut Generator<'_, '_, B>,
    prompt: &dyn Fn(u16) -> Vec<TokenId>,
    generated: u16,
    repetitions: u16,
) -> Result<Vec<f64>, Failure> {
    let params = Params {
        // the first token comes with the prompt
        max_tokens: u32::from(generated) + 1,
        sampler: SamplerParams::greedy(),
        ignore_end: true,
        ..Params::default()
    };
    let mut rates = Vec::new();
    for repetition in 0..=repetitions {
        let prompt = prompt(repetition);
        let answer = generator.run(&prompt, &params, false, &mut |_| Ok(()))?;
        match answer.reason {
            FinishReason::Cancelled => return Err(Failure::silent(Kind::Interrupted)),
            FinishReason::Sampling(error) => return Err(Failure::new(Kind::Internal, error)),
            _ => {}
        }
        let timings = RequestTimings::new(&answer.usage);
        let rate = if generated == 0 { timings.prefill_rate() } else { timings.decode_rate() };
        if repetition > 0 {
            rates.push(rate);
        }
    }
    Ok(rates)
}
