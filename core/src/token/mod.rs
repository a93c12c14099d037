//! Tokens: their ids.

mod id;

pub use id::TokenId;
