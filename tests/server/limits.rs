//! Keys, origins, sizes, queues, clients that disconnect, and the end of the server.

use crate::chat::{ask, with};
use crate::client::{PATIENCE, Server, until};
use crate::serving::Kind;
use crate::transport::read_to;
use core::time::Duration;
use serde_json::json;
use std::io::{Read, Write};
use std::sync::mpsc::channel;

/// A request that goes on until it is cancelled.
fn endless() -> String {
    with(ask("[[go]]"), json!({ "ignore_eos": true, "stream": true })).to_string()
}

#[test]
fn keys_are_asked_for_where_something_is_computed() {
    let mut kind = Kind::default();
    kind.settings.api_keys = vec!["secret".into()];
    let server = Server::start(&kind);
    let body = ask("[[a]]").to_string();
    let status =
        |headers: &[(&str, &str)]| server.send("POST", "/v1/chat/completions", headers, &body).status;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("authorization", "Bearer wrong")]), 401);
    assert_eq!(status(&[("authorization", "Bearer secret")]), 200);
    assert_eq!(status(&[("x-api-key", "secret")]), 200);
    assert_eq!(status(&[("x-api-key", "secret"), ("authorization", "Bearer of-another-server")]), 200);
    assert_eq!(status(&[("x-api-key", "secret2"), ("authorization", "Basic secret")]), 401);
    let refusal = server.send("POST", "/v1/chat/completions", &[], &body).json();
    assert_eq!(refusal["error"]["type"], "authentication_error");
    assert_eq!(refusal["error"]["code"], 401);
    for open in ["/health", "/v1/health", "/v1/models", "/live", "/"] {
        assert_eq!(server.get(open).status, 200, "{open}");
    }
    assert_eq!(server.get("/props").status, 401);
    assert_eq!(server.get("/metrics").status, 401);
}

#[test]
fn pages_of_unknown_origins_are_refused() {
    let mut kind = Kind::default();
    kind.settings.origins = vec!["https://chat.example".into(), "chrome-extension://*".into()];
    let server = Server::start(&kind);
    let from = |headers: &[(&str, &str)]| server.send("GET", "/v1/models", headers, "");
    assert_eq!(from(&[("origin", "https://evil.example")]).status, 403);
    assert_eq!(from(&[("origin", "null")]).status, 403);
    let allowed = from(&[("origin", "https://chat.example")]);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://chat.example"));
    let own = format!("http://{}", server.address);
    assert_eq!(from(&[("origin", &own)]).status, 200);
    assert_eq!(from(&[("origin", "chrome-extension://abcdefghijklmnop")]).status, 200);
    assert_eq!(from(&[("origin", "moz-extension://abcdefghijklmnop")]).status, 403);
    assert_eq!(from(&[("origin", "http://localhost:3000")]).status, 200);
    // a foreign host name that resolves to this machine
    let rebound = from(&[("host", "evil.example:80")]);
    assert_eq!(rebound.status, 403);
    assert!(rebound.body.contains("--api-key"), "{}", rebound.body);
    assert_eq!(from(&[("host", "LocalHost:80")]).status, 200);
    let before = [("origin", "https://chat.example"), ("access-control-request-headers", "authorization")];
    let preflight = server.send("OPTIONS", "/v1/chat/completions", &before, "");
    assert_eq!(preflight.status, 200);
    assert_eq!(preflight.header("access-control-allow-headers"), Some("authorization"));
    assert_eq!(server.send("OPTIONS", "/v1/models", &[("origin", "https://evil.example")], "").status, 403);
}

