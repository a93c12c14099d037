//! Polls `/health` while something else runs, and in parallel a server that does nothing. The second figure is the
//! machine's share of the time.

use crate::http;
use anyhow::{Context as _, ensure};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(20);

/// Seconds that an answer of `/health` may take.
const LIMIT: f64 = 0.1;

/// Seconds of each answer.
pub(super) struct Probes {
    health: Vec<f64>,
    bare: Vec<f64>,
}

/// Polls until `act` has ended.
pub(super) fn during(
    address: SocketAddr,
    act: impl FnOnce() -> Result<(), anyhow::Error>,
) -> Result<Probes, anyhow::Error> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let bare = listener.local_addr()?;
    // ends with the process
    thread::spawn(move || answer(&listener));
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let [health, bare] = [address, bare].map(|address| scope.spawn(move || ask(address, over)));
        let acted = act();
        over.store(true, Ordering::Relaxed);
        let join =
            |asking: thread::ScopedJoinHandle<'_, _>| asking.join().ok().context("a prober panicked")?;
        let probes = Probes { health: join(health)?, bare: join(bare)? };
        acted.map(|()| probes)
    })
}

/// Answers every request alike with as little work as possible.
fn answer(listener: &TcpListener) {
    for mut connection in listener.incoming().flatten() {
        // if this fails, the client has disconnected
        _ = connection.read(&mut [0; 1024]);
        _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

fn ask(address: SocketAddr, over: &AtomicBool) -> Result<Vec<f64>, anyhow::Error> {
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        let (status, body) = http::get(address, "/health")?;
        ensure!(status == 200, "/health answers {status}: {body}");
        times.push(start.elapsed().as_secs_f64());
        thread::sleep(PAUSE);
    }
    Ok(times)
}

impl Probes {
    /// Prints the times, and fails if an answer of `/health` took too long, unless the bare server was as slow on this
    /// machine.
    pub(super) fn judge(mut self) -> Result<(), anyhow::Error> {
        let health = row("/health", &mut self.health);
        let bare = row("a bare server", &mut self.bare);
        ensure!(health <= LIMIT.max(2.0 * bare), "/health took {:.0} ms", health * 1e3);
        Ok(())
    }
}

/// Prints a row of times. Returns the longest.
fn row(name: &str, times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    let last = times.len().saturating_sub(1);
    let at = |share: f64| times.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    let [median, late, worst] = [0.5, 0.99, 1.0].map(|share| at(share) * 1e3);
    println!("{name}: {} times, p50 {median:.1} ms, p99 {late:.1} ms, at most {worst:.1} ms", times.len());
    worst / 1e3
}
