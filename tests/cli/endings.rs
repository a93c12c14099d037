//! Closed outputs, and signals.

use crate::program::{PROGRAM, command, finish, model, tiny, write};
use doorbell_tests::gguf_writer::Value;
use doorbell_tests::tiny::Family;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A closed pipe ends the program without a message.
#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let model = model("pipe", Family::Llama);
    for arguments in [&["run", &model, "-p", "x", "--temp", "0"][..], &["info", &model], &["--help"]] {
        let mut command = Command::new(&*PROGRAM);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code().is_some_and(|code| [0, 141].contains(&code)), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("doorbell: "), "{stderr}");
    }
}

/// A failed write is reported once.
#[test]
fn a_full_disk_is_reported() {
    let model = model("full", Family::Llama);
    for arguments in [&["run", &model, "-p", "x", "-n", "3"][..], &["info", &model], &["devices"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = finish(command(arguments).stdout(full), b"");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert_eq!(stderr.matches("cannot write to stdout: ").count(), 1, "{stderr}");
    }
}

/// A model whose answers end only with the context.
pub(crate) fn endless(name: &str) -> String {
    let mut file = tiny(Family::Llama);
    let context = file.metadata.iter_mut().find(|(key, _)| key == b"llama.context_length").unwrap();
    context.1 = Value::U32(1 << 20);
    file.metadata.retain(|(key, _)| key != b"tokenizer.ggml.eos_token_id");
    write(name, &file.to_bytes())
}

/// Sends a signal by its name, such as INT.
fn send(child: &Child, signal: &str) {
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

fn interrupt(child: &Child) {
    send(child, "INT");
}

/// A server, its address, and the lines of its log that follow.
fn served(model: &str) -> (Child, String, impl Iterator<Item = String> + use<>) {
    let serve = ["serve", model, "--port", "0", "--device", "cpu", "--ctx", "60000", "--parallel", "1", "-v"];
    let mut child = command(&serve).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address = lines.find_map(|line| Some(line.split_once("on http://")?.1.to_owned())).unwrap();
    (child, address, lines)
}

/// Requests a streamed answer of `tokens` tokens.
fn ask(address: &str, tokens: u32) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = format!(r#"{{"prompt": "x", "stream": true, "max_tokens": {tokens}, "ignore_eos": true}}"#);
    let head = format!("POST /v1/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    let head = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

/// After a signal a server lets answers continue for a while; a second one ends it at once.
#[test]
fn a_second_signal_ends_the_server() {
    let model = endless("endless-served.gguf");
    let end = |first, second| {
        let (mut child, address, mut lines) = served(&model);
        let mut stream = ask(&address, 50_000);
        stream.read_exact(&mut [0; 200]).unwrap();
        send(&child, first);
        assert!(lines.any(|line| line.contains("ending")));
        send(&child, second);
        child.wait().unwrap().code()
    };
    // on a busy machine the grace period may end before the second one
    for (first, second, code) in [("INT", "INT", 130), ("TERM", "TERM", 143), ("TERM", "INT", 130)] {
        let mut ends = (0..10).map(|_| end(first, second)).skip_while(|&code| code == Some(0));
        assert_eq!(ends.next(), Some(Some(code)), "{first} {second}");
    }
}

/// A closed log, as after `serve 2>&1 | head`, does not fail requests.
#[test]
fn a_server_outlives_the_reader_of_its_log() {
    let (mut child, address, lines) = served(&endless("endless-unread.gguf"));
    drop(lines);
    for _ in 0..3 {
        let mut answer = String::new();
        ask(&address, 3).read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("[DONE]"), "{answer}");
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Ctrl-C stops an answer; the text so far is kept, and the status line is printed.
#[test]
fn ctrl_c_stops_the_answer() {
    let model = endless("endless.gguf");
    let arguments = ["run", &model, "-p", "x", "--raw", "--temp", "0", "--ctx", "100000"];
    let mut command = Command::new(&*PROGRAM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // the first text has been printed: the signal handler is installed
    let mut first = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("; answer ") && stderr.contains("tok/s; device cpu"), "{stderr}");
}
