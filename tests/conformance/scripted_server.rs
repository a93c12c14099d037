//! A server of the scripted model, for clients of other languages: prints its address, and ends when stdin does. A step
//! takes DOORBELL_SCRIPT_PAUSE_US microseconds.
//!
//! Usage: `scripted_server [TEMPLATE [TURNS PROMPTS]]`. TEMPLATE is a file with a chat template. TURNS is a JSON list of
//! answers, one for each turn of the assistant; every prompt is appended to PROMPTS as a line of JSON.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

#[path = "../server/serving.rs"]
mod serving;

use core::time::Duration;
use doorbell_tests::scripted::Turns;
use serving::{Kind, bind};
use std::fs::File;
use std::io::{Read as _, Write as _};

/// Tokens of a conversation with an agent, whose tools alone take tens of thousands of bytes.
const AGENT_CONTEXT: u32 = 1 << 18;

/// The answers of a file, and a thread that writes prompts into another.
fn turns(answers: &str, prompts: &str) -> Turns {
    let answers = serde_json::from_slice(&std::fs::read(answers).unwrap()).unwrap();
    let mut file = File::create(prompts).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel::<String>();
    std::thread::spawn(move || {
        for prompt in receiver {
            writeln!(file, "{}", serde_json::Value::from(prompt)).unwrap();
        }
    });
    Turns { answers, prompts: sender }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let template = arguments.first().map(|path| std::fs::read_to_string(path).unwrap());
        let template = template.map(|template| &*Box::leak(template.into_boxed_str()));
        let pause = std::env::var("DOORBELL_SCRIPT_PAUSE_US").map_or(0, |value| value.parse().unwrap());
        let pause = Duration::from_micros(pause);
        let mut kind = Kind { context: 8192, template, pause, ..Kind::default() };
        if let Some([answers, prompts]) = arguments.get(1..3) {
            kind = Kind {
                context: AGENT_CONTEXT,
                batch_rows: 1024,
                turns: Some(turns(answers, prompts)),
                ..kind
            };
        }
        let server = bind(&kind).await;
        println!("{}", server.address().unwrap());
        let (sender, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            _ = std::io::stdin().read_to_end(&mut Vec::new());
            _ = sender.send(());
        });
        server.run(async { _ = ended.await }).await.unwrap();
    });
}
