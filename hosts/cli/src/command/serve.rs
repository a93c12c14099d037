//! `doorbell serve`: serves the model over HTTP.
//!
//! Not here: the HTTP API (`doorbell-server`).

use crate::banner::Banner;
use crate::descriptors;
use crate::device_args::{self, DeviceArgs, ResolvedDevice};
use crate::failure::{Failure, Kind};
use crate::generate::{BATCH_ROWS, CHECKPOINT_BYTES, CONTEXT, MOST_CHECKPOINTS};
use crate::habits;
use crate::interrupt::Interrupt;
use crate::loaded::{self, HEAP};
use crate::output::note;
use crate::sampling::Sampling;
use alloc::sync::Arc;
use clap::builder::NonEmptyStringValueParser;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use doorbell_core::backend::KvError;
use doorbell_core::engine::{Config, Engine};
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::token::Tokenizer;
use doorbell_runtime::device::Device;
use doorbell_runtime::file::ModelFile;
use doorbell_runtime::prefix::PrefixFolder;
use doorbell_runtime::serve::Service;
use doorbell_server::{
    DEFAULT_PORT, ModelHandle, RunningEngine, Server, ServerError, Settings, engine_end, signals,
};
use std::env::VarError;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// Limit of waiting requests.
const WAITING: u32 = 256;

/// Rows of a pooling step: embeddings, or log-probabilities of a prompt.
const POOLING_ROWS: u32 = 32;

/// Threads that render templates and compile grammars. Further requests wait for them, so that many requests at once don't
/// starve the sockets.
const PARSING_THREADS: usize = 8;

/// Environment variable with an API key, which the list of processes does not show.
const KEY_VARIABLE: &str = "DOORBELL_API_KEY";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file, or any part of a split one
    model: PathBuf,
    /// Address to listen on; use a key with any address but loopback
    #[arg(long, value_name = "ADDRESS", default_value = "localhost", value_parser = host)]
    host: IpAddr,
    /// Port to listen on; 0 chooses a free one
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// A key that clients must send; may be given several times, or as DOORBELL_API_KEY
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    api_key: Vec<String>,
    /// An origin whose web pages may use the server; may be given several times, * allows all, and SCHEME://* all of a
    /// scheme, such as moz-extension://*
    #[arg(long, value_name = "URL", value_parser = origin)]
    origin: Vec<String>,
    /// Requests that run at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    parallel: u32,
    /// Tokens of a prompt and its answer together [default: the model's, at most 4096]
    #[arg(short = 'c', long = "ctx", alias = "ctx-size", value_name = "N", value_parser = habits::tokens)]
    context: Option<u32>,
    /// Memory for checkpoints of recurrent states, and of layers with a window, in MiB: cached prefixes can be used as far as
    /// there are checkpoints [default: 16 checkpoints, at most 1024]
    #[arg(long, value_name = "MIB")]
    checkpoint_memory: Option<u32>,
    /// Name of the model for clients [default: the name of the file]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// A folder where clients may save prefixes of conversations, and restore them [default: none]
    #[arg(long, value_name = "FOLDER")]
    slot_save_path: Option<PathBuf>,
    /// Disk space that all saved prefixes may take, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16384, requires = "slot_save_path")]
    slot_save_limit: u32,
    /// A file with a chat template that replaces the model's
    #[arg(long, value_name = "FILE")]
    chat_template_file: Option<PathBuf>,
    /// If the chat template refuses a conversation, merge neighboring messages of one role, and put the system message into
    /// the first turn of the user
    #[arg(long)]
    merge_messages: bool,
    /// Refuse tools that the chat template does not print, instead of describing them in the system text
    #[arg(long)]
    template_tools_only: bool,
    #[command(flatten)]
    device: DeviceArgs,
    /// Sampling parameters for requests that have none
    #[command(flatten)]
    sampling: Sampling,
    /// Log every request, not only the refused ones
    #[arg(short, long)]
    verbose: bool,
}

