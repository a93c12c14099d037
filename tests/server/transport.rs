//! HTTP as clients and proxies use it: old versions, several requests per connection, odd spellings, silence.

use crate::chat::{ask, with};
use crate::client::{PATIENCE, Server, until};
use crate::serving::{Kind, file, served};
use core::net::SocketAddr;
use core::time::Duration;
use doorbell_server::{Server as Listening, ServerError};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// A connection on which a server that hangs fails the test instead of hanging it.
fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads up to a text, which must come.
#[track_caller]
pub(crate) fn read_to(stream: &mut TcpStream, text: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(text.as_bytes()) {
        let mut byte = [0];
        let seen = stream.read(&mut byte).unwrap();
        assert_eq!(seen, 1, "the end came before {text:?}: {}", String::from_utf8_lossy(&bytes));
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads until the server closes the connection.
fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A request with further header lines.
fn post(more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{more}content-length: {length}\r\n\r\n{body}"
    )
}

/// The contents of answers one after the other.
fn contents(answers: &str) -> Vec<String> {
    let documents = answers.split("\r\n\r\n").skip(1);
    let document = |text: &str| serde_json::Deserializer::from_str(text).into_iter::<Value>().next();
    let read = |text| document(text).unwrap().unwrap()["choices"][0]["message"]["content"].to_string();
    documents.map(read).collect()
}

#[test]
fn requests_that_come_at_once_are_answered_in_order() {
    let server = Server::start(&Kind::default());
    let [first, second] = ["[[one]]", "[[two]]"].map(|text| ask(text).to_string());
    let mut stream = connect(&server);
    let all = [post("", &first), post("", &second), post("connection: close\r\n", &first)].concat();
    stream.write_all(all.as_bytes()).unwrap();
    assert_eq!(contents(&read_all(stream)), ["\"one\"", "\"two\"", "\"one\""]);
}

#[test]
fn a_connection_goes_on_after_a_stream() {
    let server = Server::start(&Kind::default());
    let mut stream = connect(&server);
    for _ in 0..3 {
        let body = with(ask("[[a]]"), json!({ "stream": true })).to_string();
        stream.write_all(post("", &body).as_bytes()).unwrap();
        let answer = read_to(&mut stream, "0\r\n\r\n");
        assert!(answer.contains("data: [DONE]"), "{answer}");
    }
}

/// HTTP/1.0 as proxies with default settings use it: no chunks, and the end of the connection ends the answer.
#[test]
fn streams_reach_clients_of_http_1_0() {
    let server = Server::start(&Kind::default());
    let mut stream = connect(&server);
    let body = with(ask("[[ab]]"), json!({ "stream": true })).to_string();
    let request = post("", &body).replace("HTTP/1.1", "HTTP/1.0").replace("host: localhost\r\n", "");
    stream.write_all(request.as_bytes()).unwrap();
    let answer = read_all(stream);
    let (head, events) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
    assert!(events.starts_with("data: {") && events.ends_with("data: [DONE]\n\n"), "{events}");
}

/// curl sends a large body only after `100 Continue`.
#[test]
fn a_large_body_is_requested_if_it_will_be_read() {
    let mut kind = Kind::default();
    kind.settings.body_limit = 4096;
    let server = Server::start(&kind);
    let body = ask("[[a]]").to_string();
    let request = post("expect: 100-continue\r\nconnection: close\r\n", &body);
    let (head, body) = request.split_at(request.len() - body.len());
    let mut stream = connect(&server);
    stream.write_all(head.as_bytes()).unwrap();
    assert!(read_to(&mut stream, "\r\n\r\n").starts_with("HTTP/1.1 100"));
    stream.write_all(body.as_bytes()).unwrap();
    assert_eq!(contents(&read_all(stream)), ["\"a\""]);
    // a body that is too large need not be sent
    let mut stream = connect(&server);
    let head = post("expect: 100-continue\r\n", &"x".repeat(5000));
    stream.write_all(head.split_once("\r\n\r\n").unwrap().0.as_bytes()).unwrap();
    stream.write_all(b"\r\n\r\n").unwrap();
    assert!(read_to(&mut stream, "\r\n\r\n").starts_with("HTTP/1.1 413"));
}

/// A refusal is sent before the body has arrived. A client that sends the body anyway gets it, not a broken connection.
#[test]
fn a_refusal_reaches_a_client_that_goes_on_sending() {
    let mut kind = Kind::default();
    kind.settings.body_limit = 4096;
    let server = Server::start(&kind);
    let body = "x".repeat(1 << 20);
    for (path, status) in [("/v1/chat/completions", 413), ("/v1/nothing", 404)] {
        let request = post("", &body).replace("/v1/chat/completions", path);
        let mut stream = connect(&server);
        stream.write_all(&request.as_bytes()[..request.len() - body.len()]).unwrap();
        assert!(read_to(&mut stream, "\r\n\r\n").starts_with(&format!("HTTP/1.1 {status} ")));
        body.as_bytes().chunks(1000).for_each(|part| stream.write_all(part).unwrap());
        assert!(read_all(stream).ends_with('}'));
    }
}

/// Java's client offers an upgrade to HTTP/2, which the server ignores.
#[test]
fn an_upgrade_to_http_2_is_ignored() {
    let server = Server::start(&Kind::default());
    let mut stream = connect(&server);
    let offer = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n";
    let both =
        [post(offer, &ask("[[a]]").to_string()), post("connection: close\r\n", &ask("[[b]]").to_string())];
    stream.write_all(both.concat().as_bytes()).unwrap();
    assert_eq!(contents(&read_all(stream)), ["\"a\"", "\"b\""]);
}

#[test]
fn a_path_may_end_in_a_slash_and_be_asked_for_its_head() {
    let server = Server::start(&Kind::default());
    for path in [
        "/health/",
        "/v1/models/",
        "/api/v1/health/",
        "/api/tags/",
        "//v1/models",
        "//health",
        "//v1/models/",
    ] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let body = ask("[[a]]");
    assert_eq!(server.post("/v1/chat/completions/", &body).status, 200);
    for path in ["/health", "/live", "/metrics", "/v1/models", "/"] {
        let answer = server.send("HEAD", path, &[], "");
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.is_empty() && answer.header("content-length").is_some(), "{answer:?}");
    }
    // a slash after a name is a part of the name
    assert_eq!(server.get("/v1/models/none/").status, 404);
}

