//! One request costs a bounded amount: of memory, of the threads that everybody shares, of the queue and of places.

use crate::chat::{ask, with};
use crate::client::{PATIENCE, Server, until};
use crate::serving::{Kind, bind};
use crate::transport::read_to;
use core::time::Duration;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use tokio::sync::oneshot;

const CHAT: &str = "/v1/chat/completions";

/// Every event of every answer repeats the name.
#[test]
fn names_of_models_are_short() {
    let server = Server::start(&Kind::default());
    let chat = with(ask("[[a]]"), json!({ "max_tokens": 4 }));
    for (path, body) in [
        (CHAT, &chat),
        ("/v1/completions", &json!({ "prompt": "[[a]]" })),
        ("/v1/responses", &json!({ "input": "[[a]]" })),
        ("/v1/messages", &chat),
        ("/completion", &json!({ "prompt": "[[a]]" })),
        ("/api/chat", &chat),
        ("/api/generate", &json!({ "prompt": "[[a]]" })),
        ("/v1/embeddings", &json!({ "input": "a" })),
        ("/api/embed", &json!({ "input": "a" })),
    ] {
        let named = |bytes: usize| with(body.clone(), json!({ "model": "m".repeat(bytes), "stream": false }));
        assert_eq!(server.post(path, &named(256)).ok()["model"], json!("m".repeat(256)), "{path}");
        let refusal = server.post(path, &named(257));
        assert_eq!(refusal.status, 400, "{path}");
        assert!(refusal.body.contains("model: must have at most 256 bytes"), "{path}: {}", refusal.body);
    }
}

/// The text that is repeated in each of the answers counts as often.
#[test]
fn an_echo_repeats_no_more_than_a_request_may_have() {
    let mut kind = Kind::default();
    kind.settings.body_limit = 4096;
    let server = Server::start(&kind);
    let body =
        |answers: u32| json!({ "prompt": "a".repeat(1500), "echo": true, "n": answers, "max_tokens": 1 });
    assert_eq!(server.post("/v1/completions", &body(2)).status, 200);
    let refusal = server.post("/v1/completions", &body(3));
    assert_eq!((refusal.status, &refusal.json()["error"]["param"]), (400, &json!("echo")));
}

/// Lists and objects take up to a hundred times the memory of their text.
#[test]
fn bodies_that_take_much_memory_are_refused_before_they_are_parsed() {
    let mut kind = Kind::default();
    kind.settings.body_limit = 1 << 20;
    let server = Server::start(&kind);
    for item in ["[0]", "{}", "[]", "{\"\":0}", "[[[0]]]"] {
        let many = |count: usize| format!("{{\"x\":[{}],\"content\":\"a\"}}", vec![item; count].join(","));
        let count = (1 << 20) / (item.len() + 1) - 10;
        for path in ["/tokenize", CHAT, "/api/chat", "/v1/messages"] {
            let refusal = server.send("POST", path, &[], &many(count));
            assert_eq!(refusal.status, 413, "{item} {path}: {}", refusal.body);
        }
        assert_eq!(server.send("POST", "/tokenize", &[], &many(1000)).status, 200, "{item}");
    }
    // the same size as texts, and as token ids
    let text = json!({ "x": "[0],".repeat(200_000), "content": "a" });
    assert_eq!(server.post("/tokenize", &text).status, 200);
    let ids = json!({ "tokens": vec![7; 2048] });
    assert_eq!(server.post("/detokenize", &ids).status, 200);
}

/// A server whose only thread for sockets counts its allocations; returns their number when it has ended.
fn counted(kind: &Kind, act: impl FnOnce(&Server)) -> u64 {
    let kind = kind.clone();
    let (sender, receiver) = channel();
    let (end, ended) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(bind(&kind));
        sender.send(server.address().unwrap()).unwrap();
        let ended = async { _ = ended.await };
        allocation_counter::measure(|| runtime.block_on(server.run(ended)).unwrap()).count_total
    });
    act(&Server::at(receiver.recv().unwrap()));
    _ = end.send(());
    thread.join().unwrap()
}

