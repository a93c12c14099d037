//! `doorbell run`: answers one prompt, or chats.

use super::answer::{StatusLine, chat_tokens, ending};
use super::chat;
use crate::device_args::{DeviceArgs, ResolvedDevice};
use crate::failure::{Failure, Kind};
use crate::generate::{self, Generation};
use crate::interrupt::Interrupt;
use crate::loaded;
use crate::output::{note, print, print_answer, print_json};
use crate::sampling::Sampling;
use doorbell_core::engine::FinishReason;
use doorbell_core::heap;
use doorbell_core::token::{EncodeOptions, TokenId, Tokenizer};
use doorbell_runtime::memory::peak_resident;
use doorbell_runtime::template::ChatTemplate;
use doorbell_runtime::timings::{RequestTimings, seconds};
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file, or any part of a split one
    model: PathBuf,
    /// The prompt [default: a chat on a terminal, else stdin]
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, value_name = "F")]
    file: Option<PathBuf>,
    /// Limit of tokens in an answer [default: what the context holds]
    #[arg(short = 'n', value_name = "N")]
    max_tokens: Option<u32>,
    /// The system message: instructions before the conversation
    #[arg(long, value_name = "S", conflicts_with = "raw", allow_hyphen_values = true)]
    system: Option<String>,
    /// If the chat template refuses the conversation, put the system message into the first turn of the user
    #[arg(long, conflicts_with = "raw")]
    merge_messages: bool,
    /// Continue the prompt itself, without the chat template
    #[arg(long)]
    raw: bool,
    /// Tokens of prompt and answer together [default: the model's, at most 4096]
    #[arg(long = "ctx", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    #[command(flatten)]
    sampling: Sampling,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON document: tokens, text, prompt_tokens, timings, device
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let resolved = arguments.device.resolve()?;
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let model = loaded::bind(&file, &gguf)?;
    let tokenizer = loaded::tokenizer(&file, &gguf)?;
    // only after the model is loaded: the user may have to type the prompt
    let prompt = prompt(arguments)?;
    let params = arguments.sampling.generation_params(&gguf, &tokenizer, arguments.max_tokens)?;
    let template = if arguments.raw { None } else { loaded::chat_template(&gguf, &tokenizer)? };
    let config = generate::config(&model, arguments.context);
    let Some(prompt) = prompt else {
        let template = template.ok_or_else(|| {
            Failure::new(
                Kind::Model,
                "the file has no chat template to chat with; give a prompt with -p and --raw",
            )
        })?;
        loaded::read_ahead(&file)?;
        let interrupt = Interrupt::install_on_terminal()?;
        let mut generator = generate::generator(&model, &tokenizer, config, resolved, interrupt)?;
        let settings = chat::ChatSettings {
            params: &params,
            system: arguments.system.as_deref(),
            merge: arguments.merge_messages,
            resolved,
        };
        return chat::chat(&mut generator, &tokenizer, &template, &settings);
    };
    let tokens = tokens(arguments, &tokenizer, template.as_ref(), &prompt)?;
    loaded::read_ahead(&file)?;
    let mut generator = generate::generator(&model, &tokenizer, config, resolved, Interrupt::install()?)?;
    if arguments.json {
        let answer = generator.run(&tokens, &params, &mut |_| Ok(()))?;
        print_json(&document(&answer, resolved, params.sampler.seed))?;
        return ending(&answer);
    }
    let answer = generator.run(&tokens, &params, &mut print_answer)?;
    if !answer.text.ends_with('\n') {
        print("\n")?;
    }
    note(StatusLine { answer: &answer, resolved });
    ending(&answer)
}

/// The tokens of the prompt, by the chat template if there is one.
fn tokens(
    arguments: &Arguments,
    tokenizer: &Tokenizer<'_>,
    template: Option<&ChatTemplate>,
    prompt: &str,
) -> Result<heap::Vec<'static, TokenId>, Failure> {
    if let Some(template) = template {
        let messages = messages(arguments.system.as_deref(), prompt);
        return chat_tokens(tokenizer, template, &messages, arguments.merge_messages);
    }
    if !arguments.raw {
        note("the file has no chat template; continuing the prompt itself");
    }
    loaded::encode(tokenizer, prompt, EncodeOptions { add_special: true, parse_special: true })
}

/// The prompt; `None` for a chat.
fn prompt(arguments: &Arguments) -> Result<Option<String>, Failure> {
    let text = match (&arguments.prompt, &arguments.file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => loaded::text_file(path)?,
        (None, None) if on_terminal() && !arguments.json && !arguments.raw => return Ok(None),
        (None, None) => loaded::stdin()?,
    };
    if text.is_empty() {
        return Err(Failure::new(Kind::Input, "the prompt is empty; give some text with -p"));
    }
    Ok(Some(text))
}

fn on_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

fn messages(system: Option<&str>, prompt: &str) -> Vec<Value> {
    let system = system.map(|content| json!({ "role": "system", "content": content }));
    system.into_iter().chain([json!({ "role": "user", "content": prompt })]).collect()
}

/// The document of `--json`.
fn document(answer: &Generation, resolved: ResolvedDevice, seed: u64) -> Value {
    let timings = RequestTimings::new(&answer.usage);
    let ids: Vec<_> = answer.tokens.iter().map(|token| token.0).collect();
    json!({
        "tokens": ids,
        "text": answer.text,
        "prompt_tokens": answer.usage.prompt_tokens,
        "cached_tokens": answer.usage.cached_tokens,
        "finish_reason": reason(&answer.reason),
        "seed": seed,
        "timings": {
            "prefill_seconds": seconds(timings.prefill),
            "prefill_tokens_per_second": timings.prefill_rate(),
            "decode_seconds": seconds(timings.decode),
            "decode_tokens_per_second": timings.decode_rate(),
        },
        "device": resolved.device.to_string(),
        "threads": resolved.threads,
        "peak_resident_bytes": peak_resident(),
    })
}

fn reason(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::EndOfGeneration(_) => "end",
        FinishReason::MaxTokens => "max_tokens",
        FinishReason::ContextFull => "context_full",
        FinishReason::Cancelled => "cancelled",
        _ => "error",
    }
}
