//! `cargo xtask chaos`: clients that go, dawdle, lie and crowd, against the program with a real model.
//!
//! Prints what came of each crowd, how long `/health` took meanwhile, what was left behind, and how long the end took
//! under load. Fails when something leaks, sticks or answers with a fault of the server; times are printed, and the
//! reader judges them.

mod clients;

use crate::load::server::{Kind, Running};
use crate::{http, model, process};
use anyhow::{Context as _, bail, ensure};
use clients::Crowd;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
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
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Threads that compute.
    #[arg(short, default_value_t = 2)]
    threads: usize,
}

/// Between two questions about health.
const PROBE: Duration = Duration::from_millis(20);

/// How long what was left behind may take to be gone.
const SETTLE: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    let program = process::program(arguments.program.as_ref())?;
    let file = model::file(&arguments.model)?;
    let server = Running::start(&Kind::Ours(program), &file, 4, 512, arguments.threads)?;
    let address = server.address();
    settled(address)?;
    let before = server.resources();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let prober = scope.spawn(|| probe(address, &over));
        let crowds = (1..=arguments.rounds).try_for_each(|round| {
            crowds(address, arguments)?;
            settled(address)?;
            println!("round {round}: resident {} MB", server.resources()[2] >> 20);
            Ok::<_, anyhow::Error>(())
        });
        over.store(true, Ordering::Relaxed);
        let mut times = prober.join().ok().context("the prober panicked")??;
        crowds?;
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] * 1e3;
        let (count, median, late, worst) = (times.len(), at(0.5), at(0.99), at(1.0));
        println!("/health: {count} times, p50 {median:.1} ms, p99 {late:.1} ms, at most {worst:.1} ms");
        Ok::<_, anyhow::Error>(())
    })?;
    let seconds = settled(address)?;
    let after = server.resources();
    println!("all places and pages free again after {seconds:.1} s");
    println!(
        "files {} -> {}, threads {} -> {}, resident {} -> {} MB",
        before[0],
        after[0],
        before[1],
        after[1],
        before[2] >> 20,
        after[2] >> 20
    );
    ensure!(after[0] <= before[0] + 8, "file descriptors leak");
    ensure!(after[1] <= before[1] + 16, "threads leak");
    let (status, _) = http::post(address, "/v1/chat/completions", &clients::question(4))?;
    ensure!(status == 200, "an honest question is answered with {status}");
    // the end under load: streams that would go on for long
    let _streams: Vec<_> = (0..16).map(|_| clients::open_stream(address)).collect::<Result<_, _>>()?;
    std::thread::sleep(Duration::from_secs(1));
    println!("SIGTERM with 16 streams: ended after {:.2} s", server.end()?.as_secs_f64());
    Ok(())
}

fn crowds(address: SocketAddr, arguments: &Arguments) -> Result<(), anyhow::Error> {
    let crowds = [
        Crowd { name: "disconnect at random", clients: arguments.goers, threads: 100, act: clients::go },
        Crowd { name: "read slowly", clients: 64, threads: 64, act: clients::dawdle },
        Crowd { name: "send broken bodies", clients: 500, threads: 20, act: clients::lie },
        Crowd { name: "send huge bodies", clients: 16, threads: 8, act: clients::swell },
        Crowd { name: "want to be queued", clients: arguments.queued, threads: 1000, act: clients::queue },
    ];
    for crowd in crowds {
        let start = Instant::now();
        let statuses = crowd.run(address);
        println!(
            "{} clients {}: {statuses:?} in {:.1} s",
            crowd.clients,
            crowd.name,
            start.elapsed().as_secs_f64()
        );
        if let Some((fault, _)) =
            statuses.iter().find(|(status, _)| (500..600).contains(status) && *status != 503)
        {
            bail!("an answer of {fault}");
        }
    }
    Ok(())
}

/// Seconds of each answer about health, until it is over.
fn probe(address: SocketAddr, over: &AtomicBool) -> Result<Vec<f64>, anyhow::Error> {
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        let (status, body) = http::get(address, "/health")?;
        ensure!(status == 200, "/health answers {status}: {body}");
        times.push(start.elapsed().as_secs_f64());
        std::thread::sleep(PROBE);
    }
    Ok(times)
}

/// Waits until nobody is served and no page is held; gives the seconds that took.
fn settled(address: SocketAddr) -> Result<f64, anyhow::Error> {
    let start = Instant::now();
    loop {
        let (_, body) = http::get(address, "/health")?;
        let health: Value = serde_json::from_str(&body)?;
        let (_, metrics) = http::get(address, "/metrics")?;
        let held = metrics.lines().find_map(|line| line.strip_prefix("vllm:gpu_cache_usage_perc "));
        let held =
            held.or_else(|| metrics.lines().find_map(|line| line.strip_prefix("vllm:kv_cache_usage_perc ")));
        let held: f64 = held.context("the share of pages that are held")?.trim().parse()?;
        if health["requests"] == json!({ "running": 0, "waiting": 0 }) && held == 0.0 {
            return Ok(start.elapsed().as_secs_f64());
        }
        ensure!(start.elapsed() < SETTLE, "somebody still holds a place: {body}, pages {held}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