/// Serves until a signal ends the program. One thread serves answers, so that a token wakes only one thread; health probes
/// and slow work have threads of their own.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let level = if arguments.verbose { tracing::Level::DEBUG } else { tracing::Level::INFO };
    // a closed stderr must not stop the server, nor produce errors about logging
    let log = tracing_subscriber::fmt().with_ansi(false).with_max_level(level).with_writer(std::io::stderr);
    log.with_target(false).log_internal_errors(false).init();
    let mut settings = Settings::new(SocketAddr::new(arguments.host, arguments.port));
    settings.api_keys = keys(&arguments.api_key)?;
    settings.connections = settings.connections.min(descriptors::raise_limit());
    check_address(settings.address)?;
    let (model_handle, banner) = load(&arguments, &mut settings)?;
    settings.origins = arguments.origin;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let builder = builder.max_blocking_threads(PARSING_THREADS).thread_name("parsing").enable_all();
    let runtime = builder.build().map_err(no_thread)?;
    let name = model_handle.name.clone();
    Interrupt::install_on_server()?;
    let socket = std::thread::Builder::new().name("socket".into()).spawn(move || {
        let ended = runtime.block_on(serve(model_handle, settings, &name, &banner));
        // work that is still running there has no client any more
        runtime.shutdown_background();
        ended
    });
    let socket = socket.map_err(no_thread)?;
    let ended = socket.join().map_err(|_| Failure::new(Kind::Internal, "the server panicked"))?;
    ended.map_err(|error| Failure::new(Kind::Internal, error))
}

/// The failure of creating a thread or its resources.
fn no_thread(error: impl core::fmt::Display) -> Failure {
    Failure::new(
        Kind::Memory,
        format_args!("no thread for the server: {error}; free some memory or raise the limits"),
    )
}

/// Parses the address: localhost, or a numeric one.
fn host(name: &str) -> Result<IpAddr, &'static str> {
    match name {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        name => name.parse().map_err(|_| "use localhost, or an address such as 0.0.0.0 or ::"),
    }
}

/// An origin as browsers send it: without a path, in lower case.
fn origin(text: &str) -> Result<String, &'static str> {
    let text = text.trim_end_matches('/');
    let name = text.split_once("://").filter(|(scheme, _)| !scheme.is_empty()).map(|(_, name)| name);
    if ["*", "null"].contains(&text) || name.is_some_and(|name| !name.is_empty() && !name.contains('/')) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("use a form such as http://localhost:3000, or *")
    }
}

/// All keys that were given. An empty key is an error: it would leave the server open although its owner set a key. An empty
/// environment variable is none.
fn keys(given: &[String]) -> Result<Vec<String>, Failure> {
    let wrong = |what: &str| Failure::new(Kind::Input, format_args!("{what}; give a key, or omit it"));
    let variable = match std::env::var(KEY_VARIABLE) {
        Ok(key) => Some(key),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) => return Err(wrong("DOORBELL_API_KEY is not UTF-8 text")),
    };
    // an empty variable is as good as none
    let variable = variable.filter(|key| !key.is_empty());
    // HTTP removes blanks around a key
    let keys: Vec<_> = given.iter().chain(&variable).map(|key| key.trim().to_owned()).collect();
    if keys.iter().any(String::is_empty) {
        return Err(wrong("a key of --api-key or DOORBELL_API_KEY is empty"));
    }
    Ok(keys)
}

/// Checks that the address can be listened on, before a large model is loaded.
fn check_address(address: SocketAddr) -> Result<(), Failure> {
    let found = TcpListener::bind(address);
    found.map(drop).map_err(|error| Failure::new(Kind::Internal, ServerError::Listen { address, error }))
}

async fn serve(
    model_handle: ModelHandle,
    settings: Settings,
    name: &str,
    banner: &Banner,
) -> Result<(), ServerError> {
    let (signals, service) = (signals()?, model_handle.service.clone());
    let server = Server::bind(model_handle, settings).await?;
    let address = server.address()?;
    note(banner.text(address));
    note(format_args!("serving {name} on http://{address}"));
    let failed = Arc::new(AtomicBool::new(false));
    let noticed = Arc::clone(&failed);
    let end = async move {
        tokio::select! {
            () = signals => {}
            () = engine_end(service) => noticed.store(true, Ordering::Relaxed),
        }
    };
    server.run(end).await?;
    if failed.load(Ordering::Relaxed) { Err(ServerError::EngineEnded) } else { Ok(()) }
}