#[test]
fn bodies_that_are_too_large_or_broken_are_refused() {
    let mut kind = Kind::default();
    kind.settings.body_limit = 4096;
    let server = Server::start(&kind);
    let large = server.send("POST", "/v1/chat/completions", &[], &"x".repeat(5000));
    assert_eq!(large.status, 413);
    for body in [
        "",
        "{",
        "[]",
        "\"text\"",
        "{\"messages\": 3}",
        "{\"messages\": []}",
        "{\"messages\": [1]}",
        "{\"messages\": [{\"role\": 1}]}",
        "{\"messages\": [{\"role\": \"user\", \"content\": 5}]}",
        "\u{0}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"temperature\":\"hot\"}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"n\":0}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"top_p\":-1}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"temperature\":1e999}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
    ] {
        let answer = server.send("POST", "/v1/chat/completions", &[], body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!(error["type"], "invalid_request_error", "{body}");
        assert!(error["message"].is_string() && error.get("param").is_some());
    }
    let deep = format!("{}1{}", "[".repeat(1000), "]".repeat(1000));
    assert_eq!(server.send("POST", "/v1/chat/completions", &[], &deep).status, 400);
    assert_eq!(server.post("/v1/chat/completions", &ask("[[a]]")).status, 200);
}

/// A client without a key must not fill the memory either.
#[test]
fn bodies_take_no_more_room_than_there_is() {
    let mut kind = Kind::default();
    kind.settings.body_limit = 4096;
    let server = Server::start(&kind);
    // the server does not wait for the body of a GET request
    for path in ["/health", "/v1/models", "/"] {
        let mut stream = server.open("GET", path, &[("expect", "no-body")], "");
        read_to(&mut stream, "HTTP/1.1 200 OK\r\n");
        let mut stream = std::net::TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4096\r\n\r\n").unwrap();
        read_to(&mut stream, "HTTP/1.1 200 OK\r\n");
    }
    let body = ask("[[a]]").to_string();
    let status = || server.send("POST", "/v1/chat/completions", &[], &body).status;
    // bodies that are not sent completely
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4096\r\n\r\n";
    let mut held = Vec::new();
    until("there is no room left", || {
        let mut stream = std::net::TcpStream::connect(server.address).unwrap();
        stream.write_all([head, &" ".repeat(4095)].concat().as_bytes()).unwrap();
        held.push(stream);
        status() == 429
    });
    assert!(held.len() >= 4);
    assert_eq!(server.get("/health").status, 200);
    drop(held);
    until("there is room again", || status() == 200);
    // a body that breaks off is not reported as too large
    let mut broken = std::net::TcpStream::connect(server.address).unwrap();
    broken.set_read_timeout(Some(PATIENCE)).unwrap();
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
    broken.write_all(head.as_bytes()).unwrap();
    read_to(&mut broken, "HTTP/1.1 400 Bad Request\r\n");
}

#[test]
fn the_field_at_fault_is_named() {
    let server = Server::start(&Kind::default());
    let refusal = server.post("/v1/chat/completions", &with(ask("a"), json!({ "temperature": "hot" })));
    assert_eq!(refusal.json()["error"]["param"], "temperature");
    let body = json!({ "messages": [{ "role": "user", "content": "a" }, { "content": "b" }] });
    assert_eq!(server.post("/v1/chat/completions", &body).json()["error"]["param"], "messages[1].role");
}

#[test]
fn unknown_fields_are_ignored() {
    let server = Server::start(&Kind::default());
    let fields = json!({ "user": "me", "store": true, "metadata": { "a": 1 }, "no_such_field": [1], "seed": null,
        "stop": null, "tools": null, "stream_options": null, "service_tier": "auto" });
    assert_eq!(server.post("/v1/chat/completions", &with(ask("[[a]]"), fields)).status, 200);
}

#[test]
fn a_full_queue_is_refused_with_a_retry_time() {
    let server = Server::start(&Kind { parallel: 1, waiting: 1, ..Kind::endless() });
    let requests = || server.get("/health").json()["requests"].clone();
    let first = server.open("POST", "/v1/chat/completions", &[], &endless());
    until("the first runs", || requests() == json!({ "running": 1, "waiting": 0 }));
    let second = server.open("POST", "/v1/chat/completions", &[], &endless());
    until("the second waits", || requests()["waiting"] == 1);
    let refusal = server.post("/v1/chat/completions", &ask("[[a]]"));
    assert_eq!(refusal.status, 429);
    assert_eq!(refusal.header("retry-after"), Some("1"));
    drop((first, second));
    server.wait_idle();
    assert_eq!(server.post("/v1/chat/completions", &ask("[[a]]")).status, 200);
}

#[test]
fn requests_in_progress_are_limited() {
    let mut kind = Kind::endless();
    kind.settings.concurrency = 1;
    let server = Server::start(&kind);
    let mut first = server.open("POST", "/v1/chat/completions", &[], &endless());
    first.read_exact(&mut [0; 64]).unwrap();
    assert_eq!(server.post("/v1/chat/completions", &ask("[[a]]")).status, 429);
    assert_eq!(server.get("/health").status, 200);
    drop(first);
    server.wait_idle();
}

/// A client that sends slowly does not count as a request in progress, and does not delay the end.
#[test]
fn half_a_request_does_not_count_as_in_progress() {
    let mut kind = Kind::default();
    kind.settings.concurrency = 1;
    kind.settings.drain_timeout = PATIENCE;
    let mut server = Server::start(&kind);
    let halves: Vec<_> = (0..8)
        .map(|_| {
            let mut half = std::net::TcpStream::connect(server.address).unwrap();
            half.write_all(
                b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
            )
            .unwrap();
            half
        })
        .collect();
    for _ in 0..8 {
        assert_eq!(server.post("/v1/chat/completions", &ask("[[a]]")).status, 200);
    }
    server.stop();
    drop(halves);
}

#[test]
fn clients_that_disconnect_leave_nothing_behind() {
    let kind = Kind { pause: Duration::from_millis(1), ..Kind::default() };
    let server = Server::start(&kind);
    let whole = with(ask("[[go]]"), json!({ "ignore_eos": true })).to_string();
    for round in 0..200 {
        let body = if round % 2 == 0 { endless() } else { whole.clone() };
        let mut stream = server.open("POST", "/v1/chat/completions", &[], &body);
        if round % 4 == 0 {
            // or less, if the server closes first because the queue is full
            _ = stream.read_exact(&mut [0; 200]);
        }
    }
    server.wait_idle();
    // half a request, and one that is invalid
    let mut half = std::net::TcpStream::connect(server.address).unwrap();
    half.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        .unwrap();
    drop(half);
    let mut none = std::net::TcpStream::connect(server.address).unwrap();
    none.write_all(&[0xff; 100]).unwrap();
    drop(none);
    assert_eq!(server.post("/v1/chat/completions", &ask("[[still here]]")).status, 200);
    server.wait_idle();
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let mut kind = Kind { context: 4096, ..Kind::default() };
    kind.settings.concurrency = 1;
    kind.settings.idle_timeout = Duration::from_millis(100);
    let server = Server::start(&kind);
    // more than the system buffers for a client: 20 tokens with their probabilities for each token
    let much = json!({ "ignore_eos": true, "stream": true, "logprobs": true, "top_logprobs": 20 });
    let body = with(ask("[[go]]"), much).to_string();
    let open = || server.open("POST", "/v1/chat/completions", &[], &body);
    let mut stream = open();
    until("it has its place", || {
        let taken = server.post("/v1/chat/completions", &ask("[[a]]")).status == 429;
        if !taken {
            // the short request may have come first, and this one was refused
            stream = open();
        }
        taken
    });
    until("its place is free", || server.post("/v1/chat/completions", &ask("[[a]]")).status == 200);
    drop(stream);
}

#[test]
fn silence_is_filled_with_comments() {
    let mut kind = Kind { pause: Duration::from_millis(100), ..Kind::endless() };
    kind.settings.keep_alive_interval = Duration::from_millis(10);
    let server = Server::start(&kind);
    // every token takes long enough for comments, unless the machine is busy
    let mut stream = server.open("POST", "/v1/chat/completions", &[], &endless());
    read_to(&mut stream, ": keep-alive\n\n");
    drop(stream);
    let answer = server.post("/v1/chat/completions", &with(ask("[[ab]]"), json!({ "stream": true })));
    assert_eq!(crate::chat::joined(&answer.events(), 0, "content"), "ab");
}

#[test]
fn the_end_lets_answers_finish() {
    let mut kind = Kind { pause: Duration::from_millis(5), ..Kind::default() };
    kind.settings.drain_timeout = PATIENCE;
    let mut server = Server::start(&kind);
    let body = with(ask("[[a whole sentence]]"), json!({ "stream": true })).to_string();
    let mut stream = server.open("POST", "/v1/chat/completions", &[], &body);
    stream.read_exact(&mut [0; 64]).unwrap();
    server.stop();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("[DONE]"), "{rest}");
}

