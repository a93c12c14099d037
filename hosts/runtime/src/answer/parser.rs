//! Takes the text of one answer as it comes and hands on its parts. No text is lost: what looks like a call and is
//! none stays text.

use super::arguments::{Head, Open, head};
use super::calls;
use super::delta::{Begin, Delta};
use super::harmony::Harmony;
use super::scan;
use super::style::{CallStyle, Style};
use super::tools::Tools;

/// Where the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing but white space has come.
    Start,
    Reasoning,
    Text,
    /// Behind this opening mark of a call.
    Call(&'static str),
    /// In the arguments of the call of this number, which are handed on as they come.
    Arguments(usize, Open),
    /// Behind arguments that were handed on, before the mark that closes the call.
    Tail,
}

/// Reads one answer.
#[derive(Clone, Debug)]
pub struct AnswerParser {
    style: Style,
    tools: Tools,
    place: Place,
    buffer: String,
    /// White space that is shown only if text follows.
    blank: String,
    /// White space between reasoning and text belongs to neither.
    skip_blank: bool,
    calls: usize,
    harmony: Option<Harmony>,
}

/// The marks around a call in JSON.
const JSON: &str = "<tool_call>";
const JSON_END: &str = "</tool_call>";

/// The closing half of a pair whose opening half the model left out.
const STRAY: &str = "</tool_call>";

/// The marks that open a call in this style.
fn openings(style: CallStyle) -> &'static [&'static str] {
    match style {
        CallStyle::None | CallStyle::Bare | CallStyle::Harmony => &[],
        CallStyle::Hermes | CallStyle::ArgumentPairs => &["<tool_call>"],
        CallStyle::Functions => &["<tool_call>", "<function=", STRAY],
        CallStyle::Bracketed => &["[TOOL_CALLS]"],
        CallStyle::DeepSeek => &["<｜tool▁calls▁begin｜>"],
    }
}

/// The mark that closes what `opening` opened; `None` if only the end of the answer does.
fn closing(opening: &str) -> Option<&'static str> {
    match opening {
        "<tool_call>" => Some("</tool_call>"),
        "<function=" => Some("</function>"),
        "<｜tool▁calls▁begin｜>" => Some("<｜tool▁calls▁end｜>"),
        _ => None,
    }
}

impl AnswerParser {
    /// A reader of an answer that goes on where its prompt ended. Without tools nothing is taken for a call.
    #[must_use]
    pub fn new(mut style: Style, tools: Tools, begin: Begin) -> Self {
        let harmony = (style.calls == CallStyle::Harmony).then(|| Harmony::new(begin, !tools.is_empty()));
        if tools.is_empty() {
            style.calls = CallStyle::None;
        }
        let place = match begin {
            Begin::Turn => Place::Start,
            Begin::Reasoning => Place::Reasoning,
            Begin::Text => Place::Text,
        };
        Self {
            style,
            tools,
            place,
            buffer: String::new(),
            blank: String::new(),
            skip_blank: false,
            calls: 0,
            harmony,
        }
    }