/// Loads the model. It lives until the process ends, with everything that it refers to.
fn load(arguments: &Arguments, settings: &mut Settings) -> Result<(ModelHandle, Banner), Failure> {
    let resolved = arguments.device.resolve()?;
    let file: &'static ModelFile = Box::leak(Box::new(loaded::open(&arguments.model)?));
    let gguf: &'static Gguf<'static> = Box::leak(Box::new(loaded::parse(file)?));
    let model: &'static Model<'static> = Box::leak(Box::new(loaded::bind(file, gguf)?));
    let tokenizer: &'static Tokenizer<'static> = Box::leak(Box::new(loaded::tokenizer(file, gguf)?));
    let config = config(model, arguments, resolved)?;
    let needed = config.memory(model, resolved.kv, HEAP);
    let buffers = needed.map_err(|error| Failure::new(Kind::Memory, error))?.heap();
    // wrong arguments are reported before the weights are read
    let defaults = arguments.sampling.params(gguf)?;
    let breakers = arguments.sampling.breakers(&defaults, tokenizer)?.map(Arc::new);
    let template = arguments.chat_template_file.as_deref();
    let template = template.map(|path| loaded::text_file(path).map(|text| (path, text))).transpose()?;
    settings.prefix_folder = arguments
        .slot_save_path
        .as_deref()
        .map(|path| folder(path, gguf, arguments.slot_save_limit))
        .transpose()?;
    loaded::read_ahead(file)?;
    let backend = device_args::open(model, &config, resolved)?;
    backend.log_gpu_events();
    let end_tokens: Vec<_> = tokenizer.eog().collect();
    let engine = Engine::new(model, backend, config, &end_tokens, HEAP)
        .map_err(|error| Failure::new(Kind::Memory, format_args!("{error}; use a smaller --ctx")))?;
    let service = Service::start(engine, tokenizer).map_err(|error| Failure::new(Kind::Memory, error))?;
    let device = format!("{}, {} threads", resolved.device, resolved.threads);
    let on_gpu = resolved.device != Device::Cpu;
    let (context, parallel) = (config.context, config.sequences);
    let running = RunningEngine { service, context, parallel, waiting: config.waiting, device, on_gpu };
    let name = arguments.name.clone().unwrap_or_else(|| stem(&arguments.model));
    let model_failure = |error| Failure::new(Kind::Model, error);
    let mut model_handle = ModelHandle::new(name, gguf, tokenizer, running).map_err(model_failure)?;
    if let Some((path, text)) = template {
        model_handle = model_handle.with_template(&text).map_err(|error| {
            Failure::new(Kind::Input, format_args!("{}: {error}; fix it", path.display()))
        })?;
    }
    model_handle.file =
        arguments.model.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    model_handle.merge_messages = arguments.merge_messages;
    model_handle.template_tools_only = arguments.template_tools_only;
    if model_handle.template.as_ref().is_some_and(|template| !template.prints_tools()) {
        note(if arguments.template_tools_only {
            "the chat template prints no tools; requests with tools are refused"
        } else {
            "the chat template prints no tools; they are described in the system text, and calls are read as <tool_call>"
        });
    }
    model_handle.defaults = defaults;
    model_handle.seed = arguments.sampling.seed();
    model_handle.dry_breakers = breakers;
    let banner = Banner::new(&model_handle, &config, buffers, settings.api_keys.len());
    Ok((model_handle, banner))
}

/// The folder for saved prefixes of a model, with a limit in MiB.
fn folder(path: &Path, gguf: &Gguf<'_>, limit: u32) -> Result<Arc<PrefixFolder>, Failure> {
    let found = PrefixFolder::new(path, gguf).map_err(|error| {
        let path = path.display();
        Failure::new(Kind::Input, format_args!("--slot-save-path {path}: {error}; it must be a folder"))
    });
    found.map(|folder| Arc::new(folder.with_limit(u64::from(limit) << 20)))
}

/// Limits whose buffers fit into memory: if necessary, there are fewer pages than all requests could fill.
fn config(model: &Model<'_>, arguments: &Arguments, resolved: ResolvedDevice) -> Result<Config, Failure> {
    let trained = model.hparams.context.max(1);
    let context = arguments.context.unwrap_or_else(|| trained.min(CONTEXT));
    let mut config = Config::new(context, arguments.parallel, BATCH_ROWS.min(context));
    config.waiting = WAITING;
    config.pooling_rows = POOLING_ROWS.min(context);
    let (bytes, most) = match arguments.checkpoint_memory {
        Some(mib) => (u64::from(mib) << 20, u32::from(u16::MAX)),
        None => (CHECKPOINT_BYTES, MOST_CHECKPOINTS),
    };
    let unusable = |error: KvError| Failure::new(Kind::Input, error);
    config.set_checkpoints(model, resolved.kv, bytes, most).map_err(unusable)?;
    let all = config.pages;
    for contexts in (1..=arguments.parallel).rev() {
        config.pages = all / arguments.parallel * contexts;
        match device_args::check_memory(model, &config, resolved) {
            Ok(()) => return Ok(config),
            Err(failure) if contexts == 1 => return Err(failure),
            Err(_) => {}
        }
    }
    Ok(config)
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned())
}
