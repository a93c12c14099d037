//! The chat of `doorbell run` on a terminal: questions, answers, and commands that begin with a slash.

use super::commands::{Command, HELP, Line};
use super::conversation::Conversation;
use super::input::{Input, LineInput, WithoutEcho};
use super::{external_editor, set};
use crate::command::answer::{ChatFormat, StatusLine, ending};
use crate::command::answer_printer::AnswerPrinter;
use crate::device_args::ResolvedDevice;
use crate::failure::Failure;
use crate::generate::{Generator, Params};
use crate::output::note;
use crate::sampling::Sampling;
use core::fmt::Write as _;
use doorbell_core::backend::Backend;
use doorbell_core::engine::FinishReason;
use doorbell_core::gguf::Gguf;
use doorbell_core::token::{TokenId, Tokenizer};
use std::path::Path;

/// A model and the settings of a chat with it.
pub(crate) struct ChatSettings<'s> {
    /// Name of the model's file.
    pub(crate) name: &'s Path,
    pub(crate) gguf: &'s Gguf<'s>,
    pub(crate) tokenizer: &'s Tokenizer<'s>,
    pub(crate) format: ChatFormat<'s>,
    pub(crate) system: Option<&'s str>,
    pub(crate) sampling: Sampling,
    /// Limit of tokens in an answer.
    pub(crate) max_tokens: Option<u32>,
    /// Tokens of a conversation.
    pub(crate) context: u32,
    pub(crate) resolved: ResolvedDevice,
    /// True to keep the lines for later sessions.
    pub(crate) history: bool,
}

/// Chats until `/exit` or the end of input.
pub(crate) fn chat<B: Backend>(
    generator: &mut Generator<'_, '_, B>,
    settings: ChatSettings<'_>,
) -> Result<(), Failure> {
    let params = settings.params()?;
    let mut input = LineInput::new(settings.history)?;
    let conversation = Conversation::new(settings.system);
    let mut chat = Chat { generator, settings, params, conversation };
    note("/help lists the commands, /exit or Ctrl-D ends, Ctrl-C stops an answer");
    loop {
        let line = match input.read()? {
            Input::Line(line) => line,
            Input::Interrupted => {
                note("/exit or Ctrl-D ends");
                continue;
            }
            Input::End => return Ok(()),
        };
        match Line::parse(&line) {
            Line::Empty => {}
            Line::Text(text) => chat.ask(text.to_owned())?,
            Line::Wrong(mistake) => note(mistake),
            Line::Command(Command::Exit) => return Ok(()),
            Line::Command(command) => chat.execute(command)?,
        }
    }
}

impl ChatSettings<'_> {
    fn params(&self) -> Result<Params, Failure> {
        self.sampling.generation_params(self.gguf, self.tokenizer, self.max_tokens)
    }
}

struct Chat<'c, 'g, 'm, 'a, B> {
    generator: &'g mut Generator<'m, 'a, B>,
    settings: ChatSettings<'c>,
    params: Params,
    conversation: Conversation,
}

impl<B: Backend> Chat<'_, '_, '_, '_, B> {
    /// Executes a command. Only failures that end the chat are errors.
    fn execute(&mut self, command: Command<'_>) -> Result<(), Failure> {
        match command {
            Command::Exit => {}
            Command::Help => note(HELP),
            Command::Clear => self.conversation.clear(),
            Command::System(text) => self.conversation.set_system(text),
            Command::Set { parameter, value } => self.set(parameter, value),
            Command::Show => self.show()?,
            Command::Tokens => {
                note(format_args!("{} of {} tokens", self.tokens()?.len(), self.settings.context))
            }
            Command::Regenerate => match self.conversation.undo() {
                Some(question) => {
                    // the same seed would give the same answer
                    self.params.sampler.seed = self.params.sampler.seed.wrapping_add(1);
                    self.ask(question)?;
                }
                None => note("there is no question yet"),
            },
            Command::Undo => {
                if self.conversation.undo().is_none() {
                    note("there is no question yet");
                }
            }
            Command::Edit => self.edit()?,
            Command::Save(path) => {
                let document = format!("{}\n", self.conversation.to_document());
                match std::fs::write(path, document) {
                    Ok(()) => note(format_args!("{} turns are in {path}", self.conversation.turns())),
                    Err(error) => note(format_args!("{path}: {error}")),
                }
            }
            Command::Load(path) => {
                let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
                match read.and_then(|text| Conversation::from_document(&text)) {
                    Ok(conversation) => {
                        note(format_args!("{} turns", conversation.turns()));
                        self.conversation = conversation;
                    }
                    Err(error) => note(format_args!("{path}: {error}")),
                }
            }
        }
        Ok(())
    }

