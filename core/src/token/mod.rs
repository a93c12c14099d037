//! Token ids, vocabularies, and the way from text to tokens and back.

pub mod class;
mod class_table;
mod id;
pub mod pre;
pub mod split;

pub use id::TokenId;
