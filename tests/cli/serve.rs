//! `doorbell serve` on a software GPU: the same answers as on the CPU, and a server that survives a failing GPU.

use crate::program::{PROGRAM, write};
use core::time::Duration;
use doorbell_core::quant::Type;
use doorbell_tests::tiny::{self, Family, Shape};
use serde_json::{Value as Json, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// Time limit of a request: more than any needs on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running server.
struct Serving {
    child: Child,
    address: String,
    /// Its stderr.
    log: JoinHandle<String>,
}

impl Serving {
    fn start(model: &str, device: &str) -> Self {
        Self::start_by(&mut Command::new(&*PROGRAM), model, device)
    }

    /// Starts a server by a command that ends with it.
    fn start_by(command: &mut Command, model: &str, device: &str) -> Self {
        command.args(["serve", model, "--port", "0", "-t", "1", "--ctx", "128", "--device", device]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut early = String::new();
        let address = lines.find_map(|line| {
            early += &format!("{line}\n");
            Some(line.split_once("on http://")?.1.to_owned())
        });
        let address = address.unwrap_or_else(|| panic!("no address: {early}"));
        let log = std::thread::spawn(move || lines.fold(early, |log, line| log + &line + "\n"));
        Self { child, address, log }
    }

    /// The status and body of a response.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (host, len) = (&self.address, body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        write!(stream, "{head}content-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        let chunked = head.contains("transfer-encoding: chunked");
        let body = if chunked { joined(&answer[end + 4..]) } else { answer[end + 4..].to_vec() };
        (head.split(' ').nth(1).unwrap().parse().unwrap(), String::from_utf8(body).unwrap())
    }

    #[track_caller]
    fn get(&self, path: &str) -> Json {
        let (status, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The text and error of a streamed chat.
    fn chat(&self, settings: Json) -> (String, Option<String>) {
        let mut body = settings;
        body["messages"] = json!([{ "role": "user", "content": "the world is" }]);
        body["stream"] = true.into();
        let (status, events) = self.ask("POST", "/v1/chat/completions", &body.to_string());
        assert_eq!(status, 200, "{events}");
        let (mut text, mut error) = (String::new(), None);
        for event in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let Ok(event) = serde_json::from_str::<Json>(event) else { continue };
            text += event["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            error = event["error"]["message"].as_str().map(str::to_owned).or(error);
        }
        (text, error)
    }

    /// Ends it, which must succeed; returns its stderr.
    fn end(mut self) -> String {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.log.join().unwrap()
    }
}

/// Decodes a chunked body.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = chunks.windows(2).position(|window| window == b"\r\n") {
        let len = usize::from_str_radix(core::str::from_utf8(&chunks[..line]).unwrap(), 16).unwrap();
        body.extend_from_slice(&chunks[line + 2..line + 2 + len]);
        chunks = &chunks[line + 2 + len + 2..];
    }
    body
}

fn served(name: &str) -> String {
    write(name, &tiny::model(Family::Qwen3, Shape::WIDE, Type::Q8_0, 7).to_bytes())
}

#[test]
fn a_software_gpu_serves_what_the_cpu_does() {
    let model = served("serve.gguf");
    let answer = |device: &str| {
        let server = Serving::start(&model, device);
        for path in ["/health", "/v1/system-info"] {
            assert_eq!(server.get(path)["device"], format!("{device}, 1 threads"), "{path}");
        }
        let (text, error) = server.chat(json!({ "temperature": 0, "max_tokens": 12 }));
        assert_eq!(error, None);
        // with a cached prefix, and without
        assert_eq!(server.chat(json!({ "temperature": 0, "max_tokens": 12 })).0, text);
        server.end();
        text
    };
    let expected = answer("cpu");
    assert!(!expected.is_empty());
    for device in ["soft:gfx1151", "soft:gfx1100"] {
        assert_eq!(answer(device), expected, "{device}");
    }
}

/// The running answer ends with an error, the log has its reason, and the server continues.
#[test]
fn a_server_outlives_its_device() {
    let model = served("serve-faults.gguf");
    let faults = [
        ("reset", "the whole GPU was reset"),
        ("page-fault", "page fault at 0x"),
        ("hang", "no progress for"),
    ];
    for (fault, reason) in faults {
        let server = Serving::start(&model, &format!("soft:gfx1151,{fault}=6"));
        assert_eq!(server.get("/health")["status"], "ok");
        // one doorbell per token; greedy requests would run several steps at a time
        let (text, error) = server.chat(json!({ "temperature": 1, "seed": 3, "max_tokens": 40 }));
        assert!(!text.is_empty(), "{fault}: the device failed too early");
        assert_eq!(error.as_deref(), Some("the device failed; try again"), "{fault}");
        for _ in 0..2 {
            let (status, body) = server.ask("GET", "/health", "");
            assert!(status == 503 && body.contains("the device has failed"), "{fault}: {status} {body}");
            let body = json!({ "prompt": "the world", "max_tokens": 2 }).to_string();
            let (status, body) = server.ask("POST", "/v1/completions", &body);
            assert!(status == 503 && body.contains("the device failed"), "{fault}: {status} {body}");
            assert_eq!(server.get("/live")["status"], "ok");
        }
        let log = server.end();
        assert_eq!(log.matches(reason).count(), 1, "{log}");
        assert!(log.contains("the model has to be loaded anew"), "{log}");
    }
}

/// Each client takes a file descriptor, of which the default limit is low.
#[test]
fn a_server_may_have_more_clients_than_the_default_limit_of_files() {
    let model = served("serve-files.gguf");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn 64; exec \"$@\" -v", "sh"]).arg(&*PROGRAM);
    let server = Serving::start_by(&mut shell, &model, "cpu");
    let clients: Vec<_> = (0..200).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
    assert_eq!(server.get("/health")["status"], "ok");
    let (text, error) = server.chat(json!({ "temperature": 0, "max_tokens": 2 }));
    assert!(!text.is_empty() && error.is_none(), "{error:?}");
    drop(clients);
    let log = server.end();
    assert!(log.contains("raised the limit of open files from=64"), "{log}");
}
