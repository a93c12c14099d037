//! `doorbell tokenize`: text to token ids.

use crate::failure::Failure;
use crate::loaded;
use crate::output::{print, print_json};
use doorbell_core::token::EncodeOptions;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file
    model: PathBuf,
    /// The text [default: stdin]
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    text: Option<String>,
    /// Neither add begin and end tokens nor read control tokens in the text
    #[arg(long)]
    no_special: bool,
    /// Print one JSON document: tokens, pieces
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let tokenizer = loaded::tokenizer(&file, &gguf)?;
    let text = match arguments.text {
        Some(text) => text,
        None => loaded::stdin()?,
    };
    let special = !arguments.no_special;
    let options = EncodeOptions { add_special: special, parse_special: special };
    let tokens = loaded::encode(&tokenizer, &text, options)?;
    let ids: Vec<_> = tokens.iter().map(|token| token.0).collect();
    if arguments.json {
        let piece = |&token| {
            let bytes: Vec<u8> = tokenizer.bytes(token, true).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let pieces: Vec<_> = tokens.iter().map(piece).collect();
        return print_json(&json!({ "tokens": ids, "pieces": pieces }));
    }
    let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
    print(ids.join(",") + "\n")
}
