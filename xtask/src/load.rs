//! `cargo xtask load`: the server under concurrent streams, in turns with llama-server when its path is given.
//!
//! Every run starts a server of its own, so that neither has the other's company; rounds alternate, so that a
//! neighbour on the machine disturbs both alike. Not here: correctness under abuse, which is `chaos`.

mod figures;
pub(crate) mod server;
mod streams;
mod transcript;

use crate::{http, model, process};
use figures::Figures;
use server::{Kind, Running};
use std::path::PathBuf;

/// What `cargo xtask load` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, by a name that `cargo xtask model` knows, or a path.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// The program [default: a release build made now].
    #[arg(long)]
    program: Option<PathBuf>,
    /// A llama-server to measure against.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Numbers of concurrent streams.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16")]
    streams: Vec<usize>,
    /// Seconds of each run.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Rounds; in each, every contestant runs once per number of streams.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Tokens that each answer has.
    #[arg(short = 'n', default_value_t = 128)]
    generate: usize,
    /// Threads that compute.
    #[arg(short, default_value_t = 2)]
    threads: usize,
    /// Turns of the agent's transcript; 0 leaves it out.
    #[arg(long, default_value_t = 16)]
    turns: usize,
}

/// Tokens of context per stream: enough for a prompt and its answer.
const STREAM_CONTEXT: usize = 1024;

/// Tokens of context for the transcript.
const TRANSCRIPT_CONTEXT: usize = 8192;

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    let program = process::program(arguments.program.as_ref())?;
    let file = model::file(&arguments.model)?;
    let mut kinds = vec![Kind::Ours(program)];
    kinds.extend(arguments.peer.clone().map(Kind::Peer));
    println!("{}", figures::HEADER);
    let mut rates = vec![Vec::new(); kinds.len()];
    for &streams in &arguments.streams {
        let mut all: Vec<Figures> = kinds.iter().map(|_| Figures::default()).collect();
        for round in 1..=arguments.rounds {
            eprintln!("{streams} streams: round {round} of {}", arguments.rounds);
            for (kind, figures) in kinds.iter().zip(&mut all) {
                let server = Running::start(kind, &file, streams, STREAM_CONTEXT, arguments.threads)?;
                let run = streams::Task { streams, seconds: arguments.seconds, generate: arguments.generate };
                streams::measure(&server, &run, figures)?;
                figures.endings.push(server.end()?);
            }
        }
        for ((kind, figures), rates) in kinds.iter().zip(&mut all).zip(&mut rates) {
            println!("{}", figures.row(kind.name(), streams));
            rates.push(figures.rate());
        }
        if let [ours, peer] = rates.as_slice() {
            let ratio = ours.last().zip(peer.last()).map_or(f64::NAN, |(ours, peer)| ours / peer);
            println!("tokens per second at {streams}: {ratio:.2} times the peer's");
        }
    }
    if arguments.turns > 0 {
        for kind in &kinds {
            let server = Running::start(kind, &file, 1, TRANSCRIPT_CONTEXT, arguments.threads)?;
            println!("{}: {}", kind.name(), transcript::play(server.address(), arguments.turns)?);
            server.end()?;
        }
    }
    Ok(())
}

/// A body of words that differ from seed to seed, so that no two prompts share a prefix.
fn words(seed: u64, count: usize) -> String {
    const WORDS: [&str; 16] = [
        "river", "copper", "seven", "window", "garden", "slowly", "engine", "letter", "under", "bright",
        "paper", "market", "winter", "stone", "signal", "quiet",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let word = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        WORDS[(state >> 60) as usize]
    };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}