/// While this thread computes, no stream goes on.
#[test]
fn the_thread_of_the_sockets_does_no_work_that_grows_with_a_request() {
    const ITEMS: usize = 20_000;
    let mut kind = Kind { context: 1 << 16, ..Kind::default() };
    kind.settings.drain_timeout = Duration::ZERO;
    let message = json!({ "role": "user", "content": "a" });
    let messages = json!({ "messages": vec![message; ITEMS], "max_tokens": 1, "stream": false });
    let texts = vec![json!({ "type": "text", "text": "a" }); ITEMS];
    let blocks = json!({ "messages": [{ "role": "user", "content": texts }], "max_tokens": 1 });
    let dry = json!({ "dry_multiplier": 1, "dry_sequence_breakers": (0..60).map(|n| format!("a{n}")).collect::<Vec<_>>() });
    let plain = counted(&kind, |server| _ = server.post("/tokenize", &json!({ "content": "a" })).ok());
    for (path, body) in [
        ("/tokenize", &json!({ "content": "a ".repeat(ITEMS), "with_pieces": true })),
        ("/detokenize", &json!({ "tokens": vec![7; ITEMS] })),
        ("/apply-template", &messages),
        ("/api/chat", &messages),
        ("/v1/messages/count_tokens", &blocks),
        ("/v1/messages", &blocks),
        (CHAT, &messages),
        (CHAT, &with(with(ask("[[a]]"), json!({ "max_tokens": 1 })), dry)),
        ("/api/generate", &json!({ "prompt": "[[a]]", "context": vec![7; ITEMS], "stream": false })),
    ] {
        let count = counted(&kind, |server| {
            let answer = server.post(path, body);
            assert!([200, 400].contains(&answer.status), "{path}: {}", answer.body);
        });
        // the parts of a body that come one after the other, and a few dozen for any request
        assert!(count < plain + 2500, "{path}: {count} allocations, {plain} for a short request");
    }
}

/// Splitting a text into tokens can take much longer than reading it.
#[test]
fn texts_that_fit_in_no_context_are_not_split_into_tokens() {
    let server = Server::start(&Kind { context: 64, ..Kind::default() });
    let long = "a".repeat(1 << 20);
    for (path, body) in [
        ("/tokenize", json!({ "content": long })),
        ("/v1/completions", json!({ "prompt": long })),
        ("/v1/completions", json!({ "prompt": ["a", long] })),
        ("/completion", json!({ "prompt": [1, long] })),
        (CHAT, ask(&long)),
        ("/api/generate", json!({ "prompt": long, "raw": true })),
        ("/v1/embeddings", json!({ "input": long })),
    ] {
        let refusal = server.post(path, &body);
        assert_eq!(refusal.status, 400, "{path}: {}", refusal.body);
        assert!(refusal.body.contains("bytes are at least"), "{path}: {}", refusal.body);
    }
    let error = &server.post(CHAT, &ask(&long)).json()["error"];
    assert_eq!((&error["code"], &error["n_ctx"]), (&json!("context_length_exceeded"), &json!(64)));
    assert!(error["n_prompt_tokens"].as_u64().is_some_and(|tokens| tokens > 64));
    // Ollama cuts a text for an embedding, unless it is told not to
    let embed = |truncate: bool| server.post("/api/embed", &json!({ "input": long, "truncate": truncate }));
    assert_eq!(embed(true).ok()["prompt_eval_count"], 63);
    assert_eq!(embed(false).status, 400);
    // more ids than the context holds
    let ids = |count: usize| json!({ "prompt": vec![7; count], "max_tokens": 1 });
    assert_eq!(server.post("/v1/completions", &ids(63)).status, 200);
    assert_eq!(server.post("/v1/completions", &ids(64)).status, 400);
    assert_eq!(server.post("/detokenize", &json!({ "tokens": vec![7; 65] })).status, 400);
}

/// All of these are searched for with every token.
#[test]
fn stop_texts_and_breakers_have_limits() {
    let server = Server::start(&Kind::default());
    let chat =
        |fields: Value| server.post(CHAT, &with(with(ask("[[abc]]"), json!({ "max_tokens": 8 })), fields));
    let stop = |count: usize, bytes: usize| chat(json!({ "stop": vec!["x".repeat(bytes); count] }));
    assert_eq!(stop(256, 64).status, 200);
    for refusal in [stop(256, 65), stop(257, 1), stop(1, 16_385)] {
        assert_eq!((refusal.status, &refusal.json()["error"]["param"]), (400, &json!("stop")));
    }
    let messages = json!({ "stop_sequences": ["x".repeat(16_385)], "max_tokens": 4 });
    let refusal = server.post("/v1/messages", &with(ask("[[abc]]"), messages));
    assert!(refusal.status == 400 && refusal.body.contains("stop_sequences"), "{}", refusal.body);
    let dry = |count: usize, bytes: usize| {
        let texts = vec!["x".repeat(bytes); count];
        chat(json!({ "dry_multiplier": 1, "dry_sequence_breakers": texts }))
    };
    assert_eq!(dry(64, 8).status, 200);
    for refusal in [dry(64, 9), dry(65, 1), dry(1, 513)] {
        assert_eq!(
            (refusal.status, &refusal.json()["error"]["param"]),
            (400, &json!("dry_sequence_breakers"))
        );
    }
    let fields = json!({ "prompt": "[[a]]", "response_fields": vec!["content"; 65] });
    assert_eq!(server.post("/completion", &fields).json()["error"]["param"], "response_fields");
}