#[test]
fn the_end_does_not_wait_for_ever() {
    let mut kind = Kind::endless();
    kind.settings.drain_timeout = Duration::from_millis(100);
    kind.settings.final_write_timeout = PATIENCE;
    let mut server = Server::start(&kind);
    let mut stream = server.open("POST", "/v1/chat/completions", &[], &endless());
    stream.read_exact(&mut [0; 64]).unwrap();
    std::thread::scope(|scope| {
        let rest = scope.spawn(|| {
            let mut rest = String::new();
            stream.read_to_string(&mut rest).unwrap();
            drop(stream);
            rest
        });
        server.stop();
        let rest = rest.join().unwrap();
        assert!(rest.contains("shutting down"), "{rest}");
    });
}

/// No client takes a part for the whole answer, even if the engine is in the middle of a step.
#[test]
fn the_end_of_the_server_is_an_event_in_streams() {
    let chat = with(ask("[[go]]"), json!({ "stream": true, "max_tokens": 5 }));
    for (path, body, expected) in [
        ("/v1/chat/completions", &chat, "data: {\"error\":"),
        ("/v1/completions", &json!({ "prompt": "[[go]]", "stream": true }), "data: {\"error\":"),
        ("/completion", &json!({ "prompt": "[[go]]", "stream": true }), "data: {\"error\":"),
        ("/v1/responses", &json!({ "input": "[[go]]", "stream": true }), "event: response.failed\n"),
        ("/v1/messages", &chat, "event: error\n"),
        ("/api/chat", &chat, "{\"error\":"),
    ] {
        let (steps, begun) = channel();
        let mut kind = Kind { pause: 2 * PATIENCE, steps: Some(steps), ..Kind::default() };
        kind.settings.drain_timeout = Duration::ZERO;
        kind.settings.final_write_timeout = PATIENCE;
        let mut server = Server::start(&kind);
        let mut stream = server.open("POST", path, &[], &body.to_string());
        begun.recv_timeout(PATIENCE).unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| server.stop());
            let mut rest = String::new();
            stream.read_to_string(&mut rest).unwrap();
            drop(stream);
            assert!(rest.contains(expected) && rest.contains("shutting down"), "{path}: {rest}");
            assert!(rest.ends_with("0\r\n\r\n"), "{path}: {rest}");
        });
    }
}

/// The same in the middle of a step that takes longer than any test waits.
#[test]
fn the_end_of_the_server_is_an_error_for_whole_answers() {
    let (steps, begun) = channel();
    let mut kind = Kind { pause: 2 * PATIENCE, steps: Some(steps), ..Kind::default() };
    kind.settings.drain_timeout = Duration::from_millis(100);
    kind.settings.final_write_timeout = PATIENCE;
    let mut server = Server::start(&kind);
    let mut waiting = server.open("POST", "/v1/chat/completions", &[], &ask("[[go]]").to_string());
    // earlier, the end of the engine itself would answer
    begun.recv_timeout(PATIENCE).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.stop());
        let mut answer = String::new();
        waiting.read_to_string(&mut answer).unwrap();
        drop(waiting);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("\"type\":\"unavailable_error\""), "{answer}");
    });
}
