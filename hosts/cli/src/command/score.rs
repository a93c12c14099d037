//! `doorbell score`: the log-probability of each token of a text.

use super::detokenize::{token_id, token_ids};
use crate::device_args::{self, DeviceArgs};
use crate::failure::{Failure, Kind};
use crate::habits;
use crate::loaded::{self, HEAP};
use crate::output::{note, print, print_json};
use crate::progress::Progress;
use core::fmt::Display;
use doorbell_core::engine::{self, Config, ScoreError};
use doorbell_core::sample::log_prob;
use doorbell_core::token::{EncodeOptions, TokenId, Tokenizer};
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[group(id = "input", required = true, multiple = false, args = ["text", "tokens"])]
pub(crate) struct Arguments {
    /// The model, a .gguf file
    model: PathBuf,
    /// The text, from a file
    #[arg(long, value_name = "F")]
    text: Option<PathBuf>,
    /// The text, as token ids
    #[arg(long, value_name = "1,2,3", value_delimiter = ',', value_parser = token_id)]
    tokens: Option<Vec<u32>>,
    /// Write all logits to a file: little-endian f32, [tokens, vocabulary]
    #[arg(long, value_name = "OUT.f32")]
    logits: Option<PathBuf>,
    /// Limit of tokens [default: the model's context]
    #[arg(short = 'c', long = "ctx", alias = "ctx-size", value_name = "N", value_parser = habits::tokens)]
    context: Option<u32>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON document: tokens, log_probs, nll, perplexity
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let resolved = arguments.device.resolve()?;
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let model = loaded::bind(&file, &gguf)?;
    let tokens = tokens(arguments, &loaded::tokenizer(&file, &gguf)?, model.vocabulary)?;
    let limit = arguments.context.unwrap_or(model.hparams.context).max(1);
    let context = u32::try_from(tokens.len()).ok().filter(|count| *count <= limit).ok_or_else(|| {
        let found = tokens.len();
        Failure::new(
            Kind::Input,
            format_args!(
                "the text has {found} tokens and the context holds {limit}; shorten it or give a larger --ctx"
            ),
        )
    })?;
    let config = Config::new(context, 1, context.min(32));
    device_args::check_memory(&model, &config, resolved)?;
    loaded::read_ahead(&file)?;
    let mut backend = device_args::open(&model, &config, resolved)?;
    let mut sink = LogitsFile::create(arguments.logits.as_deref())?;
    let bar = Progress::prefill(context.into());
    // the log-probability of each token but the first, given those before it
    let mut log_probs: Vec<f64> = Vec::with_capacity(tokens.len());
    let mut each = |position: u32, logits: &[f32]| {
        bar.set(u64::from(position) + 1);
        let next = tokens.get(position as usize + 1);
        log_probs.extend(next.and_then(|token| log_prob(logits, *token)));
        sink.write(logits);
    };
    engine::score(&model, &mut backend, &tokens, HEAP, &mut std::thread::yield_now, &mut each)
        .map_err(failure)?;
    sink.finish()?;
    drop(bar);
    let nll = -log_probs.iter().sum::<f64>();
    let perplexity = (!log_probs.is_empty()).then(|| (nll / log_probs.len() as f64).exp());
    if arguments.json {
        let ids: Vec<_> = tokens.iter().map(|token| token.0).collect();
        let log_probs: Vec<_> = core::iter::once(None).chain(log_probs.into_iter().map(Some)).collect();
        return print_json(&json!({
            "tokens": ids,
            "log_probs": log_probs,
            "nll": nll,
            "perplexity": perplexity,
            "vocabulary": model.vocabulary,
            "device": resolved.device.to_string(),
        }));
    }
    for (token, log_prob) in tokens.iter().skip(1).zip(&log_probs) {
        print(format!("{token}\t{log_prob:.6}\n"))?;
    }
    let perplexity = perplexity.map_or_else(|| "none".into(), |perplexity| format!("{perplexity:.4}"));
    note(format_args!(
        "{} tokens, nll {nll:.4}, perplexity {perplexity}, device {}",
        tokens.len(),
        resolved.device
    ));
    Ok(())
}

fn failure<E: Display>(error: ScoreError<E>) -> Failure {
    let device = matches!(error, ScoreError::Backend(_) | ScoreError::Output { .. });
    Failure::new(if device { Kind::Device } else { Kind::Internal }, error)
}

fn tokens(
    arguments: &Arguments,
    tokenizer: &Tokenizer<'_>,
    vocabulary: u32,
) -> Result<Vec<TokenId>, Failure> {
    let tokens = match (&arguments.text, &arguments.tokens) {
        (Some(path), _) => {
            let options = EncodeOptions { add_special: true, parse_special: false };
            loaded::encode(tokenizer, &loaded::text_file(path)?, options)?.to_vec()
        }
        (None, ids) => token_ids(ids.as_deref().unwrap_or_default(), vocabulary as usize)?,
    };
    if tokens.is_empty() {
        return Err(Failure::new(Kind::Input, "the text is empty; give at least one token"));
    }
    Ok(tokens)
}

/// The file of `--logits`, if given.
struct LogitsFile {
    file: Option<BufWriter<File>>,
    name: String,
    error: Option<std::io::Error>,
}

impl LogitsFile {
    fn create(path: Option<&Path>) -> Result<Self, Failure> {
        let name = path.map(|path| path.display().to_string()).unwrap_or_default();
        match path.map(File::create).transpose() {
            Ok(file) => Ok(Self { file: file.map(BufWriter::new), name, error: None }),
            Err(error) => Err(Failure::new(Kind::Input, format_args!("{name}: {error}; give another path"))),
        }
    }

    fn write(&mut self, logits: &[f32]) {
        let Some(file) = self.file.as_mut().filter(|_| self.error.is_none()) else { return };
        let written = logits.iter().try_for_each(|logit| file.write_all(&logit.to_le_bytes()));
        self.error = written.err();
    }

    fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.file.as_mut().map_or(Ok(()), std::io::Write::flush);
        match self.error.take().map_or(flushed, Err) {
            Ok(()) => Ok(()),
            Err(error) => Err(Failure::new(Kind::Internal, format_args!("{}: {error}", self.name))),
        }
    }
}
