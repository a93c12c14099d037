//! Why the GPU cannot be used, or not as well as it could: every probe as a typed finding with its remedy.
//!
//! Data only: hosts print it. Nothing here changes anything or binds the process to a device.

mod access;
mod examine;
mod explain;
mod finding;
mod kernel_log;

pub use access::{Access, Identity};
pub use examine::{Examination, ExamineInputs, examine};
pub use explain::{bring_up, create_queue, sentence};
pub use finding::{Finding, Severity};
pub use kernel_log::{LogHint, hints};
