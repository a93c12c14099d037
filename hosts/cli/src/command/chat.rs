//! The chat of `doorbell run` on a terminal: it reads lines and prints answers until `/exit`.

use super::answer::{StatusLine, chat_tokens, ending};
use crate::device_args::ResolvedDevice;
use crate::failure::{Failure, Kind};
use crate::generate::{Generator, Params};
use crate::output::{note, print, print_answer};
use doorbell_core::backend::Backend;
use doorbell_core::engine::FinishReason;
use doorbell_core::token::Tokenizer;
use doorbell_runtime::template::ChatTemplate;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::{Value, json};

/// Settings of a chat.
pub(crate) struct ChatSettings<'s> {
    pub(crate) params: &'s Params,
    pub(crate) system: Option<&'s str>,
    /// True to rewrite a conversation that the template refuses.
    pub(crate) merge: bool,
    pub(crate) resolved: ResolvedDevice,
}

const HELP: &str = "/exit or Ctrl-D ends, /clear starts a new conversation, Ctrl-C stops an answer, arrow keys browse the history";

/// Chats until `/exit` or the end of input.
pub(crate) fn chat<B: Backend>(
    generator: &mut Generator<'_, '_, B>,
    tokenizer: &Tokenizer<'_>,
    template: &ChatTemplate,
    settings: &ChatSettings<'_>,
) -> Result<(), Failure> {
    let terminal = |error: ReadlineError| Failure::new(Kind::Internal, format_args!("terminal: {error}"));
    let mut editor = DefaultEditor::new().map_err(terminal)?;
    let mut messages = opening(settings.system);
    note(HELP);
    loop {
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                note("/exit or Ctrl-D ends");
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal(error)),
        };
        match line.trim() {
            "" => continue,
            "/exit" | "/quit" => return Ok(()),
            "/clear" => {
                messages = opening(settings.system);
                continue;
            }
            "/help" | "/?" => {
                note(HELP);
                continue;
            }
            _ => {}
        }
        // a failure only loses the history entry
        let _ = editor.add_history_entry(&line);
        messages.push(json!({ "role": "user", "content": line }));
        match turn(generator, tokenizer, template, settings, &messages) {
            Ok(text) => messages.push(json!({ "role": "assistant", "content": text })),
            Err(failure) if failure.is_input() => {
                // the conversation is too long, or the template refuses the line: only this turn is dropped
                messages.pop();
                let _ = failure.report();
                note("that line was dropped; /clear starts a new conversation");
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn opening(system: Option<&str>) -> Vec<Value> {
    system.map(|content| json!({ "role": "system", "content": content })).into_iter().collect()
}

/// Generates and prints one answer; returns its text.
fn turn<B: Backend>(
    generator: &mut Generator<'_, '_, B>,
    tokenizer: &Tokenizer<'_>,
    template: &ChatTemplate,
    settings: &ChatSettings<'_>,
    messages: &[Value],
) -> Result<String, Failure> {
    let prompt = chat_tokens(tokenizer, template, messages, settings.merge)?;
    // an earlier Ctrl-C does not concern this answer
    generator.interrupt().reset();
    let answer = generator.run(&prompt, settings.params, &mut print_answer)?;
    print("\n")?;
    note(StatusLine { answer: &answer, resolved: settings.resolved });
    if answer.reason != FinishReason::Cancelled {
        ending(&answer)?;
    }
    Ok(answer.text)
}
