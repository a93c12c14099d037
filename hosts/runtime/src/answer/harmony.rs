//! The channels of gpt-oss: headers, messages, and who they are for.

use super::delta::{Begin, Delta};
use super::scan;

const MESSAGE: &str = "<|message|>";
/// What ends a message.
const ENDS: [&str; 4] = ["<|end|>", "<|return|>", "<|call|>", "<|start|>"];

/// Where the reader is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Header,
    Reasoning,
    Text,
    /// In the arguments of the call of this number, of which nothing has come yet if so.
    Call(usize, bool),
}

/// Reads an answer that begins behind `<|start|>assistant`.
#[derive(Clone, Debug)]
pub(super) struct Harmony {
    place: Place,
    buffer: String,
    pub(super) calls: usize,
    /// Whether there are tools to be called.
    tools: bool,
}

impl Harmony {
    pub(super) fn new(begin: Begin, tools: bool) -> Self {
        let place = match begin {
            Begin::Turn => Place::Header,
            Begin::Reasoning => Place::Reasoning,
            Begin::Text => Place::Text,
        };
        Self { place, buffer: String::new(), calls: 0, tools }
    }

    pub(super) fn reasons(&self) -> bool {
        self.place == Place::Reasoning
    }

    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        self.buffer.push_str(text);
        loop {
            match self.place {
                Place::Header => {
                    let Some(at) = self.buffer.find(MESSAGE) else { return };
                    let header = self.buffer[..at].to_owned();
                    self.buffer.drain(..at + MESSAGE.len());
                    self.place = self.open(&header, out);
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
        match self.place {
            // a header without a message says nothing; without any mark it is no header
            Place::Header if !self.buffer.contains("<|") && !self.buffer.trim().is_empty() => {
                out.push(Delta::Text(core::mem::take(&mut self.buffer)));
            }
            Place::Header => {}
            _ => {
                self.emit(self.buffer.len(), out);
                self.close(out);
            }
        }
    }

    /// Ends a message; a call without arguments has an empty object of them.
    fn close(&mut self, out: &mut Vec<Delta>) {
        if let Place::Call(index, true) = self.place {
            out.push(Delta::Arguments { index, text: "{}".to_owned() });
        }
        self.place = Place::Header;
    }

    /// The place that a header opens. The recipient may stand in the role or in the channel.
    fn open(&mut self, header: &str, out: &mut Vec<Delta>) -> Place {
        let recipient = header.split_once("to=functions.").map(|(_, rest)| {
            let end = rest.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(rest.len());
            rest[..end].to_owned()
        });
        if let Some(name) = recipient.filter(|_| self.tools) {
            let index = self.calls;
            self.calls += 1;
            out.push(Delta::Call { index, name });
            return Place::Call(index, true);
        }
        let channel = header.rsplit_once("<|channel|>").map_or("", |(_, channel)| channel.trim_start());
        if channel.starts_with("analysis") { Place::Reasoning } else { Place::Text }
    }

    /// Hands on the first bytes of the buffer.
    fn emit(&mut self, len: usize, out: &mut Vec<Delta>) {
        let text: String = self.buffer.drain(..len).collect();
        if text.is_empty() {
            return;
        }
        out.push(match self.place {
            Place::Reasoning => Delta::Reasoning(text),
            Place::Call(index, _) => {
                self.place = Place::Call(index, false);
                Delta::Arguments { index, text }
            }
            Place::Header | Place::Text => Delta::Text(text),
        });
    }
}
