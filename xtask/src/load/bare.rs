//! `cargo xtask bare-socket`: the least cost of a streamed token in the system. `load` starts it in turns with the server.
//!
//! It writes the same bytes at the same times as the server, with a thread that an `epoll` wakes once a step, while as
//! many threads as the server has read the model file once a step. Not here: HTTP that the streams of `load` don't read.

use anyhow::Context as _;
use core::net::Ipv4Addr;
use core::time::Duration;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

/// Sizes and times of a server's writes under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Rhythm {
    /// Bytes of JSON of a token.
    #[arg(long)]
    pub(crate) bytes: usize,
    /// Microseconds of a step, in which each stream gets a token.
    #[arg(long)]
    pub(crate) step: u64,
    /// Tokens of an answer.
    #[arg(short = 'n', long)]
    pub(crate) generate: usize,
}

/// Arguments of `cargo xtask bare-socket`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file that is read.
    model: PathBuf,
    /// Port on loopback.
    #[arg(long)]
    port: u16,
    /// Threads that read.
    #[arg(short, long)]
    threads: usize,
    #[command(flatten)]
    rhythm: Rhythm,
}

/// Bytes that are read between two readings of the clock.
const SLICE: usize = 64 << 10;

/// Bytes of memory that one access brings into the caches.
const LINE: usize = 64;

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).context("listen")?;
    let weights = std::fs::read(&arguments.model).context("read the model")?;
    serve(&listener, &weights, arguments.threads, arguments.rhythm)
}

/// Serves until the process ends.
fn serve(
    listener: &TcpListener,
    weights: &[u8],
    threads: usize,
    rhythm: Rhythm,
) -> Result<(), anyhow::Error> {
    let (bell, event) = (eventfd(0, EventfdFlags::NONBLOCK)?, event(rhythm.bytes));
    let (bell, event, step) = (&bell, &event, Duration::from_micros(rhythm.step));
    let (sender, streams) = channel();
    thread::scope(|scope| {
        // the name of the server's thread, so that processor time is found in the same way
        let writer = thread::Builder::new().name("socket".into());
        writer.spawn_scoped(scope, move || write(bell, &streams, event, rhythm.generate))?;
        for (number, part) in weights.chunks(weights.len().div_ceil(threads.max(1)).max(1)).enumerate() {
            let ring = move || {
                if number == 0 {
                    _ = rustix::io::write(bell, &1_u64.to_ne_bytes())
                }
            };
            scope.spawn(move || compute(part, step, ring));
        }
        for connection in listener.incoming() {
            // an error means that the client has disconnected
            _ = take(connection?, &sender);
        }
        Ok(())
    })
}

/// Answers `/health`, or passes the connection on as a stream.
fn take(mut connection: TcpStream, streams: &Sender<TcpStream>) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut request = [0; SLICE];
    let read = connection.read(&mut request)?;
    if request[..read].starts_with(b"GET ") {
        return connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
    connection.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    streams.send(connection).map_err(io::Error::other)
}

/// Writes an event to each stream whenever `bell` is signaled, and the end after the last.
fn write(bell: &OwnedFd, streams: &Receiver<TcpStream>, event: &[u8], generate: usize) -> io::Result<()> {
    let waiting = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&waiting, bell, epoll::EventData::new_u64(0), epoll::EventFlags::IN | epoll::EventFlags::ET)?;
    let mut open: Vec<(TcpStream, usize)> = Vec::new();
    let mut rung = Vec::with_capacity(1);
    loop {
        rung.clear();
        epoll::wait(&waiting, spare_capacity(&mut rung), None)?;
        open.extend(streams.try_iter().map(|stream| (stream, generate)));
        open.retain_mut(|(stream, left)| match left.checked_sub(1) {
            Some(fewer) => {
                *left = fewer;
                stream.write_all(event).is_ok()
            }
            None => stream.write_all(b"0\r\n\r\n").is_err(),
        });
    }
}

/// Reads the weights once a step at an even pace, and calls `ended` after each step.
fn compute(weights: &[u8], step: Duration, ended: impl Fn()) {
    let slices = weights.len().div_ceil(SLICE).max(1) as f64;
    loop {
        let begun = Instant::now();
        for (before, slice) in weights.chunks(SLICE).enumerate() {
            let sum = slice.iter().step_by(LINE).fold(0_u8, |sum, &byte| sum.wrapping_add(byte));
            core::hint::black_box(sum);
            let due = step.mul_f64((before + 1) as f64 / slices);
            while begun.elapsed() < due {
                core::hint::spin_loop();
            }
        }
        ended();
    }
}

/// A token's event as HTTP sends it, with `bytes` bytes of JSON if a text of at least one byte fits.
fn event(bytes: usize) -> Vec<u8> {
    const AROUND: [&str; 2] = [r#"{"choices":[{"delta":{"content":""#, r#""}}]}"#];
    let text = "x".repeat(bytes.saturating_sub(AROUND.map(str::len).iter().sum()).max(1));
    let event = format!("data: {}\n\n", AROUND.join(&text));
    format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;
    use serde_json::{Value, json};

    #[test]
    fn streams_get_their_tokens_and_an_end() {
        let rhythm = Rhythm { bytes: 250, step: 100, generate: 5 };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // ends with the process
        thread::spawn(move || serve(&listener, &[1; 3 * SLICE / 2], 2, rhythm));
        assert_eq!(http::get(address, "/health").unwrap().0, 200);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut lengths = Vec::new();
                    http::stream(address, "/v1/chat/completions", &json!({}), &mut |event| {
                        let document: Value = serde_json::from_str(event).unwrap();
                        assert!(document["choices"][0]["delta"]["content"].is_string());
                        lengths.push(event.len());
                        true
                    })
                    .unwrap();
                    assert_eq!(lengths, [250; 5]);
                });
            }
        });
    }

    #[test]
    fn the_shortest_event_has_a_text() {
        assert!(event(0).windows(5).any(|bytes| bytes == br#":"x"}"#));
    }
}