/// Others must find room in the queue, whatever one client asks for.
#[test]
fn a_client_gets_a_quarter_of_the_queue() {
    let mut kind = Kind { parallel: 1, waiting: 8, ..Kind::endless() };
    kind.settings.api_keys = vec!["one".into(), "two".into()];
    let server = Server::start(&kind);
    let go = |answers: u32| with(ask("[[go]]"), json!({ "ignore_eos": true, "stream": true, "n": answers }));
    // one runs, and two of eight may wait
    let too_many = server.send("POST", CHAT, &[("x-api-key", "one")], &go(4).to_string());
    assert_eq!((too_many.status, &too_many.json()["error"]["param"]), (400, &json!("n")));
    let prompts = json!({ "prompt": ["a", "b"], "n": 2 }).to_string();
    assert_eq!(server.send("POST", "/v1/completions", &[("x-api-key", "one")], &prompts).status, 400);
    let mut first = server.open("POST", CHAT, &[("x-api-key", "one")], &go(3).to_string());
    read_to(&mut first, "data: ");
    let more = || server.send("POST", CHAT, &[("x-api-key", "one")], &ask("[[a]]").to_string());
    assert_eq!(more().status, 429);
    assert_eq!(more().header("retry-after"), Some("1"));
    let mut second = server.open("POST", CHAT, &[("x-api-key", "two")], &go(3).to_string());
    read_to(&mut second, "data: ");
    drop((first, second));
    until("its share is free", || more().status == 200);
}

/// A client without a key that only connects must not keep a health check or another address out.
#[test]
fn probes_are_answered_while_others_hold_every_slot() {
    let mut kind = Kind::default();
    kind.settings.connections = 64;
    kind.settings.head_timeout = PATIENCE;
    let server = Server::start(&kind);
    let connect = || {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut held: Vec<TcpStream> = (0..32).map(|_| connect()).collect();
    // all are taken up before this one, which finds no place
    let mut refused = connect();
    refused.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    read_to(&mut refused, "HTTP/1.1 503 Service Unavailable\r\n");
    for _ in 0..100 {
        assert_eq!(server.get("/health").status, 200);
    }
    held.truncate(16);
    let body = ask("[[a]]").to_string();
    until("there are places again", || {
        let mut answer = Vec::new();
        // a connection without a place may be reset
        _ = server.open("POST", CHAT, &[], &body).read_to_end(&mut answer);
        answer.starts_with(b"HTTP/1.1 200 OK")
    });
}

/// A head that never ends is given up long before an idle connection is.
#[test]
fn heads_are_short_and_come_in_time() {
    let mut kind = Kind::default();
    kind.settings.head_timeout = Duration::from_millis(100);
    kind.settings.idle_timeout = PATIENCE;
    let server = Server::start(&kind);
    let ended = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        // closed in order, or reset
        _ = stream.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    };
    let half = |before: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(before.as_bytes()).unwrap();
        stream
    };
    // nothing at all, a first head, and a second one
    ended(half(""));
    ended(half("POST /v1/chat/completions HTTP/1.1\r\nhost: lo"));
    let body = ask("[[a]]").to_string();
    let request =
        format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut second = half(&request);
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    read_to(&mut second, "\r\n\r\n{");
    read_to(&mut second, "}}");
    second.write_all(b"POST /v1").unwrap();
    ended(second);
    // a head that is too long is refused with less memory than it could have
    let mut long = half("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n");
    _ = long.write_all(format!("x: {}\r\n\r\n", "y".repeat(100 << 10)).as_bytes());
    // the refusal, unless the connection is reset before it is read
    assert!(!ended(long).contains("HTTP/1.1 200"));
    assert_eq!(server.post(CHAT, &ask("[[a]]")).status, 200);
}

/// A refusal quotes only the beginning of what a request says.
#[test]
fn refusals_do_not_repeat_the_request() {
    let server = Server::start(&Kind::default());
    let long = "z".repeat(1 << 20);
    for (path, body) in [
        (CHAT, json!({ "messages": [{ "role": "user", "content": [{ "type": long, "text": "a" }] }] })),
        (
            "/v1/messages",
            json!({ "max_tokens": 1, "messages": [{ "role": "user", "content": [{ "type": long }] }] }),
        ),
        (CHAT, with(ask("a"), json!({ "response_format": { "type": long } }))),
        (CHAT, with(ask("a"), json!({ "grammar": format!("root ::= {long}") }))),
        (
            CHAT,
            with(
                ask("a"),
                json!({ "tools": [{ "type": "function", "function": { "name": "f" } }],
            "tool_choice": { "type": "function", "function": { "name": long } } }),
            ),
        ),
        ("/v1/responses", json!({ "input": "a", "text": { "format": { "type": long } } })),
    ] {
        let refusal = server.post(path, &body);
        assert!([400, 404].contains(&refusal.status), "{path}: {}", refusal.status);
        assert!(refusal.body.len() < 2048, "{path}: {} bytes", refusal.body.len());
    }
    for path in ["/v1/", "/v1/models/"].map(|path| format!("{path}{}", "z".repeat(10_000))) {
        let refusal = server.get(&path);
        assert_eq!(refusal.status, 404);
        assert!(refusal.body.len() < 1024, "{} bytes", refusal.body.len());
    }
}
