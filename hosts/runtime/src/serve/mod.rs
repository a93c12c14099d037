//! The engine on a thread of its own: jobs go in through a channel, what happens to them comes out of callbacks.
//!
//! The thread sleeps while there is nothing to do. Not here: protocols, and who is allowed to ask.

mod job;
mod load;
mod reading;
mod service;
mod slots;
mod store;
mod worker;

pub use job::{End, Finish, GenerationParams, Job, Piece, TokenReport, Update};
pub use load::{Load, Snapshot};
pub use reading::{Aim, ReadError, ReadJob, ReadResult};
pub use service::{Service, ServiceError, Ticket};
pub use slots::{Slot, Slots};
pub use store::Store;
