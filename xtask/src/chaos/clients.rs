//! Clients that misbehave, each in one way.

use crate::http;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;

/// Many clients of one kind.
pub(super) struct Crowd {
    pub(super) name: &'static str,
    pub(super) clients: usize,
    /// Number that run at a time.
    threads: usize,
    /// The behavior of each client; returns the status of the answer, or [`NO_STATUS`].
    act: Act,
    /// Statuses that are allowed.
    pub(super) statuses: &'static [u16],
}

/// Behavior of a client, given a pseudo-random number.
type Act = fn(SocketAddr, u64) -> Result<u16, anyhow::Error>;

/// Stands for a status: the client did not wait for one.
pub(super) const NO_STATUS: u16 = 0;

/// Stands for a status: the connection failed.
pub(super) const BROKEN: u16 = 1;

impl Crowd {
    pub(super) fn new(
        name: &'static str,
        clients: usize,
        threads: usize,
        act: Act,
        statuses: &'static [u16],
    ) -> Self {
        Self { name, clients, threads, act, statuses }
    }

    /// Runs all clients. Returns the number of clients per status.
    pub(super) fn run(&self, address: SocketAddr) -> Vec<(u16, usize)> {
        let (next, statuses) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.clients {
                            return;
                        }
                        let status = (self.act)(address, mix(number as u64)).unwrap_or(BROKEN);
                        if let Ok(mut statuses) = statuses.lock() {
                            *statuses.entry(status).or_default() += 1;
                        }
                    }
                });
            }
        });
        let mut statuses: Vec<_> = statuses.into_inner().unwrap_or_default().into_iter().collect();
        statuses.sort_unstable();
        statuses
    }
}

/// A pseudo-random number.
fn mix(number: u64) -> u64 {
    let x = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

/// A valid request.
pub(super) fn question(tokens: u32) -> Value {
    json!({ "messages": [{ "role": "user", "content": "Count." }], "max_tokens": tokens, "ignore_eos": true })
}

fn request(body: &str, declared: usize) -> Vec<u8> {
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: ";
    format!("{head}{declared}\r\n\r\n{body}").into_bytes()
}

fn streamed(tokens: u32) -> String {
    let mut body = question(tokens);
    body["stream"] = true.into();
    body.to_string()
}

/// A long stream that is never read.
pub(super) fn open_stream(address: SocketAddr) -> Result<TcpStream, anyhow::Error> {
    let mut connection = TcpStream::connect(address)?;
    let body = streamed(400);
    connection.write_all(&request(&body, body.len()))?;
    Ok(connection)
}

/// Status of an answer, or of its beginning.
fn status(answer: &[u8]) -> u16 {
    let line = String::from_utf8_lossy(answer.get(..16).unwrap_or(answer));
    let word = line.split(' ').nth(1).filter(|word| word.len() == 3);
    word.and_then(|word| word.parse().ok()).unwrap_or(NO_STATUS)
}

/// Sends a part of a request or reads a part of the answer, then disconnects; every fourth while its long prompt is
/// computed or queued.
pub(super) fn disconnect(address: SocketAddr, random: u64) -> Result<u16, anyhow::Error> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut body = streamed(400);
    if random.is_multiple_of(4) {
        body = body.replace("Count.", &format!("{random} ").repeat(20));
        connection.write_all(&request(&body, body.len()))?;
        std::thread::sleep(Duration::from_millis((random >> 8) % 500));
        return Ok(NO_STATUS);
    }
    let bytes = request(&body, body.len());
    let sent = if random.is_multiple_of(3) { (random / 3) as usize % bytes.len() } else { bytes.len() };
    connection.write_all(&bytes[..sent])?;
    let mut answer = vec![0; (random >> 8) as usize % 1500];
    let read = if sent == bytes.len() { connection.read(&mut answer).unwrap_or(0) } else { 0 };
    Ok(status(&answer[..read]))
}

/// Reads one byte every 100 ms.
pub(super) fn read_slowly(address: SocketAddr, random: u64) -> Result<u16, anyhow::Error> {
    let mut connection = open_stream(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut answer = Vec::new();
    for _ in 0..20 + random % 20 {
        let mut byte = [0];
        match connection.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => answer.push(byte[0]),
            Err(_) => {}
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(status(&answer))
}

/// Sends a body that is not a valid request.
pub(super) fn send_broken_bodies(address: SocketAddr, random: u64) -> Result<u16, anyhow::Error> {
    let valid = streamed(4);
    let cut = random as usize % valid.len();
    let body = match random % 5 {
        0 => valid[..cut].to_owned(),
        1 => format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
        2 => valid.replace("\"user\"", &random.to_string()),
        3 => valid.replacen(':', "\u{fffd}", 1),
        _ => format!("{valid}{valid}"),
    };
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    connection.write_all(&request(&body, body.len()))?;
    let mut answer = [0; 64];
    let read = connection.read(&mut answer)?;
    Ok(status(&answer[..read]))
}

/// Speaks another protocol, sends without end, or closes its half of the connection.
pub(super) fn send_other_protocols(address: SocketAddr, random: u64) -> Result<u16, anyhow::Error> {
    let body = streamed(4);
    let (begin, again): (&[u8], &[u8]) = match random % 5 {
        // a client that wants TLS
        0 => (b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03 and so on", b""),
        1 => (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", b""),
        2 => (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", &[b'a'; 1000]),
        3 => (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n"),
        _ => (&request(&body, body.len()), b""),
    };
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    connection.write_all(begin)?;
    let mut sent = again.len();
    // the server may close before all is sent
    while sent > 0 && sent < 8 << 20 && connection.write_all(&again.repeat(100)).is_ok() {
        sent += again.len() * 100;
    }
    connection.shutdown(Shutdown::Write)?;
    let mut answer = [0; 64];
    let read = connection.read(&mut answer)?;
    Ok(status(&answer[..read]))
}

/// Connections that send nothing, or an incomplete request, until they are dropped.
pub(super) fn idle_connections(address: SocketAddr, count: usize) -> Result<Vec<TcpStream>, anyhow::Error> {
    let idle = |number: usize| -> Result<TcpStream, anyhow::Error> {
        let mut connection = TcpStream::connect(address)?;
        connection.write_all([&b""[..], b"GET /hea", &request("{", 100)][number % 3])?;
        Ok(connection)
    };
    (0..count).map(idle).collect()
}

/// Sends a body beyond the limit, with and without a declared length.
pub(super) fn send_huge_bodies(address: SocketAddr, random: u64) -> Result<u16, anyhow::Error> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    if random.is_multiple_of(2) {
        connection.write_all(&request("", 1 << 40))?;
    } else {
        let head =
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        connection.write_all(head.as_bytes())?;
        let chunk = [b"100000\r\n".as_slice(), &[b'['; 1 << 20], b"\r\n"].concat();
        // the server may close before all is sent
        for _ in 0..80 {
            if connection.write_all(&chunk).is_err() {
                break;
            }
        }
    }
    let mut answer = [0; 64];
    let read = connection.read(&mut answer)?;
    Ok(status(&answer[..read]))
}

/// Sends a short request and waits for the answer, or for the refusal of a full queue.
pub(super) fn wait_in_queue(address: SocketAddr, _: u64) -> Result<u16, anyhow::Error> {
    Ok(http::post(address, "/v1/chat/completions", &question(2))?.0)
}
