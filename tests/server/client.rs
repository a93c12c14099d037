//! A minimal HTTP/1.1 client, and a server for it.

use crate::serving::{Kind, bind};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::oneshot;

/// A test that takes longer is taken for a hang. Much more than any test needs, even on a slow and busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came that {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Kind {
    /// A server on which an answer that ignores its end takes longer than any test waits.
    pub(crate) fn endless() -> Self {
        Self { context: 1 << 18, pause: Duration::from_millis(2), ..Self::default() }
    }
}

/// A server on a thread of its own. It ends when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(kind: &Kind) -> Self {
        let kind = kind.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async {
                let server = bind(&kind).await;
                sender.send(server.address().unwrap()).unwrap();
                server
                    .run(async {
                        _ = ended.await;
                    })
                    .await
                    .unwrap();
            });
        });
        Self { address: receiver.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }

    /// A server that was started elsewhere.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, end: None, thread: None }
    }

    /// Ends the server and waits for that.
    pub(crate) fn stop(&mut self) {
        if let Some(end) = self.end.take() {
            _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], &body.to_string())
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.open(method, path, headers, body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Answer::parse(&bytes)
    }

    /// Sends a request without reading the answer.
    pub(crate) fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        // a server that hangs fails the test instead of hanging it
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).unwrap();
        // a server may refuse a request before it has read the body
        _ = stream.write_all(body.as_bytes());
        stream
    }

    /// The value of a metric in `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        number(&text, name).unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// Waits until no request is live and all pages are free.
    pub(crate) fn wait_idle(&self) {
        until("no request is live", || {
            self.get("/health").json()["requests"] == json!({ "running": 0, "waiting": 0 })
        });
        // this request may itself exceed the limit
        until("no page is held", || {
            number(&self.get("/metrics").body, "vllm:kv_cache_usage_perc") == Some(0.0)
        });
    }
}

/// The sum of all metrics of this name, with any labels.
fn number(metrics: &str, name: &str) -> Option<f64> {
    let of = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let number = rest
            .strip_prefix(' ')
            .or_else(|| rest.strip_prefix('{')?.split_once("} ").map(|(_, number)| number));
        number?.parse().ok()
    };
    metrics.lines().filter_map(of).reduce(|sum: f64, number| sum + number)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut body = bytes[end + 4..].to_vec();
        if head.contains("transfer-encoding: chunked") {
            body = unchunk(&body);
        }
        Self { status, head, body: String::from_utf8(body).unwrap() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The JSON document of a response, whose status must be this.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    /// The data of all events without the end mark. The events must be well-formed.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        assert!(self.body.ends_with("\n\n"), "{}", self.body);
        let blocks = self.body.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':'));
        let mut events = Vec::new();
        for block in blocks {
            let (name, data) = match block.strip_prefix("event: ") {
                Some(rest) => rest.split_once('\n').map(|(name, data)| (Some(name), data)).unwrap(),
                None => (None, block),
            };
            let data = data.strip_prefix("data: ").expect(block);
            if data == "[DONE]" {
                continue;
            }
            let event: Value = serde_json::from_str(data).expect(data);
            if let Some(name) = name {
                assert_eq!(event["type"], name);
            }
            events.push(event);
        }
        events
    }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = bytes.windows(2).position(|window| window == b"\r\n") {
        let len = usize::from_str_radix(core::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        let start = line + 2;
        body.extend_from_slice(&bytes[start..start + len]);
        bytes = &bytes[start + len + 2..];
    }
    body
}
