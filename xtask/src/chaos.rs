//! `cargo xtask chaos`: runs misbehaving clients against the program with a real model.
//!
//! Prints the statuses that each group of clients got, the times of `/health` meanwhile, what was left behind, and how
//! long the shutdown took under load. Fails if something leaks, hangs, answers with a server fault or takes too long.

mod clients;
mod probe;

use crate::load::server::{Kind, Running};
use crate::{http, model, process};
use anyhow::{Context as _, ensure};
use clients::{BROKEN, Crowd, NO_STATUS};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `cargo xtask chaos`.
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
    disconnecting: usize,
    /// Requests that wait in the queue.
    #[arg(long, default_value_t = 10_000)]
    queued: usize,
    /// Number of rounds.
    #[arg(long, default_value_t = ENOUGH + 1)]
    rounds: usize,
    /// Threads that compute.
    #[arg(short, default_value_t = 2)]
    threads: usize,
}

/// Time limit for slots, pages and files to be released.
const SETTLE: Duration = Duration::from_secs(60);

/// Time limit of the shutdown, with streams still open.
const END: Duration = Duration::from_secs(5);

/// Additional open files that are allowed, since the kernel closes some late.
const SPARE_FILES: u64 = 8;
/// Additional threads that are allowed, waiting for work.
const SPARE_THREADS: u64 = 16;

/// Connections that stay open and idle.
const IDLE_CONNECTIONS: usize = 300;

/// Resident bytes that a round may add. A leak of 400 bytes per client would add more.
const NOISE: u64 = 4 << 20;
/// Least number of rounds after the first for a verdict on memory: then some rounds of each half are free of the
/// remains of large bodies.
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
                "round {round}: all slots, pages and files free after {seconds:.1} s; files {} (before: {}), threads {} ({}), \
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
    // shutdown under load: streams that would go on for long
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

/// Fails if later rounds leave more memory than earlier ones. The first round fills caches and is not counted. The minimum
/// of each half is compared, since the memory that large bodies leave in the allocator varies by tens of megabytes.
fn judge_memory(resident: &[u64]) -> Result<(), anyhow::Error> {
    let rounds = resident.get(1..).filter(|rounds| rounds.len() >= ENOUGH).unwrap_or_default();
    let (early, late) = rounds.split_at(rounds.len() / 2);
    let (Some(early), Some(late)) = (early.iter().min(), late.iter().min()) else {
        println!("memory: too few rounds for a verdict");
        return Ok(());
    };
    let growth = late.saturating_sub(*early) / (rounds.len() as u64).div_ceil(2);
    println!("memory: {:.2} MB more a round", megabytes(growth));
    ensure!(growth <= NOISE, "memory leaks: {resident:?} bytes after each round");
    Ok(())
}

fn crowds(address: SocketAddr, arguments: &Arguments) -> Result<(), anyhow::Error> {
    let crowds = [
        Crowd::new(
            "disconnect at random",
            arguments.disconnecting,
            100,
            clients::disconnect,
            &[NO_STATUS, 200, 429],
        ),
        Crowd::new("read slowly", 64, 64, clients::read_slowly, &[NO_STATUS, 200, 429]),
        Crowd::new("send broken bodies", 500, 20, clients::send_broken_bodies, &[400]),
        Crowd::new(
            "send other protocols",
            200,
            20,
            clients::send_other_protocols,
            &[NO_STATUS, BROKEN, 200, 400, 431],
        ),
        Crowd::new("send huge bodies", 16, 8, clients::send_huge_bodies, &[BROKEN, 413, 429]),
        Crowd::new("wait in the queue", arguments.queued, 1000, clients::wait_in_queue, &[200, 429]),
    ];
    let _idle = clients::idle_connections(address, IDLE_CONNECTIONS)?;
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
        ensure!(fault.is_none(), "unexpected statuses: {fault:?}");
    }
    Ok(())
}

/// Waits until no request runs, no page is held and at most `files` files are open. Returns the seconds it took.
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
        ensure!(start.elapsed() < SETTLE, "a slot is still in use: {body}, pages {held}, files {open}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
