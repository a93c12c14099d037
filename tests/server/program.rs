//! The program `doorbell serve` on a tiny model, computed by the CPU driver.

use crate::client::{Server, until};
use doorbell_core::quant::Type;
use doorbell_tests::tiny::{self, Family, Shape};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Builds the program with the profile of this test.
fn program() -> PathBuf {
    // all packages, as for tests: other features would build most of them again
    let arguments = ["build", "--quiet", "--workspace", "--bin", "doorbell", "--example", "scripted_server"];
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--message-format", "json"]).stderr(Stdio::inherit());
    let run = cargo.output().unwrap();
    assert!(run.status.success(), "the program can't be built");
    let messages = String::from_utf8(run.stdout).unwrap();
    let messages = messages.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut programs = messages.filter(|message| message["target"]["name"] == "doorbell");
    programs.find_map(|message| message["executable"].as_str().map(PathBuf::from)).unwrap()
}

#[test]
fn the_program_serves_the_text_of_run_and_ends_upon_sigterm() {
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
    // the text is the same together or one after the other, with or without the cache
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
    let running = server.send("GET", "/api/ps", &[("authorization", "Bearer secret")], "").ok();
    assert_eq!(running["models"][0]["size_vram"], 0, "the CPU has none");
    // an answer in progress does not delay the end
    let endless =
        json!({ "prompt": prompt, "stream": true, "ignore_eos": true, "max_tokens": 200 }).to_string();
    let stream = server.open("POST", "/v1/completions", &[("authorization", "Bearer secret")], &endless);
    terminate(&mut child);
    drop(stream);
}

/// Sends SIGTERM, after which the program must end with success. The limit is far above the promised five seconds,
/// because the machine may be busy.
#[track_caller]
fn terminate(child: &mut Child) {
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut ended = None;
    until("the program ends", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(0));
}

/// The lines that the program writes while it serves, and its address.
fn serve(arguments: &[&str], model: &Path) -> (Child, Server, std::sync::mpsc::Receiver<String>) {
    let mut child = Command::new(program())
        .args(["serve", "--port", "0", "--device", "cpu", "--threads", "1", "--ctx", "128"])
        .args(arguments)
        .arg(model)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line).ok()));
    let mut before = Vec::new();
    let address = loop {
        let line = receiver.recv().unwrap();
        let address = line.split_once("on http://").map(|(_, address)| address.parse().unwrap());
        before.push(line);
        if let Some(address) = address {
            break address;
        }
    };
    let (again, all) = std::sync::mpsc::channel();
    before.into_iter().for_each(|line| again.send(line).unwrap());
    std::thread::spawn(move || receiver.into_iter().try_for_each(|line| again.send(line).ok()));
    (child, Server::at(address), all)
}

#[test]
fn a_server_without_a_key_warns_and_logs_no_prompts() {
    let model = Path::new(env!("CARGO_TARGET_TMPDIR")).join("logged-model.gguf");
    std::fs::write(&model, tiny::model(Family::Qwen3, Shape::NARROW, Type::F32, 3).to_bytes()).unwrap();
    let (mut child, server, lines) = serve(&["--host", "0.0.0.0", "--verbose"], &model);
    let server = Server::at(([127, 0, 0, 1], server.address.port()).into());
    let secret = "xyzzy-plugh";
    let body = json!({ "prompt": secret, "max_tokens": 2, "temperature": 0 });
    server.post("/v1/completions", &body).ok();
    assert_eq!(server.post("/v1/completions", &json!({ "prompt": secret, "n": 0 })).status, 400);
    let chat = json!({ "messages": [{ "role": "user", "content": secret }], "max_tokens": 2 });
    server.post("/v1/chat/completions", &chat);
    let streamed =
        json!({ "prompt": secret, "max_tokens": 3, "stream": true, "ignore_eos": true }).to_string();
    assert!(
        server.send("POST", "/v1/completions", &[("user-agent", "tester/1")], &streamed).events().len() > 1
    );
    let wide = json!({ "messages": [{ "role": "user", "content": secret }], "stream": false,
        "options": { "num_ctx": 4096, "num_predict": 1 } });
    server.post("/api/chat", &wide);
    server.post("/api/chat", &wide);
    terminate(&mut child);
    let log: String = lines.into_iter().map(|line| line + "\n").collect();
    assert!(log.contains("give it a key with --api-key"), "{log}");
    assert!(log.contains("answered") && log.contains("/v1/completions") && log.contains("refused"), "{log}");
    assert!(!log.contains(secret), "{log}");
    // what a stream took is logged at its end
    let of_stream: Vec<&str> = log.lines().filter(|line| line.contains("tester/1")).collect();
    let [generated, answered] = of_stream[..] else { panic!("{log}") };
    for word in [
        "generated",
        "prompt_tokens=",
        "cached=",
        "generated=3",
        "first_token_ms=",
        "per_second=",
        "MaxTokens",
    ] {
        assert!(generated.contains(word), "{word}: {generated}");
    }
    assert!(answered.contains("answered") && answered.contains("/v1/completions"), "{answered}");
    assert!(answered.contains("status=200"), "{answered}");
    // a context that can't be met is logged once
    assert_eq!(log.matches("num_ctx=4096").count(), 1, "{log}");
    // the banner
    for words in [
        "model    logged-model (qwen3, F32, ",
        "device   cpu, 1 threads",
        "context  128 tokens a request, 4 requests at a time",
        "memory   ",
        "access   no key: everybody who reaches 0.0.0.0:",
        "page     http://localhost:",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
}

#[test]
fn the_operators_template_sampling_and_folder_are_used() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (model, template, folder) =
        (tmp.join("own-model.gguf"), tmp.join("own-template.jinja"), tmp.join("own-folder"));
    std::fs::write(&model, tiny::model(Family::Qwen3, Shape::NARROW, Type::F32, 3).to_bytes()).unwrap();
    std::fs::write(&template, "{% for m in messages %}<{{ m.content }}>{% endfor %}:").unwrap();
    _ = std::fs::create_dir(&folder);
    let arguments = ["--temp", "1", "--seed", "11", "--chat-template-file", template.to_str().unwrap()];
    let arguments = [&arguments[..], &["--slot-save-path", folder.to_str().unwrap()]].concat();
    let (mut child, server, _lines) = serve(&arguments, &model);
    let chat = json!({ "messages": [{ "role": "user", "content": "a" }] });
    assert_eq!(server.post("/apply-template", &chat).ok()["prompt"], "<a>:");
    let props = server.get("/props").ok();
    assert_eq!(props["model_path"], "own-model.gguf");
    let params = &props["default_generation_settings"]["params"];
    assert_eq!((&params["seed"], &params["temperature"]), (&json!(11), &json!(1.0)));
    let body = json!({ "prompt": "the people of this world and the next", "max_tokens": 60 });
    let text = || server.post("/v1/completions", &body).ok()["choices"][0]["text"].clone();
    assert_eq!(text(), text(), "the seed is the operator's");
    let saved = server.post("/slots/0?action=save", &json!({ "filename": "a.bin" })).ok();
    assert!(saved["n_saved"].as_u64().unwrap() >= 32, "{saved}");
    assert_eq!(folder.join("a.bin").metadata().unwrap().len(), saved["n_written"].as_u64().unwrap());
    terminate(&mut child);
    let missing = Command::new(program())
        .args(["serve", "--port", "0", "--device", "cpu", "--slot-save-path", "/no/such/folder"])
        .arg(&model)
        .output()
        .unwrap();
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("--slot-save-path"));
}
