//! A server of the scripted model, for clients of other languages: prints its address, and ends when stdin does. A step
//! takes DOORBELL_SCRIPT_PAUSE_US microseconds.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

#[path = "../server/serving.rs"]
mod serving;

use core::time::Duration;
use serving::{Kind, bind};
use std::io::Read as _;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let template = std::env::args().nth(1).map(|path| std::fs::read_to_string(path).unwrap());
        let template = template.map(|template| &*Box::leak(template.into_boxed_str()));
        let pause = std::env::var("DOORBELL_SCRIPT_PAUSE_US").map_or(0, |value| value.parse().unwrap());
        let pause = Duration::from_micros(pause);
        let server = bind(&Kind { context: 8192, template, pause, ..Kind::default() }).await;
        println!("{}", server.address().unwrap());
        let (sender, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            _ = std::io::stdin().read_to_end(&mut Vec::new());
            _ = sender.send(());
        });
        server.run(async { _ = ended.await }).await.unwrap();
    });
}
