//! The tokenizer against other people's: regular expressions, `tokenizers`, SentencePiece, and reported bugs.
//!
//! The goldens and the scripts that make them are in `goldens/token`. What needs files that are not ours runs
//! when an environment variable names them, see `foreign`.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]
#![expect(clippy::std_instead_of_alloc, reason = "tests have std")]

mod breakers;
mod fixture;
mod foreign;
mod goldens;
mod hostile;
mod properties;
mod reports;
