//! `doorbell serve` as people start it, on a tiny model that the CPU driver computes.

use crate::client::Server;
use core::time::Duration;
use doorbell_core::quant::Type;
use doorbell_tests::tiny::{self, Family, Shape};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program, built as this test is.
fn program() -> PathBuf {
    let arguments = ["build", "--quiet", "--package", "doorbell", "--message-format", "json"];
    let run = Command::new(env!("CARGO")).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(run.status.success(), "the program can't be built");
    let messages = String::from_utf8(run.stdout).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut executables = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    executables.next_back().unwrap()
}

#[test]
fn the_program_serves_what_it_would_run_and_ends_when_told() {
    let program = program();
    let model = Path::new(env!("CARGO_TARGET_TMPDIR")).join("served-model.gguf");
    std::fs::write(&model, tiny::model(Family::Qwen3, Shape::NARROW, Type::F32, 3).to_bytes()).unwrap();
    let mut child = Command::new(&program)
        .args(["serve", "--port", "0", "--device", "cpu", "--threads", "1", "--parallel", "2"])
        .arg(&model)
        .env("DOORBELL_API_KEY", "secret")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address =
        lines.find_map(|line| line.unwrap().split_once("on http://").map(|(_, address)| address.parse()));
    let server = Server::at(address.unwrap().unwrap());
    let prompt = "the people of this world";
    let run = Command::new(&program)
        .args([
            "run",
            "--raw",
            "--json",
            "--temp",
            "0",
            "-n",
            "24",
            "--device",
            "cpu",
            "--threads",
            "1",
            "-p",
            prompt,
        ])
        .arg(&model)
        .output()
        .unwrap();
    let run: Value = serde_json::from_slice(&run.stdout).unwrap();
    let body = json!({ "prompt": prompt, "temperature": 0, "max_tokens": 24 }).to_string();
    assert_eq!(server.send("POST", "/v1/completions", &[], &body).status, 401);
    // together and one after the other, from the cache or not: the same text
    let ask = || server.send("POST", "/v1/completions", &[("authorization", "Bearer secret")], &body).ok();
    std::thread::scope(|scope| {
        let answers = [0, 1, 2].map(|_| scope.spawn(ask));
        for answer in answers {
            assert_eq!(answer.join().unwrap()["choices"][0]["text"], run["text"]);
        }
    });
    assert_eq!(ask()["choices"][0]["text"], run["text"]);
    let models = server.get("/v1/models").ok();
    assert_eq!(models["data"][0]["id"], "served-model");
    // an answer under way does not keep the program
    let endless =
        json!({ "prompt": prompt, "stream": true, "ignore_eos": true, "max_tokens": 200 }).to_string();
    let stream = server.open("POST", "/v1/completions", &[("authorization", "Bearer secret")], &endless);
    terminate(&mut child);
    drop(stream);
}

/// Sends SIGTERM, upon which the program must end well; with a limit far above the promised five seconds, as the
/// machine may have other things to do.
fn terminate(child: &mut Child) {
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    for _ in 0..1500 {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    panic!("the program does not end");
}