#[test]
fn bodies_are_read_with_any_content_type() {
    let server = Server::start(&Kind::default());
    let status = |head: &str, body: &[u8]| {
        let mut stream = connect(&server);
        let length = body.len();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\n{head}content-length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let answer = read_all(stream);
        (answer[9..12].to_owned(), answer)
    };
    let body = ask("[[a]]").to_string();
    // no content type, a wrong one, and a byte order mark
    assert_eq!(status("", body.as_bytes()).0, "200");
    assert_eq!(status("content-type: text/plain\r\n", body.as_bytes()).0, "200");
    assert_eq!(status("", format!("\u{feff}{body}").as_bytes()).0, "200");
    assert_eq!(status("content-encoding: identity\r\n", body.as_bytes()).0, "200");
    // half of a character's escapes, where a client has cut a text
    let (answered, cut) = status("", body.replacen("[[a]]", "[[a]] \\ud83d", 1).as_bytes());
    assert_eq!((answered.as_str(), contents(&cut)), ("200", vec!["\"a\"".to_owned()]));
    // of two fields with the same name the last one counts, as in other servers
    let (_, twice) = status("", body.replacen('{', "{\"messages\":3,", 1).as_bytes());
    assert_eq!(contents(&twice), ["\"a\""]);
    // compressed bodies are refused with a message, not taken for broken JSON
    let (refusal, words) = status("content-encoding: gzip\r\n", b"\x1f\x8b\x08\0\0\0\0\0\0\x03");
    assert_eq!(refusal, "415");
    assert!(words.contains("gzip"), "{words}");
}

#[test]
fn a_whole_address_may_stand_in_the_first_line() {
    let server = Server::start(&Kind::default());
    let mut stream = connect(&server);
    let address = server.address;
    write!(stream, "GET http://{address}/v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
        .unwrap();
    assert!(read_all(stream).starts_with("HTTP/1.1 200"));
}

#[test]
fn ipv6_addresses_work() {
    let mut kind = Kind::default();
    kind.settings.address = "[::1]:0".parse().unwrap();
    if TcpListener::bind(kind.settings.address).is_err() {
        return; // a machine without IPv6
    }
    let server = Server::start(&kind);
    assert_eq!(server.get("/v1/models").status, 200);
    assert_eq!(server.post("/v1/chat/completions", &ask("[[a]]")).status, 200);
}

/// A client that disconnects gives no other sign.
#[test]
fn a_client_that_closes_its_side_counts_as_disconnected() {
    let mut kind = Kind::endless();
    kind.settings.idle_timeout = Duration::from_secs(3600);
    let server = Server::start(&kind);
    for word in ["", "G", "GET /hea", "GET /v1/mod"] {
        let mut client = connect(&server);
        client.write_all(word.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(client), "", "{word}");
    }
    let requests = || server.get("/health").json()["requests"].clone();
    for stream in [false, true] {
        let mut client = connect(&server);
        let body = with(ask("[[go]]"), json!({ "ignore_eos": true, "stream": stream }));
        client.write_all(post("", &body.to_string()).as_bytes()).unwrap();
        until("it runs", || requests() == json!({ "running": 1, "waiting": 0 }));
        client.shutdown(Shutdown::Write).unwrap();
        // an answer would go on for longer than the client waits
        read_all(client);
        server.wait_idle();
    }
}

/// Clients that stop reading must not hold sockets for ever.
#[test]
fn idle_connections_are_closed() {
    let mut kind = Kind { pause: Duration::from_millis(200), ..Kind::default() };
    kind.settings.idle_timeout = Duration::from_millis(500);
    let server = Server::start(&kind);
    let words = ["", "G", "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n", "GET /health HTT"];
    let silent = words.map(|word| {
        let mut stream = connect(&server);
        // on a busy machine the timeout may be over already
        _ = stream.write_all(word.as_bytes());
        stream
    });
    for mut stream in silent {
        // the request may never have been read
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    }
    // an answer may take longer than the timeout
    let body = with(ask("[[abc]]"), json!({ "stream": true })).to_string();
    let request = post("", &body);
    let answer = || {
        let mut stream = connect(&server);
        _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    };
    let mut answered = String::new();
    // if the request itself was not too slow
    until("it is answered", || {
        answered = answer();
        !answered.is_empty()
    });
    assert!(answered.contains("data: [DONE]"), "{answered}");
}

#[test]
fn an_address_in_use_is_reported_with_a_remedy() {
    let refusal = |address: SocketAddr| {
        let mut kind = Kind::default();
        kind.settings.address = address;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bound = runtime.block_on(Listening::bind(served(&kind, file(&kind)), kind.settings));
        let Err(error) = bound else { panic!("{address} can be had") };
        assert!(matches!(error, ServerError::Listen { .. }));
        error.to_string()
    };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = refusal(other.local_addr().unwrap());
    assert!(taken.contains("choose another --port"), "{taken}");
    // an address reserved for documentation
    let foreign = refusal(SocketAddr::from(([192, 0, 2, 1], 0)));
    assert!(foreign.contains("--host"), "{foreign}");
}
