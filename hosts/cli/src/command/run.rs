//! `doorbell run`: answers one prompt, or chats.

use super::answer::{ChatFormat, ChatPrompt, StatusLine, ending};
use super::answer_printer::{AnswerPrinter, Reasoning};
use super::chat;
use crate::device_args::{DeviceArgs, ResolvedDevice};
use crate::failure::{Failure, Kind};
use crate::generate::{self, Generation};
use crate::habits;
use crate::interrupt::Interrupt;
use crate::loaded;
use crate::output::{note, print_json};
use crate::sampling::Sampling;
use doorbell_core::engine::FinishReason;
use doorbell_core::gguf::Gguf;
use doorbell_core::token::{EncodeOptions, Tokenizer};
use doorbell_runtime::answer::{Begin, Style};
use doorbell_runtime::memory::peak_resident;
use doorbell_runtime::template::{ChatTemplate, SpecialTokens};
use doorbell_runtime::timings::{RequestTimings, seconds};
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file, or any part of a split one
    model: PathBuf,
    /// The prompt; text that is piped in is appended to it [default: a chat on a terminal, else stdin]
    #[arg(value_name = "PROMPT", conflicts_with_all = ["prompt", "file"])]
    question: Option<String>,
    /// The prompt, for texts that begin with a hyphen
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the prompt from a file; - is stdin
    #[arg(long, value_name = "F")]
    file: Option<PathBuf>,
    /// Limit of tokens in an answer; -1 is none [default: what the context holds]
    #[arg(short = 'n', long = "n-predict", value_name = "N", value_parser = clap::value_parser!(i64).range(-2..=u32::MAX.into()))]
    max_tokens: Option<i64>,
    /// The system message: instructions before the conversation
    #[arg(long, value_name = "S", conflicts_with = "raw", allow_hyphen_values = true)]
    system: Option<String>,
    /// If the chat template refuses the conversation, put the system message into the first turn of the user
    #[arg(long, conflicts_with = "raw")]
    merge_messages: bool,
    /// Ask the model to reason or not, if its chat template knows how [default: the template decides]
    #[arg(long, value_name = "CHOICE", conflicts_with = "raw")]
    think: Option<Think>,
    /// Print the model's reasoning, faint and before the answer, or not [default: show on a terminal, else hide]
    #[arg(long, value_name = "CHOICE", conflicts_with = "raw")]
    reasoning: Option<Reasoning>,
    /// A file with a chat template that replaces the model's
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    chat_template_file: Option<PathBuf>,
    /// Don't keep the lines of a chat for later sessions
    #[arg(long)]
    no_history: bool,
    /// Continue the prompt itself, without the chat template
    #[arg(long)]
    raw: bool,
    /// Tokens of prompt and answer together [default: the model's, at most 4096]
    #[arg(short = 'c', long = "ctx", alias = "ctx-size", value_name = "N", value_parser = habits::tokens)]
    context: Option<u32>,
    #[command(flatten)]
    sampling: Sampling,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON document: tokens, text, prompt_tokens, timings, device
    #[arg(long)]
    json: bool,
}

/// The choice of `--think`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Think {
    On,
    Off,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let resolved = arguments.device.resolve()?;
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let model = loaded::bind(&file, &gguf)?;
    let tokenizer = loaded::tokenizer(&file, &gguf)?;
    // only after the model is loaded: the user may have to type the prompt
    let prompt = prompt(arguments)?;
    // a negative number stands for no limit, as in llama.cpp
    let max_tokens = arguments.max_tokens.and_then(|count| u32::try_from(count).ok());
    let params = arguments.sampling.generation_params(&gguf, &tokenizer, max_tokens)?;
    let template = template(arguments, &gguf, &tokenizer)?;
    let think = arguments.think.map(|think| think == Think::On);
    let format = template
        .as_ref()
        .map(|template| ChatFormat::new(template, arguments.merge_messages, think, arguments.reasoning));
    let config = generate::config(&model, arguments.context);
    let Some(prompt) = prompt else {
        let format = format.ok_or_else(|| {
            Failure::new(
                Kind::Model,
                "the file has no chat template to chat with; give a prompt with -p and --raw",
            )
        })?;
        loaded::read_ahead(&file)?;
        let interrupt = Interrupt::install_on_terminal()?;
        let context = config.context;
        let mut generator = generate::generator(&model, &tokenizer, config, resolved, interrupt)?;
        let settings = chat::ChatSettings {
            name: &arguments.model,
            gguf: &gguf,
            tokenizer: &tokenizer,
            format,
            system: arguments.system.as_deref(),
            sampling: arguments.sampling.clone(),
            max_tokens,
            context,
            resolved,
            history: !arguments.no_history,
        };
        return chat::chat(&mut generator, settings);
    };
    let prompt = encoded(arguments, &tokenizer, format.as_ref(), &prompt)?;
    loaded::read_ahead(&file)?;
    let mut generator = generate::generator(&model, &tokenizer, config, resolved, Interrupt::install()?)?;
    if arguments.json {
        let answer = generator.run(&prompt.tokens, &params, false, &mut |_| Ok(()))?;
        print_json(&document(&answer, resolved, params.sampler.seed))?;
        return ending(&answer);
    }
    let style = format.map_or(Style::PLAIN, |format| format.style);
    let mut printer = AnswerPrinter::new(style, prompt.begin, arguments.reasoning);
    let special = style.needs_control_tokens();
    let answer = generator.run(&prompt.tokens, &params, special, &mut |text| printer.push(text))?;
    printer.finish()?;
    note(StatusLine { answer: &answer, resolved });
    ending(&answer)
}

/// The chat template: that of the flag, else the model's if it has one.
fn template(
    arguments: &Arguments,
    gguf: &Gguf<'_>,
    tokenizer: &Tokenizer<'_>,
) -> Result<Option<ChatTemplate>, Failure> {
    let Some(path) = &arguments.chat_template_file else {
        return if arguments.raw { Ok(None) } else { loaded::chat_template(gguf, tokenizer) };
    };
    let template = ChatTemplate::new(&loaded::text_file(path)?, SpecialTokens::of(tokenizer));
    let template = template
        .map_err(|error| Failure::new(Kind::Input, format_args!("{}: {error}; fix it", path.display())))?;
    Ok(Some(template))
}

/// The tokens of the prompt, by the chat template if there is one.
fn encoded(
    arguments: &Arguments,
    tokenizer: &Tokenizer<'_>,
    format: Option<&ChatFormat<'_>>,
    prompt: &str,
) -> Result<ChatPrompt, Failure> {
    if let Some(format) = format {
        return format.prompt(tokenizer, &messages(arguments.system.as_deref(), prompt));
    }
    if !arguments.raw {
        note("the file has no chat template; continuing the prompt itself");
    }
    let options = EncodeOptions { add_special: true, parse_special: true };
    Ok(ChatPrompt { tokens: loaded::encode(tokenizer, prompt, options)?, begin: Begin::Turn })
}

/// The prompt; `None` for a chat.
fn prompt(arguments: &Arguments) -> Result<Option<String>, Failure> {
    let given = arguments.question.as_ref().or(arguments.prompt.as_ref());
    let text = match (given, &arguments.file) {
        (Some(text), _) => {
            let piped = if std::io::stdin().is_terminal() { String::new() } else { loaded::stdin()? };
            let between = if piped.is_empty() { "" } else { "\n\n" };
            format!("{text}{between}{piped}")
        }
        (None, Some(path)) if path.as_os_str() == "-" => loaded::stdin()?,
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
