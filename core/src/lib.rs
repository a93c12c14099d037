//! The core of doorbell, a local inference engine for language models: it decides *what* to compute for which request.
//! Drivers compute it, hosts read files and talk to people.
//!
//! The crate is `no_std` and does no IO: it has no clock, no paths, no threads and no `unsafe`. Bytes of files, times,
//! seeds, memory and the device are arguments. All memory comes from the caller's [`heap::Heap`], and running out of it is
//! an error, not a panic. No file and no request makes it panic.
//!
//! # Layers
//!
//! The modules are in order: a later one may use an earlier one, never the other way round.
//!
//! - [`heap`]: the caller's allocator.
//! - [`quant`]: tensor types, their blocks, dequantization and exact dot products.
//! - [`gguf`]: model files, read without copies.
//! - [`token`]: text to tokens and back.
//! - [`sample`]: logits to a token.
//! - [`plan`]: a batch, and the operations that compute it, as data.
//! - [`model`]: model families; binds a file and makes its plans.
//! - [`backend`]: the interface of the drivers that run plans.
//! - [`mod@reference`]: the definition of every operation in simple code, and a backend made of it.
//! - [`kv`]: pages of keys and values, and the cache of computed prefixes.
//! - [`scheduler`]: which rows of which sequences are in the next step.
//! - [`engine`]: requests in, events out.
//!
//! # Example
//!
//! Generates up to 16 tokens after a prompt. A host would choose a faster backend, and pass the time.
//!
//! ```
//! use doorbell_core::backend::KvType;
//! use doorbell_core::engine::{
//!     Config, Engine, Event, GenerationParams, Nanos, Progress, Request, RequestId,
//! };
//! use doorbell_core::gguf::Gguf;
//! use doorbell_core::heap::{self, Global, Heap};
//! use doorbell_core::model::Model;
//! use doorbell_core::reference::{Products, Reference};
//! use doorbell_core::token::{Detokenizer, EncodeOptions, Tokenizer};
//!
//! fn complete(file: &[u8], text: &str) -> Result<String, Box<dyn core::error::Error>> {
//!     let heap: Heap<'_> = &Global;
//!     let gguf = Gguf::parse(file, heap)?;
//!     let tokenizer = Tokenizer::new(&gguf, heap)?;
//!     let model = Model::new(&gguf, heap)?;
//!     let mut prompt = heap::Vec::new_in(heap);
//!     tokenizer.encode(text, EncodeOptions::default(), &mut prompt)?;
//!
//!     // one sequence of 512 tokens, prompts in steps of 64 rows
//!     let config = Config::new(512, 1, 64);
//!     let backend = Reference::new(&model, config.kv_pages(&model), KvType::F16, Products::Quantized, heap)?;
//!     let end_tokens: Vec<_> = tokenizer.eog().collect();
//!     let mut engine = Engine::new(&model, backend, config, &end_tokens, heap)?;
//!     let params = GenerationParams { max_tokens: 16, ..GenerationParams::default() };
//!     engine.submit(&Request { id: RequestId(0), prompt: &prompt, params }, Nanos(0))?;
//!
//!     let mut detokenizer = Detokenizer::new(false);
//!     let mut output = heap::Vec::new_in(heap);
//!     let mut sink = |event: Event<'_>| {
//!         if let Event::Token { token, .. } = event {
//!             // without memory the text ends early
//!             _ = detokenizer.push(&tokenizer, token, &mut output);
//!         }
//!     };
//!     while engine.poll(Nanos(0), &mut sink)? != Progress::Idle {}
//!     detokenizer.finish(&mut output)?;
//!     Ok(String::from_utf8_lossy(&output).into_owned())
//! }
//!
//! assert!(complete(b"not a model", "Hello").is_err());
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod heap;
pub mod quant;
pub mod gguf;
pub mod token;
pub mod sample;
pub mod plan;
pub mod model;
pub mod backend;
pub mod reference;
pub mod kv;
pub mod scheduler;
pub mod engine;
