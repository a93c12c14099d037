//! The tokenizer, compared with regular expressions, `tokenizers`, SentencePiece, and reported bugs.
//!
//! The goldens and the scripts that make them are in `goldens/token`. Tests that need other files run
//! if an environment variable names them, see `foreign`.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::std_instead_of_alloc, reason = "tests have std")]

mod breakers;
mod fixture;
mod foreign;
mod goldens;
mod hostile;
mod properties;
mod reports;
