//! `doorbell detokenize`: token ids to text.

use crate::failure::{Failure, Kind};
use crate::loaded::{self, HEAP};
use crate::output::print;
use core::num::ParseIntError;
use doorbell_core::heap;
use doorbell_core::token::{DetokenizeOptions, TokenId};
use std::io::IsTerminal as _;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, a .gguf file
    model: PathBuf,
    /// The token ids, separated by commas
    #[arg(long, value_name = "1,2,3", value_delimiter = ',', required = true, value_parser = token_id)]
    ids: Vec<u32>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = loaded::open(&arguments.model)?;
    let gguf = loaded::parse(&file)?;
    let tokenizer = loaded::tokenizer(&file, &gguf)?;
    let tokens = token_ids(&arguments.ids, tokenizer.vocab_len())?;
    let mut bytes = heap::Vec::new_in(HEAP);
    let options = DetokenizeOptions { remove_special: false, special: true };
    tokenizer.detokenize(&tokens, options, &mut bytes).map_err(|error| Failure::new(Kind::Memory, error))?;
    // exactly the text when piped, so that it can be tokenized again
    if std::io::stdout().is_terminal() {
        bytes.push(b'\n');
    }
    print(&bytes)
}

/// One token id of a list; blanks around it are allowed.
pub(crate) fn token_id(text: &str) -> Result<u32, ParseIntError> {
    text.trim().parse()
}

/// Token ids from the command line, all within the vocabulary.
pub(crate) fn token_ids(ids: &[u32], vocab_len: usize) -> Result<Vec<TokenId>, Failure> {
    if let Some(id) = ids.iter().find(|id| **id as usize >= vocab_len) {
        let message = format_args!("token {id} is not in the vocabulary; its ids are below {vocab_len}");
        return Err(Failure::new(Kind::Input, message));
    }
    Ok(ids.iter().copied().map(TokenId).collect())
}
