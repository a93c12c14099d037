//! Many clients that disconnect, read slowly or send wrong data: a small crowd in every run; `cargo xtask chaos` sends large ones.

use crate::chat::{ask, with};
use crate::client::Server;
use crate::serving::Kind;
use core::time::Duration;
use doorbell_tests::random::Random;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;

fn misbehave(server: &Server, number: u64) {
    let mut random = Random::new(number);
    let body = with(
        ask("[[go]]"),
        json!({ "ignore_eos": true, "stream": number.is_multiple_of(2), "max_tokens": 300 }),
    );
    let body = body.to_string();
    let whole = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    let mut connection = TcpStream::connect(server.address).unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut bytes = whole.into_bytes();
    match number % 4 {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        _ => {}
    }
    connection.write_all(&bytes).unwrap();
    let mut some = vec![0; random.below(300)];
    // an answer may come or not, and the client need not read all of it
    _ = connection.read(&mut some);
}

#[test]
fn clients_that_misbehave_leave_nothing_behind() {
    let kind = Kind { parallel: 3, waiting: 6, pause: Duration::from_micros(200), ..Kind::default() };
    let server = Server::start(&kind);
    std::thread::scope(|scope| {
        for thread in 0..12_u64 {
            let server = &server;
            scope.spawn(move || (0..20).for_each(|number| misbehave(server, thread * 20 + number)));
        }
        for _ in 0..20 {
            assert_eq!(server.get("/health").status, 200);
        }
    });
    server.wait_idle();
    let answer = server.post("/v1/chat/completions", &ask("[[fine]]")).ok();
    assert_eq!(answer["choices"][0]["message"]["content"], "fine");
}
