//! Memory: every refusal of the heap is a typed error, tokens cost no allocation, and the peak is the predicted one.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod accounting;
mod exhaustion;
mod service;
