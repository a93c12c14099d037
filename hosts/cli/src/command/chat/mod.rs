//! The chat of `doorbell run` on a terminal.

mod commands;
mod conversation;
mod external_editor;
mod input;
mod session;
mod set;

pub(crate) use session::{ChatSettings, chat};
