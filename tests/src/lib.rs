//! Fixtures shared by tests and by xtask. Nothing here is linked into the program, and no other crate depends on it.
//!
//! From simple to complex:
//!
//! - [`random`]: a seeded generator, the same on every host; [`property`]: property tests on its bytes.
//! - [`gguf_writer`]: writes GGUF files, valid or not; [`blocks`]: random blocks of every weight format.
//! - [`vocabulary`]: small vocabularies; [`tiny`]: random models of every family.
//! - [`scripted`]: a backend whose answers stand in the prompt; [`hostile`]: drivers for damaged input.
//!
//! ```
//! use doorbell_core::quant::Type;
//! use doorbell_tests::tiny::{self, Family, Shape};
//!
//! // A random Qwen3 model in Q4_K blocks, as the bytes of a GGUF file. The same seed gives the same bytes.
//! let file = tiny::model(Family::Qwen3, Shape::WIDE, Type::Q4_K, 1).to_bytes();
//! assert_eq!(file[..4], *b"GGUF");
//! ```

pub mod blocks;
pub mod gguf_writer;
pub mod hostile;
pub mod property;
pub mod random;
pub mod scripted;
pub mod tiny;
pub mod vocabulary;
