//! The parts that all hosts share, from a model file to the parts of an answer, on any device.
//!
//! In the order in which a host uses them:
//!
//! 1. [`mod@file`] maps a model file into memory; `doorbell-core` parses it.
//! 2. [`device`] resolves the name of a device; [`machine`] lists and diagnoses devices; [`memory`] reads the memory of the
//!    host.
//! 3. [`backend`] opens the driver of the device for the model, with the CPU driver for operations that a GPU does not run.
//!    [`op_profile`] computes what the operations of a plan cost on a software GPU.
//! 4. [`template`] renders a conversation as a prompt, with the model's chat template.
//! 5. [`serve`] runs the engine on a thread of its own for many jobs at a time. [`constrain`] restricts an answer to a
//!    grammar, and [`prefix`] saves the keys and values of conversations.
//! 6. [`answer`] splits the text of an answer into reasoning, text and tool calls; [`timings`] computes rates.
//!
//! Not here: what a model computes (`doorbell-core`), how devices compute it (the drivers), HTTP (`doorbell-server`), and
//! the command line (`doorbell`).
//!
//! # Example
//!
//! A conversation becomes a prompt, and the text of an answer its parts:
//!
//! ```
//! use doorbell_runtime::answer::{AnswerParser, Begin, Delta, Style, Tools};
//! use doorbell_runtime::template::{ChatInput, ChatTemplate, Moment, SpecialTokens, TemplateError};
//!
//! let source = "{# <think></think> #}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]";
//! let template = ChatTemplate::new(source, SpecialTokens::default())?;
//! let messages = [serde_json::json!({ "role": "user", "content": "Hi" })];
//! let variables = serde_json::Map::new();
//! let prompt = template.prompt(&ChatInput::new(&messages, &variables, Moment::now()))?;
//! assert_eq!(prompt.text, "[user]Hi[assistant]");
//!
//! let mut parser = AnswerParser::new(Style::of_template(source), Tools::default(), Begin::Turn);
//! let mut parts = Vec::new();
//! parser.push("<think>A greeting.</think>Hello!", &mut parts);
//! parser.finish(&mut parts);
//! assert_eq!(parts, [Delta::Reasoning("A greeting.".into()), Delta::Text("Hello!".into())]);
//! # Ok::<(), TemplateError>(())
//! ```

extern crate alloc;

pub mod answer;
pub mod backend;
pub mod constrain;
mod cpu_fallback;
pub mod device;
pub mod file;
mod gpu_events;
mod kernel_check_cache;
pub mod machine;
pub mod memory;
pub mod op_profile;
pub mod prefix;
pub mod serve;
pub mod template;
pub mod timings;
