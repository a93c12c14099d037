//! Concurrent streams: each sends a request, reads the answer, and repeats until the time is up.

use super::figures::Figures;
use super::server::Running;
use super::{http, words};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use serde_json::{Value, json};
use std::time::Instant;

/// Number of streams, duration, length of answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) streams: usize,
    pub(super) seconds: u64,
    pub(super) generate: usize,
}

/// Words of each prompt.
const PROMPT_WORDS: usize = 100;

/// Samples of one stream.
#[derive(Default)]
struct Seen {
    tokens: u64,
    bytes: u64,
    first: Vec<f64>,
    between: Vec<f64>,
}

/// Runs the streams and adds their samples.
pub(super) fn measure(server: &Running, task: &Task, figures: &mut Figures) -> Result<(), anyhow::Error> {
    let address = server.address();
    let seeds = AtomicU64::new(1);
    // work that happens once is then done
    ask(address, &seeds, task.generate, Instant::now() + Duration::from_secs(60), &mut Seen::default())?;
    let before = server.processor();
    let start = Instant::now();
    let end = start + Duration::from_secs(task.seconds);
    let all: Vec<Result<Seen, anyhow::Error>> = std::thread::scope(|scope| {
        let stream = |_| {
            scope.spawn(|| {
                let mut seen = Seen::default();
                while Instant::now() < end {
                    ask(address, &seeds, task.generate, end, &mut seen)?;
                }
                Ok(seen)
            })
        };
        let streams: Vec<_> = (0..task.streams).map(stream).collect();
        let join = |stream: std::thread::ScopedJoinHandle<'_, Result<Seen, anyhow::Error>>| {
            stream.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a stream panicked")))
        };
        streams.into_iter().map(join).collect()
    });
    figures.seconds += start.elapsed().as_secs_f64();
    let after = server.processor();
    figures.processor += after.all - before.all;
    if let (Some(before), Some(after)) = (before.serving, after.serving) {
        let so_far = figures.serving.unwrap_or_default();
        figures.serving = Some([0, 1].map(|which| so_far[which] + after[which] - before[which]));
    }
    for seen in all {
        let seen = seen?;
        figures.tokens += seen.tokens;
        figures.bytes += seen.bytes;
        figures.first.extend(seen.first);
        figures.between.extend(seen.between);
    }
    Ok(())
}

/// One answer. Tokens after `end` are not counted and not waited for.
fn ask(
    address: SocketAddr,
    seeds: &AtomicU64,
    generate: usize,
    end: Instant,
    seen: &mut Seen,
) -> Result<(), anyhow::Error> {
    let text = words(seeds.fetch_add(1, Ordering::Relaxed), PROMPT_WORDS);
    let body = json!({
        "messages": [{ "role": "user", "content": format!("Make a story of these words: {text}") }],
        "stream": true, "temperature": 0, "max_tokens": generate, "ignore_eos": true,
    });
    let start = Instant::now();
    let mut last = None;
    http::stream(address, "/v1/chat/completions", &body, &mut |data| {
        let now = Instant::now();
        if now >= end {
            return false;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else { return true };
        let text = event["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
        if text.is_empty() {
            return true;
        }
        seen.tokens += 1;
        seen.bytes += data.len() as u64;
        match last.replace(now) {
            None => seen.first.push((now - start).as_secs_f64()),
            Some(before) => seen.between.push((now - before).as_secs_f64()),
        }
        true
    })
}
