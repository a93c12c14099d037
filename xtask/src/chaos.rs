//! `cargo xtask chaos`: clients that go, dawdle, idle, babble, lie and crowd, against the program with a real model.
//!
//! Prints what came of each crowd, how long `/health` took meanwhile, what was left behind, and how long the end took
//! under load. Fails when something leaks, sticks, answers with a fault of the server or takes too long.

mod clients;
mod probe;

use crate::load::server::{Kind, Running};
use crate::{http, model, process};
use anyhow::{Context as _, ensure};
use clients::{BROKEN, Crowd, GONE};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// What `cargo xtask chaos` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, by a name that `cargo xtask model` knows, or a path.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// The program [default: a release build made now].
    #[arg(long)]
    program: Option<PathBuf>,
    /// Clients that disconnect at random.
    #[arg(long, default_value_t = 1000)]
    goers: usize,
    /// Requests that want to be queued.
    #[arg(long, default_value_t = 10_000)]
    queued: usize,
    /// How often the crowds come.
    #[arg(long, default_value_t = ENOUGH + 1)]
    rounds: usize,
    /// Threads that compute.
    #[arg(short, default_value_t = 2)]
    threads: usize,
}

/// How long what was left behind may take to be gone.
const SETTLE: Duration = Duration::from_secs(60);

/// How long the end may take, with streams that would go on.
const END: Duration = Duration::from_secs(5);

/// Files that may be more than before, as the kernel has not closed them yet.
const SPARE_FILES: u64 = 8;
/// Threads that may be more than before, waiting for work.
const SPARE_THREADS: u64 = 16;

/// Connections that are open and idle all the while.
const IDLERS: usize = 300;

/// Resident bytes that a round may add. A leak of 400 bytes a client would be more.
const NOISE: u64 = 4 << 20;
/// Rounds behind the first by which memory is judged: of so many, some of either half are without a large body's rest.
const ENOUGH: usize = 8;

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    let program = process::program(arguments.program.as_ref())?;
    let file = model::file(&arguments.model)?;
    let server = Running::start(&Kind::Ours(program), &file, 4, 512, arguments.threads)?;
    let address = server.address();
    settled(&server, u64::MAX)?;
    let before = server.resources();
    let mut resident = Vec::new();
    let probes = probe::during(address, || {
        (1..=arguments.rounds).try_for_each(|round| {
            crowds(address, arguments)?;
            let seconds = settled(&server, before[0] + SPARE_FILES)?;
            let now = server.resources();
            println!(
                "round {round}: all places, pages and files free after {seconds:.1} s; files {} (before: {}), threads {} ({}), \
                 resident {:.1} MB ({:.1})",
                now[0], before[0], now[1], before[1], megabytes(now[2]), megabytes(before[2]),
            );
            ensure!(now[1] <= before[1] + SPARE_THREADS, "threads leak");
            resident.push(now[2]);
            Ok(())
        })
    })?;
    probes.judge()?;
    judge_memory(&resident)?;
    let (status, _) = http::post(address, "/v1/chat/completions", &clients::question(4))?;
    ensure!(status == 200, "an honest question is answered with {status}");
    // the end under load: streams that would go on for long
    let _streams: Vec<_> = (0..16).map(|_| clients::open_stream(address)).collect::<Result<_, _>>()?;
    std::thread::sleep(Duration::from_secs(1));
    let ending = server.end()?;
    println!("SIGTERM with 16 streams: ended after {:.2} s", ending.as_secs_f64());
    ensure!(ending <= END, "the end takes longer than {} s", END.as_secs());
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Fails if later rounds leave more memory than earlier ones. The first only fills what stays. Of the others the least
/// counts: what large bodies leave with the allocator differs from round to round by tens of megabytes.
fn judge_memory(resident: &[u64]) -> Result<(), anyhow::Error> {
    let rounds = resident.get(1..).filter(|rounds| rounds.len() >= ENOUGH).unwrap_or_default();
    let (early, late) = rounds.split_at(rounds.len() / 2);
    let (Some(early), Some(late)) = (early.iter().min(), late.iter().min()) else {
        println!("memory: too few rounds to tell");
        return Ok(());
    };
    let growth = late.saturating_sub(*early) / (rounds.len() as u64).div_ceil(2);
    println!("memory: {:.2} MB more a round", megabytes(growth));
    ensure!(growth <= NOISE, "memory leaks: {resident:?} bytes after each round");
    Ok(())
}

fn crowds(address: SocketAddr, arguments: &Arguments) -> Result<(), anyhow::Error> {
    let crowds = [
        Crowd::new("disconnect at random", arguments.goers, 100, clients::go, &[GONE, 200, 429]),
        Crowd::new("read slowly", 64, 64, clients::dawdle, &[GONE, 200, 429]),
        Crowd::new("send broken bodies", 500, 20, clients::lie, &[400]),
        Crowd::new("babble", 200, 20, clients::babble, &[GONE, BROKEN, 200, 400, 431]),
        Crowd::new("send huge bodies", 16, 8, clients::swell, &[BROKEN, 413, 429]),
        Crowd::new("want to be queued", arguments.queued, 1000, clients::queue, &[200, 429]),
    ];
    let _idlers = clients::idlers(address, IDLERS)?;
    for crowd in crowds {
        let start = Instant::now();
        let statuses = crowd.run(address);
        println!(
            "{} clients {}: {statuses:?} in {:.1} s",
            crowd.clients,
            crowd.name,
            start.elapsed().as_secs_f64()
        );
        let fault = statuses.iter().find(|(status, _)| !crowd.statuses.contains(status));
        ensure!(fault.is_none(), "answers that must not be: {fault:?}");
    }
    Ok(())
}

/// Waits until nobody is served, no page is held and no more than so many files are open; gives the seconds that took.
fn settled(server: &Running, files: u64) -> Result<f64, anyhow::Error> {
    let address = server.address();
    let start = Instant::now();
    loop {
        let (_, body) = http::get(address, "/health")?;
        let health: Value = serde_json::from_str(&body)?;
        let (_, metrics) = http::get(address, "/metrics")?;
        let held = metrics.lines().find(|line| line.starts_with("vllm:kv_cache_usage_perc"));
        let held = held.and_then(|line| line.rsplit_once(' ')).context("the share of pages that are held")?;
        let held: f64 = held.1.parse()?;
        let idle = health["requests"] == json!({ "running": 0, "waiting": 0 }) && held == 0.0;
        let open = server.resources()[0];
        if idle && open <= files {
            return Ok(start.elapsed().as_secs_f64());
        }
        ensure!(start.elapsed() < SETTLE, "somebody still holds a place: {body}, pages {held}, files {open}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
