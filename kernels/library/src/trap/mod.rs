//! The trap handler.

pub(crate) mod blocks;
pub(crate) mod handler;
pub(crate) mod layout;
pub(crate) mod writer;