    /// Calls that have come so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.harmony.as_ref().map_or(self.calls, |harmony| harmony.calls)
    }

    /// Whether the next text is reasoning.
    #[must_use]
    pub fn reasons(&self) -> bool {
        self.harmony.as_ref().map_or(self.place == Place::Reasoning, Harmony::reasons)
    }

    /// Takes more text.
    pub fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        if let Some(harmony) = &mut self.harmony {
            return harmony.push(text, out);
        }
        self.buffer.push_str(text);
        while self.step(out) {}
    }

    /// Hands on what was held back, when no more text comes.
    pub fn finish(&mut self, out: &mut Vec<Delta>) {
        if let Some(harmony) = &mut self.harmony {
            return harmony.finish(out);
        }
        let rest = core::mem::take(&mut self.buffer);
        match self.place {
            Place::Start if self.skip_blank => {}
            Place::Reasoning => emit_reasoning(rest.trim_end(), out),
            Place::Call(opening) => {
                // half of a call is none
                if calls::cut_off(self.style.calls, &rest) {
                    self.no_call(opening, &rest, "", out);
                } else {
                    self.call(opening, &rest, "", out);
                }
                self.rest_of_text(String::new(), out);
            }
            // cut off in the middle, which whoever reads the arguments will see
            Place::Arguments(..) => {}
            Place::Tail => self.rest_of_call(&rest, out),
            Place::Start | Place::Text => self.rest_of_text(rest, out),
        }
    }

    /// The last of the text; white space at its end is the answer's only where there are no calls.
    fn rest_of_text(&mut self, rest: String, out: &mut Vec<Delta>) {
        if self.calls == 0 {
            self.text(rest, out);
            let blank = core::mem::take(&mut self.blank);
            emit_text(blank, out);
        } else if !rest.trim().is_empty() {
            self.text(rest.trim_end().to_owned(), out);
        }
    }

    /// Reads on as far as the text goes; whether there is more to do.
    fn step(&mut self, out: &mut Vec<Delta>) -> bool {
        match self.place {
            Place::Start => self.start(),
            Place::Reasoning => self.reasoning(out),
            Place::Text => self.plain(out),
            Place::Arguments(index, open) => self.arguments(index, open, out),
            Place::Tail => self.tail(out),
            Place::Call(opening) => {
                let json = self.style.calls == CallStyle::Hermes && opening == JSON;
                if json && self.begin_arguments(out) {
                    return true;
                }
                let Some(close) = closing(opening) else { return false };
                let Some(at) = self.buffer.find(close) else { return false };
                let body = self.buffer[..at].to_owned();
                self.buffer.drain(..at + close.len());
                self.place = Place::Text;
                self.call(opening, &body, close, out);
                true
            }
        }
    }

    /// Hands on a call whose tool is known, and goes on with its arguments. Whether it did: what is no such head, or
    /// no whole one yet, waits for its end.
    fn begin_arguments(&mut self, out: &mut Vec<Delta>) -> bool {
        let Head::Call(name, begin) = head(&self.buffer) else { return false };
        if !self.tools.has(&name) {
            return false;
        }
        self.buffer.drain(..begin);
        self.blank.clear();
        let index = self.calls;
        self.calls += 1;
        out.push(Delta::Call { index, name });
        self.place = Place::Arguments(index, Open::default());
        true
    }

    fn arguments(&mut self, index: usize, mut open: Open, out: &mut Vec<Delta>) -> bool {
        let (text, end) = open.read(&self.buffer);
        self.buffer.drain(..end.unwrap_or(self.buffer.len()));
        if !text.is_empty() {
            out.push(Delta::Arguments { index, text });
        }
        self.place = if end.is_some() { Place::Tail } else { Place::Arguments(index, open) };
        end.is_some()
    }

    /// Waits for the closing mark; further calls may stand in front of it.
    fn tail(&mut self, out: &mut Vec<Delta>) -> bool {
        let Some(at) = self.buffer.find(JSON_END) else { return false };
        let body: String = self.buffer.drain(..at + JSON_END.len()).collect();
        self.rest_of_call(&body[..at], out);
        true
    }

    /// What stands behind the arguments of a call and is not the end of its object.
    fn rest_of_call(&mut self, body: &str, out: &mut Vec<Delta>) {
        self.place = Place::Text;
        let body = body.trim_start();
        let body = body.strip_prefix('}').unwrap_or(body).trim();
        if body.is_empty() {
            return;
        }
        match calls::parse(self.style.calls, body, &self.tools) {
            Some(calls) => self.emit_calls(calls, out),
            None => self.text(body.to_owned(), out),
        }
    }

    fn start(&mut self) -> bool {
        let blank = self.buffer.len() - self.buffer.trim_start().len();
        let text = &self.buffer[blank..];
        if text.is_empty() {
            return false;
        }
        let blank = if self.skip_blank {
            self.buffer.drain(..blank);
            self.skip_blank = false;
            0
        } else {
            blank
        };
        let text = &self.buffer[blank..];
        if let Some(marks) = self.style.thinking {
            if text.starts_with(marks.open) {
                self.buffer.drain(..blank + marks.open.len());
                self.place = Place::Reasoning;
                return true;
            }
            if marks.open.starts_with(text) {
                return false;
            }
        }
        if self.style.calls == CallStyle::Bare {
            if text.starts_with('{') || text.starts_with("<|python_tag|>") {
                self.place = Place::Call("");
                return true;
            }
            if "<|python_tag|>".starts_with(text) {
                return false;
            }
        }
        self.place = Place::Text;
        true
    }

    fn reasoning(&mut self, out: &mut Vec<Delta>) -> bool {
        let Some(marks) = self.style.thinking else { return false };
        if self.blank.is_empty() {
            let trimmed = self.buffer.trim_start().len();
            self.buffer.drain(..self.buffer.len() - trimmed);
        }
        let mut ends = vec![marks.close];
        ends.extend(openings(self.style.calls).iter().filter(|&&opening| opening != STRAY));
        if let Some((at, end)) = scan::first(&self.buffer, &ends) {
            emit_reasoning(self.buffer[..at].trim_end(), out);
            self.blank.clear();
            if end == marks.close {
                self.buffer.drain(..at + end.len());
                self.place = Place::Start;
                self.skip_blank = true;
                // reasoning comes once
                self.style.thinking = None;
            } else {
                self.buffer.drain(..at);
                self.place = Place::Text;
            }
            return true;
        }
        let shown = self.buffer.len() - scan::pending(&self.buffer, &ends);
        let shown = shown - scan::trailing_blank(&self.buffer[..shown]);
        if shown > 0 {
            let text: String = self.buffer.drain(..shown).collect();
            emit_reasoning(&text, out);
            // from now on white space is part of the reasoning
            " ".clone_into(&mut self.blank);
        }
        false
    }

    fn plain(&mut self, out: &mut Vec<Delta>) -> bool {
        let marks = openings(self.style.calls);
        if let Some((at, opening)) = scan::first(&self.buffer, marks) {
            let before: String = self.buffer.drain(..at).collect();
            self.buffer.drain(..opening.len());
            self.text(before, out);
            if opening != STRAY {
                self.place = Place::Call(opening);
            } else if self.calls == 0 {
                self.text(opening.to_owned(), out);
            }
            return true;
        }
        let shown = self.buffer.len() - scan::pending(&self.buffer, marks);
        let held = self.buffer.split_off(shown);
        let text = core::mem::replace(&mut self.buffer, held);
        self.text(text, out);
        false
    }

    /// Hands on text; where calls may follow, white space at its end waits.
    fn text(&mut self, text: String, out: &mut Vec<Delta>) {
        if self.style.calls == CallStyle::None {
            return emit_text(text, out);
        }
        let end = text.trim_end().len();
        if end > 0 {
            let blank = core::mem::take(&mut self.blank);
            emit_text(format!("{blank}{}", &text[..end]), out);
        }
        self.blank.push_str(&text[end..]);
    }

    /// Hands on the calls of a body, or the body as it stood.
    fn call(&mut self, opening: &str, body: &str, close: &str, out: &mut Vec<Delta>) {
        let whole = if opening == "<function=" { format!("{opening}{body}{close}") } else { body.to_owned() };
        // these marks stand before anything
        let weak = opening == "<function=" || self.style.calls == CallStyle::ArgumentPairs;
        let known = |calls: &Vec<calls::Call>| !weak || calls.iter().all(|call| self.tools.has(&call.name));
        let Some(calls) = calls::parse(self.style.calls, &whole, &self.tools).filter(known) else {
            return self.no_call(opening, body, close, out);
        };
        self.emit_calls(calls, out);
    }

    /// Hands on as text what looked like calls.
    fn no_call(&mut self, opening: &str, body: &str, close: &str, out: &mut Vec<Delta>) {
        let blank = core::mem::take(&mut self.blank);
        self.place = Place::Text;
        self.text(format!("{blank}{opening}{body}{close}"), out);
    }

    fn emit_calls(&mut self, calls: Vec<calls::Call>, out: &mut Vec<Delta>) {
        self.blank.clear();
        for calls::Call { name, arguments } in calls {
            let index = self.calls;
            self.calls += 1;
            out.push(Delta::Call { index, name });
            out.push(Delta::Arguments { index, text: arguments });
        }
    }
}

fn emit_text(text: String, out: &mut Vec<Delta>) {
    if !text.is_empty() {
        out.push(Delta::Text(text));
    }
}

fn emit_reasoning(text: &str, out: &mut Vec<Delta>) {
    if !text.is_empty() {
        out.push(Delta::Reasoning(text.to_owned()));
    }
}
