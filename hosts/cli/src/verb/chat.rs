//! The chat of `doorbell run` on a terminal: lines in, answers out, until `/exit`.

use super::run::{Closing, chat_tokens, ending};
use crate::device_args::ResolvedDevice;
use crate::failure::{Failure, Kind};
use crate::generate::{Generator, Task};
use crate::output::{note, print};
use doorbell_core::backend::Backend;
use doorbell_core::engine::FinishReason;
use doorbell_core::sample::{DryBreakers, LogitBias, SamplerParams};
use doorbell_core::token::Tokenizer;
use doorbell_runtime::template::ChatTemplate;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::{Value, json};

/// What stays the same over a chat.
pub(crate) struct Settings<'s> {
    pub(crate) max_tokens: u32,
    pub(crate) params: &'s SamplerParams,
    pub(crate) bias: &'s [LogitBias],
    pub(crate) breakers: Option<&'s DryBreakers<'s>>,
    pub(crate) system: Option<&'s str>,
    /// Whether a conversation that the template refuses is told again with the roles that it wants.
    pub(crate) merge: bool,
    pub(crate) computer: ResolvedDevice,
}

const HELP: &str = "/exit or Ctrl-D ends, /clear forgets the conversation, Ctrl-C stops an answer, arrows go back in history";

/// Chats until `/exit` or the end of input.
pub(crate) fn chat<B: Backend>(
    generator: &mut Generator<'_, '_, B>,
    tokenizer: &Tokenizer<'_>,
    template: &ChatTemplate,
    settings: &Settings<'_>,
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
        // a history that can't grow is no reason to stop
        let _ = editor.add_history_entry(&line);
        messages.push(json!({ "role": "user", "content": line }));
        match turn(generator, tokenizer, template, settings, &messages) {
            Ok(text) => messages.push(json!({ "role": "assistant", "content": text })),
            Err(failure) if failure.is_input() => {
                // the conversation has become too long, or the template refuses the line: only that turn is lost
                messages.pop();
                let _ = failure.report();
                note("that line was left out; /clear starts anew");
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn opening(system: Option<&str>) -> Vec<Value> {
    system.map(|content| json!({ "role": "system", "content": content })).into_iter().collect()
}

/// One answer; its text.
fn turn<B: Backend>(
    generator: &mut Generator<'_, '_, B>,
    tokenizer: &Tokenizer<'_>,
    template: &ChatTemplate,
    settings: &Settings<'_>,
    messages: &[Value],
) -> Result<String, Failure> {
    let prompt = chat_tokens(tokenizer, template, messages, settings.merge)?;
    let task = Task {
        prompt: &prompt,
        max_tokens: settings.max_tokens,
        params: settings.params,
        bias: settings.bias,
        breakers: settings.breakers,
        ignore_end: false,
    };
    // what was pressed before concerned something else
    generator.interrupt().reset();
    let answer = generator.run(&task, &mut |text| print(text))?;
    print("\n")?;
    note(Closing { answer: &answer, computer: settings.computer });
    if answer.reason != FinishReason::Cancelled {
        ending(&answer)?;
    }
    Ok(answer.text)
}
