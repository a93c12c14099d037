//! A small HTTP client for measurements: one request per connection, bodies as a whole or event by event.

use anyhow::{Context as _, bail};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// Longest silence within an answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// An answer that is being read.
struct Answer {
    status: u16,
    chunked: bool,
    length: Option<u64>,
    reader: BufReader<TcpStream>,
}

fn begin(address: SocketAddr, head: &str, body: &[u8]) -> Result<Answer, anyhow::Error> {
    let mut connection = TcpStream::connect(address).context("connect")?;
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    connection.write_all(&[head.as_bytes(), body].concat())?;
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).context("a status")?;
    let mut answer = Answer { status, chunked: false, length: None, reader };
    loop {
        line.clear();
        if answer.reader.read_line(&mut line)? == 0 {
            bail!("the head of the answer ends early");
        }
        let lower = line.trim().to_ascii_lowercase();
        if lower.is_empty() {
            return Ok(answer);
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            answer.length = value.trim().parse().ok();
        }
        answer.chunked |= lower.starts_with("transfer-encoding:") && lower.contains("chunked");
    }
}

impl Answer {
    /// The next bytes of the body; `None` at its end.
    fn piece(&mut self) -> Result<Option<Vec<u8>>, anyhow::Error> {
        let mut bytes = Vec::new();
        if !self.chunked {
            let length = self.length.replace(0).unwrap_or(u64::MAX);
            self.reader.by_ref().take(length).read_to_end(&mut bytes)?;
            return Ok((!bytes.is_empty()).then_some(bytes));
        }
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).context("the length of a chunk")?;
        self.reader.by_ref().take(length).read_to_end(&mut bytes)?;
        self.reader.read_line(&mut line)?;
        Ok((length > 0).then_some(bytes))
    }

    fn whole(mut self) -> Result<(u16, String), anyhow::Error> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece()? {
            body.extend(piece);
        }
        Ok((self.status, String::from_utf8_lossy(&body).into_owned()))
    }
}

/// Status and body.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<(u16, String), anyhow::Error> {
    begin(address, &format!("GET {path}"), &[])?.whole()
}

/// Status and body.
pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Result<(u16, String), anyhow::Error> {
    begin(address, &format!("POST {path}"), body.to_string().as_bytes())?.whole()
}

/// Reads a stream of events. `each` gets the data of one and returns false to stop. Fails on any status but success.
pub(crate) fn stream(
    address: SocketAddr,
    path: &str,
    body: &Value,
    each: &mut dyn FnMut(&str) -> bool,
) -> Result<(), anyhow::Error> {
    let mut answer = begin(address, &format!("POST {path}"), body.to_string().as_bytes())?;
    if answer.status != 200 {
        let (status, body) = answer.whole()?;
        bail!("status {status}: {body}");
    }
    let mut held = Vec::new();
    while let Some(piece) = answer.piece()? {
        held.extend(piece);
        while let Some(end) = held.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = held.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let Some(data) = line.trim().strip_prefix("data: ") else { continue };
            if data.starts_with("[DONE]") || !each(data) {
                return Ok(());
            }
        }
    }
    Ok(())
}
