//! Servers with scripted models, each on a port of its own.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use doorbell_core::engine::{Config, Engine};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::quant::Type;
use doorbell_core::token::Tokenizer;
use doorbell_runtime::prefix::PrefixFolder;
use doorbell_runtime::serve::Service;
use doorbell_server::{ModelHandle, RunningEngine, Server, Settings};
use doorbell_tests::gguf_writer::{GgufFile, Value};
use doorbell_tests::scripted::{Scripted, Turns};
use doorbell_tests::tiny::{self, Family, Shape};
use std::path::PathBuf;
use std::sync::mpsc::Sender;

const HEAP: Heap<'static> = &Global;

/// Settings of a server and its model.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) context: u32,
    pub(crate) parallel: u32,
    /// Rows of a step.
    pub(crate) batch_rows: u32,
    pub(crate) waiting: u32,
    /// KV pages; `None`: enough for all sequences at full context.
    pub(crate) pages: Option<u32>,
    pub(crate) template: Option<&'static str>,
    /// True if conversations that the template refuses are merged.
    pub(crate) merge_messages: bool,
    /// True if tools that the template does not print are refused.
    pub(crate) template_tools_only: bool,
    /// Marks that are tokens of their own.
    pub(crate) marks: &'static [&'static str],
    /// The seed of the model's weights.
    pub(crate) model: u64,
    /// Folder of saved prefixes.
    pub(crate) folder: Option<PathBuf>,
    /// Duration of a step.
    pub(crate) pause: Duration,
    /// Receives a message when a step begins.
    pub(crate) steps: Option<Sender<()>>,
    /// Answers that don't stand in the prompt.
    pub(crate) turns: Option<Turns>,
    pub(crate) settings: Settings,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            context: 2048,
            parallel: 4,
            batch_rows: 64,
            waiting: 64,
            pages: None,
            template: None,
            merge_messages: false,
            template_tools_only: false,
            marks: &[],
            model: 1,
            folder: None,
            pause: Duration::ZERO,
            steps: None,
            turns: None,
            settings: Settings::new(SocketAddr::from(([127, 0, 0, 1], 0))),
        }
    }
}

/// A model that lives as long as the process, as in a real server.
pub(crate) fn file(kind: &Kind) -> &'static Gguf<'static> {
    // a vocabulary that is larger than the merges need, so that some tokens are unused
    let vocab = if kind.marks.is_empty() { 512 } else { 1024 };
    let shape = Shape { context: kind.context as usize, vocab, ..Shape::TINY };
    let mut file = tiny::model(Family::Qwen3, shape, Type::F32, kind.model);
    if let Some(template) = kind.template {
        file.metadata.retain(|(key, _)| key != b"tokenizer.chat_template");
        file.meta("tokenizer.chat_template", Value::from(template));
    }
    mark(&mut file, kind.marks);
    let bytes: &'static [u8] = Box::leak(file.to_bytes().into_boxed_slice());
    Box::leak(Box::new(Gguf::parse(bytes, HEAP).unwrap()))
}

/// Turns unused tokens into marks, as files of Qwen3 have them.
fn mark(file: &mut GgufFile, marks: &[&'static str]) {
    const USER_DEFINED: i32 = 4;
    for (key, value) in &mut file.metadata {
        let Value::Array(_, items) = value else { continue };
        let marks: Vec<_> = match key.as_slice() {
            b"tokenizer.ggml.tokens" => marks.iter().map(|&mark| Value::from(mark)).collect(),
            b"tokenizer.ggml.token_type" => marks.iter().map(|_| Value::I32(USER_DEFINED)).collect(),
            _ => continue,
        };
        let unused = items.len() - marks.len();
        items.splice(unused.., marks);
    }
}

/// A scripted model with a running engine.
pub(crate) fn served(kind: &Kind, gguf: &'static Gguf<'static>) -> ModelHandle {
    let model: &'static Model<'static> = Box::leak(Box::new(Model::new(gguf, HEAP).unwrap()));
    let tokenizer: &'static Tokenizer<'static> = Box::leak(Box::new(Tokenizer::new(gguf, HEAP).unwrap()));
    let mut config = Config::new(kind.context, kind.parallel, kind.batch_rows);
    config.waiting = kind.waiting;
    config.pooling_rows = 8;
    config.pages = kind.pages.unwrap_or(config.pages);
    let backend = Scripted::new(model, tokenizer, config.pages, kind.pause)
        .telling_steps(kind.steps.clone())
        .taking_turns(kind.turns.clone());
    let end_tokens: Vec<_> = tokenizer.eog().collect();
    let engine = Engine::new(model, backend, config, &end_tokens, HEAP).unwrap();
    let service = Service::start(engine, tokenizer).unwrap();
    let running = RunningEngine {
        service,
        context: kind.context,
        parallel: kind.parallel,
        waiting: kind.waiting,
        device: "scripted".into(),
        on_gpu: true,
    };
    let mut served = ModelHandle::new("scripted".into(), gguf, tokenizer, running).unwrap();
    served.merge_messages = kind.merge_messages;
    served.template_tools_only = kind.template_tools_only;
    served
}

/// A server that listens. Needs a tokio runtime.
pub(crate) async fn bind(kind: &Kind) -> Server {
    let gguf = file(kind);
    let mut settings = kind.settings.clone();
    settings.prefix_folder =
        kind.folder.as_ref().map(|path| Arc::new(PrefixFolder::new(path, gguf).unwrap()));
    Server::bind(served(kind, gguf), settings).await.unwrap()
}