    /// Changes a setting; a wrong one changes nothing.
    fn set(&mut self, parameter: &str, value: &str) {
        let changed = set::changed(&self.settings.sampling, self.settings.max_tokens, parameter, value);
        let (sampling, max_tokens) = match changed {
            Ok(changed) => changed,
            Err(reason) => return note(reason),
        };
        let before = core::mem::replace(&mut self.settings.sampling, sampling);
        let before = (before, core::mem::replace(&mut self.settings.max_tokens, max_tokens));
        match self.settings.params() {
            Ok(params) => self.params = params,
            Err(failure) => {
                (self.settings.sampling, self.settings.max_tokens) = before;
                let _ = failure.report();
            }
        }
    }

    fn show(&self) -> Result<(), Failure> {
        let ChatSettings { name, context, resolved, .. } = &self.settings;
        let mut text = format!("model {}, device {}\n", name.display(), resolved.device);
        let sampler = &self.params.sampler;
        // writing to a string can't fail
        let _ = writeln!(
            text,
            "temp {}, top-k {}, top-p {}, min-p {}, seed {}",
            sampler.temperature, sampler.top_k, sampler.top_p, sampler.min_p, sampler.seed
        );
        let system = self.conversation.system().unwrap_or("none");
        let (turns, used) = (self.conversation.turns(), self.tokens()?.len());
        let _ = write!(text, "system message: {system}\n{turns} turns, {used} of {context} tokens");
        note(text);
        Ok(())
    }

    /// The tokens of the conversation; none if there is nothing to render.
    fn tokens(&self) -> Result<Vec<TokenId>, Failure> {
        let messages = self.conversation.messages();
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        match self.settings.format.prompt(self.settings.tokenizer, &messages) {
            Ok(prompt) => Ok(prompt.tokens.to_vec()),
            // the template wants a question
            Err(failure) if failure.is_input() => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    /// Lets the user write in an editor, beginning with the last question, which the new text then replaces.
    fn edit(&mut self) -> Result<(), Failure> {
        let last = self.conversation.last_question().unwrap_or_default().to_owned();
        match external_editor::edit(&last) {
            Ok(text) if text.trim().is_empty() => note("the text is empty; nothing has changed"),
            Ok(text) => {
                self.conversation.undo();
                self.ask(text.trim_end().to_owned())?;
            }
            Err(reason) => note(reason),
        }
        Ok(())
    }

    /// Answers a question, which is dropped if it can't be answered.
    fn ask(&mut self, question: String) -> Result<(), Failure> {
        self.conversation.ask(question);
        match self.answer() {
            Ok(text) => self.conversation.answer(text),
            Err(failure) if failure.is_input() => {
                // the template refuses the question, or it is too long
                self.conversation.undo();
                let _ = failure.report();
                note("that text was dropped");
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Generates and prints the answer to the last question. If the context has no room for it, the oldest turns leave.
    fn answer(&mut self) -> Result<String, Failure> {
        let ChatSettings { format, tokenizer, context, resolved, .. } = &self.settings;
        let room = (context / 4).min(self.params.max_tokens) as usize;
        let mut dropped = 0;
        let prompt = loop {
            let prompt = format.prompt(tokenizer, &self.conversation.messages())?;
            if prompt.tokens.len() + room <= *context as usize || !self.conversation.drop_oldest() {
                break prompt;
            }
            dropped += 1;
        };
        if dropped > 0 {
            note(format_args!(
                "the context is full: the oldest {dropped} turns are gone; --ctx sets a larger one"
            ));
        }
        // an earlier Ctrl-C does not concern this answer
        self.generator.interrupt().reset();
        let quiet = WithoutEcho::new();
        let mut printer = AnswerPrinter::new(format.style, prompt.begin, format.reasoning);
        let special = format.style.needs_control_tokens();
        let answer =
            self.generator.run(&prompt.tokens, &self.params, special, &mut |text| printer.push(text))?;
        let text = printer.finish()?;
        drop(quiet);
        self.generator.interrupt().reset();
        note(StatusLine { answer: &answer, resolved: *resolved });
        if answer.reason != FinishReason::Cancelled {
            ending(&answer)?;
        }
        Ok(text)
    }
}
