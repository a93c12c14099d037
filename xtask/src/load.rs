//! `cargo xtask load`: measures the server under concurrent streams, in turns with llama-server if its path is given.
//!
//! A bare socket that writes in the server's rhythm shows which part of a token's cost is the system's. Every run starts a
//! server of its own; rounds alternate, so that other load on the machine affects both. Not here: correctness under abuse
//! (`chaos`).

pub(crate) mod bare;
mod figures;
pub(crate) mod server;
mod streams;
mod transcript;

use crate::{http, model, process};
use figures::Figures;
use server::{Kind, Running};
use std::path::{Path, PathBuf};

/// Arguments of `cargo xtask load`.
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
    /// Rounds; each server runs once per number of streams in each.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Tokens per answer.
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
    let ours = Kind::Ours(process::program(arguments.program.as_ref())?);
    let peer = arguments.peer.clone().map(Kind::Peer);
    let file = model::file(&arguments.model)?;
    println!("{}", figures::HEADER);
    for &streams in &arguments.streams {
        contest(arguments, &ours, peer.as_ref(), &file, streams)?;
    }
    for kind in [Some(&ours), peer.as_ref()].into_iter().flatten().filter(|_| arguments.turns > 0) {
        let server = Running::start(kind, &file, 1, TRANSCRIPT_CONTEXT, arguments.threads)?;
        println!("{}: {}", kind.name(), transcript::play(server.address(), arguments.turns)?);
        server.end()?;
    }
    Ok(())
}

/// All rounds with one number of streams.
fn contest(
    arguments: &Arguments,
    ours: &Kind,
    peer: Option<&Kind>,
    file: &Path,
    streams: usize,
) -> Result<(), anyhow::Error> {
    let measure = |kind: &Kind, figures: &mut Figures| {
        let server = Running::start(kind, file, streams, STREAM_CONTEXT, arguments.threads)?;
        let run = streams::Task { streams, seconds: arguments.seconds, generate: arguments.generate };
        streams::measure(&server, &run, figures)?;
        figures.endings.push(server.end()?);
        Ok::<_, anyhow::Error>(())
    };
    let [mut own, mut bare, mut peers] = [(); 3].map(|()| Figures::default());
    for round in 1..=arguments.rounds {
        eprintln!("{streams} streams: round {round} of {}", arguments.rounds);
        measure(ours, &mut own)?;
        measure(&Kind::Bare(own.rhythm(arguments.generate)), &mut bare)?;
        peer.map_or(Ok(()), |peer| measure(peer, &mut peers))?;
    }
    println!("{}\n{}", own.row("doorbell", streams), bare.row("bare socket", streams));
    println!("HTTP at {streams}: {:.1} us a token over a bare socket", own.socket() - bare.socket());
    if let Some(peer) = peer {
        println!("{}", peers.row(peer.name(), streams));
        println!("tokens per second at {streams}: {:.2} times the peer's", own.rate() / peers.rate());
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
