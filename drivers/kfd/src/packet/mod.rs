//! Contents of queues: AQL packets, PM4 and SDMA words, and the recorder that lists dispatches.
//!
//! Pure encoding: no memory is mapped here and no doorbell rung.

mod aql;
mod encoding;
mod launch;
mod pm4;
mod recorded;
mod recorder;
pub mod sdma;

pub use aql::{Dispatch, Header, Packet, PacketKind, Scope, barrier_and};
pub use encoding::{Encoding, UnknownEncoding};
pub use launch::LaunchCost;
pub use pm4::{IndirectBuffer, pm4_buffer, register};
pub use recorded::{Acquire, Dependency, EncodeError, Recorded};
pub use recorder::Recorder;
