//! Answers of gpt-oss (the harmony format): messages in channels, with recipients.
//!
//! Not here: all other styles (`parser`).

use super::delta::{Begin, Delta};
use super::scan;
use super::strings::Strings;
use super::tools::Tools;

const MESSAGE: &str = "<|message|>";
/// Marks that end a message.
const ENDS: [&str; 4] = ["<|end|>", "<|return|>", "<|call|>", "<|start|>"];

/// The part of the answer that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Header,
    Reasoning,
    Text,
    /// The arguments of the call of this number.
    Call(usize, Arguments),
}

/// The state of a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    /// There is no text yet.
    Empty,
    /// White space only.
    Blank,
    /// An object, whose string literals are repaired.
    Object(Strings),
    /// Anything else, passed unchanged.
    Other,
}

/// Parser of an answer after `<|start|>assistant`.
#[derive(Clone, Debug)]
pub(super) struct Harmony {
    section: Section,
    buffer: String,
    pub(super) calls: usize,
    tools: Tools,
}

impl Harmony {
    pub(super) fn new(begin: Begin, tools: Tools) -> Self {
        let section = match begin {
            Begin::Turn => Section::Header,
            Begin::Reasoning => Section::Reasoning,
            Begin::Text => Section::Text,
        };
        Self { section, buffer: String::new(), calls: 0, tools }
    }

    pub(super) fn reasons(&self) -> bool {
        self.section == Section::Reasoning
    }

    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        self.buffer.push_str(text);
        loop {
            match self.section {
                Section::Header => {
                    let Some(at) = self.buffer.find(MESSAGE) else { return };
                    let header = self.buffer[..at].to_owned();
                    self.buffer.drain(..at + MESSAGE.len());
                    self.section = self.open(&header, out);
                }
                _ => match scan::first(&self.buffer, &ENDS) {
                    Some((at, end)) => {
                        self.emit(at, out);
                        self.buffer.drain(..end.len());
                        self.close(out);
                    }
                    None => {
                        let held = scan::pending(&self.buffer, &ENDS);
                        self.emit(self.buffer.len() - held, out);
                        return;
                    }
                },
            }
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Delta>) {
        match self.section {
            // a header without a message is dropped; text without any mark is not a header
            Section::Header if !self.buffer.contains("<|") && !self.buffer.trim().is_empty() => {
                out.push(Delta::Text(core::mem::take(&mut self.buffer)));
            }
            Section::Header => {}
            _ => {
                self.emit(self.buffer.len(), out);
                self.close(out);
            }
        }
    }

    /// Ends a message; a call without arguments gets an empty object.
    fn close(&mut self, out: &mut Vec<Delta>) {
        if let Section::Call(index, Arguments::Empty) = self.section {
            out.push(Delta::Arguments { index, text: "{}".to_owned() });
        }
        self.section = Section::Header;
    }

    /// The section that a header opens. The recipient may be in the role or in the channel.
    fn open(&mut self, header: &str, out: &mut Vec<Delta>) -> Section {
        if let Some(name) = self.recipient(header) {
            let index = self.calls;
            self.calls += 1;
            out.push(Delta::Call { index, name });
            return Section::Call(index, Arguments::Empty);
        }
        let channel = header.rsplit_once("<|channel|>").map_or("", |(_, channel)| channel.trim_start());
        if channel.starts_with("analysis") { Section::Reasoning } else { Section::Text }
    }

    /// The tool that a header calls: `to=functions.N`, or `to=N` with the name of an offered tool.
    fn recipient(&self, header: &str) -> Option<String> {
        if self.tools.is_empty() {
            return None;
        }
        header.match_indices("to=").find_map(|(at, mark)| {
            if header[..at].ends_with(|c: char| !c.is_whitespace() && c != '>') {
                return None;
            }
            let word = &header[at + mark.len()..];
            let word = &word[..word.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(word.len())];
            match word.strip_prefix("functions.") {
                Some(name) => Some(name.to_owned()),
                None => self.tools.has(word).then(|| word.to_owned()),
            }
        })
    }

    /// Emits the first `len` bytes of the buffer.
    fn emit(&mut self, len: usize, out: &mut Vec<Delta>) {
        let text: String = self.buffer.drain(..len).collect();
        if text.is_empty() {
            return;
        }
        out.push(match self.section {
            Section::Reasoning => Delta::Reasoning(text),
            Section::Call(index, arguments) => {
                let (arguments, text) = arguments.read(text);
                self.section = Section::Call(index, arguments);
                if text.is_empty() {
                    return;
                }
                Delta::Arguments { index, text }
            }
            Section::Header | Section::Text => Delta::Text(text),
        });
    }
}

impl Arguments {
    /// Reads more text that is not empty. Returns the new state and the text to emit.
    fn read(mut self, text: String) -> (Self, String) {
        if matches!(self, Self::Empty | Self::Blank) {
            self = match text.trim_start().chars().next() {
                None => Self::Blank,
                Some('{') => Self::Object(Strings::default()),
                Some(_) => Self::Other,
            };
        }
        let Self::Object(mut strings) = self else { return (self, text) };
        let mut shown = String::with_capacity(text.len());
        text.chars().for_each(|character| strings.push(character, &mut shown));
        (Self::Object(strings), shown)
    }
}
