//! The engine on a thread of its own: jobs arrive through a channel, and callbacks report their progress.
//!
//! The thread sleeps while there is nothing to do. Not here: protocols and access control (`doorbell-server`).

mod job;
mod load;
mod pooling;
mod service;
mod shared_state;
mod slots;
mod stop_texts;
mod sync;
mod text_stream;
mod active_jobs;
mod commands;
mod constraints;
mod engine_task;
mod worker;

pub use engine_task::EnginePages;
pub use job::{Finish, GenerationParams, Job, Piece, TokenReport, Update};
pub use load::{Load, LoadSnapshot};
pub use pooling::{PoolingError, PoolingJob, PoolingResult, PoolingTask};
pub use service::{JobHandle, Service, ServiceError};
pub use slots::{ConversationSlot, ConversationSlots};
pub use stop_texts::{StopTexts, TooManyStopTexts};
pub use text_stream::TextStream;
