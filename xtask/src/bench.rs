//! `cargo xtask bench`: measures the program's speed and memory, in turns with llama-bench if its path is given.
//!
//! Both run as a user would run them; the program's own `bench` verb does the timing. Rounds alternate, so that other
//! load on the machine affects both, and medians are compared.

mod child;
mod ours;
mod peer;
mod report;

use crate::{model, process};
use std::path::PathBuf;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Models, by names that `cargo xtask model` knows, or paths.
    #[arg(long, value_delimiter = ',', default_value = "smollm2,gemma3-270m")]
    models: Vec<String>,
    /// A llama-bench to measure against.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Rounds; each program runs once in each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Repetitions within a run.
    #[arg(short, default_value_t = 3)]
    repetitions: usize,
    /// Prompt tokens.
    #[arg(short, default_value_t = 512)]
    prompt: usize,
    /// Generated tokens.
    #[arg(short = 'n', default_value_t = 128)]
    generate: usize,
    /// Threads.
    #[arg(short, default_value_t = 2)]
    threads: usize,
}

/// The measurement that both programs do.
struct Task {
    model: PathBuf,
    prompt: usize,
    generate: usize,
    repetitions: usize,
    threads: usize,
}

impl Task {
    /// Arguments that both programs share.
    fn numbers(&self) -> [String; 8] {
        let pairs =
            [("-p", self.prompt), ("-n", self.generate), ("-r", self.repetitions), ("-t", self.threads)];
        let [a, b, c, d] = pairs.map(|(flag, number)| [flag.to_string(), number.to_string()]);
        let [[a0, a1], [b0, b1], [c0, c1], [d0, d1]] = [a, b, c, d];
        [a0, a1, b0, b1, c0, c1, d0, d1]
    }
}

/// All samples of one phase of one program, in tokens per second.
#[derive(Clone, Debug, Default)]
struct Phase {
    samples: Vec<f64>,
}

/// Figures of one program over all rounds.
#[derive(Clone, Debug, Default)]
struct Contestant {
    prompt: Phase,
    generate: Phase,
    /// Peak resident bytes, the largest of all runs.
    peak_rss: u64,
    /// Seconds of processor time and of wall time, summed over all runs.
    processor: f64,
    wall: f64,
}

impl Phase {
    fn median(&self) -> f64 {
        let mut samples = self.samples.clone();
        samples.sort_by(f64::total_cmp);
        let middle = samples.len() / 2;
        match samples.len() {
            0 => f64::NAN,
            len if len % 2 == 1 => samples[middle],
            _ => f64::midpoint(samples[middle - 1], samples[middle]),
        }
    }
}

impl Contestant {
    fn add(&mut self, run: &child::Run, prompt: Vec<f64>, generate: Vec<f64>) {
        self.prompt.samples.extend(prompt);
        self.generate.samples.extend(generate);
        self.peak_rss = self.peak_rss.max(run.peak_rss);
        self.processor += run.processor;
        self.wall += run.wall;
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    let program = process::program(None)?;
    for name in &arguments.models {
        let task = Task {
            model: model::file(name)?,
            prompt: arguments.prompt,
            generate: arguments.generate,
            repetitions: arguments.repetitions,
            threads: arguments.threads,
        };
        let mut own = ours::Measured::default();
        let mut peers = [Contestant::default(), Contestant::default()];
        for round in 1..=arguments.rounds {
            eprintln!("{name}: round {round} of {}", arguments.rounds);
            ours::measure(&program, &task, &mut own)?;
            if let Some(peer) = &arguments.peer {
                for (repack, contestant) in [false, true].into_iter().zip(&mut peers) {
                    peer::measure(peer, &task, repack, contestant)?;
                }
            }
        }
        let peers = arguments.peer.is_some().then_some(&peers);
        print!("{}", report::table(name, &task, &own, peers)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        let median = |samples: &[f64]| Phase { samples: samples.to_vec() }.median();
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
