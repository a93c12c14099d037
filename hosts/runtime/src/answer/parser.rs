//! Splits the streamed text of an answer into its parts. No text is lost: what looks like a call but is not one stays text.
//!
//! Not here: parsing calls (`calls`, `arguments`), and the format of gpt-oss (`harmony`).

use super::arguments::{Head, OpenObject, head};
use super::braces;
use super::calls;
use super::delta::{Begin, Delta};
use super::harmony::Harmony;
use super::scan;
use super::style::{CallStyle, Style, Thinking};
use super::tools::Tools;

/// The part of the answer that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    /// The beginning: only white space so far.
    Start,
    Reasoning,
    Text,
    /// A call after this opening mark.
    Call(&'static str),
    /// The streamed arguments of the call of this number.
    Arguments(usize, OpenObject),
    /// The rest of a call after its streamed arguments, up to the closing mark.
    Tail,
}

/// Streaming parser of one answer.
#[derive(Clone, Debug)]
pub struct AnswerParser {
    style: Style,
    tools: Tools,
    section: Section,
    buffer: String,
    /// White space that is emitted only if text follows.
    blank: String,
    /// True after reasoning: white space before the text is dropped.
    skip_blank: bool,
    /// White space before reasoning that has interrupted the text.
    interrupted: Option<String>,
    calls: usize,
    harmony: Option<Harmony>,
}

/// The marks around a call in JSON.
const JSON: &str = "<tool_call>";
const JSON_END: &str = "</tool_call>";

/// A closing mark whose opening mark the model has left out.
const STRAY: &str = "</tool_call>";

/// The marks that open a call in this style.
fn openings(style: CallStyle) -> &'static [&'static str] {
    match style {
        CallStyle::None | CallStyle::Bare | CallStyle::Harmony => &[],
        CallStyle::Hermes | CallStyle::ArgumentPairs => &["<tool_call>"],
        CallStyle::Functions => &["<tool_call>", "<function=", STRAY],
        CallStyle::Bracketed => &["[TOOL_CALLS]"],
        CallStyle::DeepSeek => &["<｜tool▁calls▁begin｜>"],
        CallStyle::Braces => &[braces::OPEN],
    }
}

/// The closing mark for `opening`; `None` if the call ends with the answer.
fn closing(opening: &str) -> Option<&'static str> {
    match opening {
        "<tool_call>" => Some("</tool_call>"),
        "<function=" => Some("</function>"),
        "<｜tool▁calls▁begin｜>" => Some("<｜tool▁calls▁end｜>"),
        braces::OPEN => Some(braces::CLOSE),
        _ => None,
    }
}

/// The closing mark of a call in which a value never ended, and its position: behind a line end or another mark.
fn late_end(opening: &str, text: &str) -> Option<(usize, &'static str)> {
    let close = closing(opening)?;
    let mut ends = text.match_indices(close).map(|(at, _)| at);
    Some((ends.find(|&at| text[..at].ends_with(['\n', '>']))?, close))
}

impl AnswerParser {
    /// A parser of an answer that begins in the part `begin`. Without tools no text is parsed as a call.
    #[must_use]
    pub fn new(mut style: Style, tools: Tools, begin: Begin) -> Self {
        let harmony = (style.calls == CallStyle::Harmony).then(|| Harmony::new(begin, tools.clone()));
        if tools.is_empty() {
            style.calls = CallStyle::None;
        }
        let section = match begin {
            Begin::Turn => Section::Start,
            Begin::Reasoning => Section::Reasoning,
            Begin::Text => Section::Text,
        };
        Self {
            style,
            tools,
            section,
            buffer: String::new(),
            blank: String::new(),
            skip_blank: false,
            interrupted: None,
            calls: 0,
            harmony,
        }
    }

    /// Number of calls so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.harmony.as_ref().map_or(self.calls, |harmony| harmony.calls)
    }

    /// True if the next text is reasoning.
    #[must_use]
    pub fn reasons(&self) -> bool {
        self.harmony.as_ref().map_or(self.section == Section::Reasoning, Harmony::reasons)
    }

    /// Parses more text and appends the parts to `out`.
    pub fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        if let Some(harmony) = &mut self.harmony {
            return harmony.push(text, out);
        }
        self.buffer.push_str(text);
        while self.step(out) {}
    }

    /// Ends the answer and appends the text that was held back to `out`.
    pub fn finish(&mut self, out: &mut Vec<Delta>) {
        if let Some(harmony) = &mut self.harmony {
            return harmony.finish(out);
        }
        loop {
            let rest = core::mem::take(&mut self.buffer);
            match self.section {
                Section::Start if self.skip_blank => {}
                Section::Reasoning => self.unclosed_reasoning(&rest, out),
                Section::Call(opening) => {
                    // an incomplete call is text
                    if let Some((at, close)) = late_end(opening, &rest) {
                        self.buffer.clone_from(&rest);
                        self.closed_call(opening, at, close, out);
                    } else if calls::cut_off(self.style.calls, &rest) {
                        self.call_as_text(opening, &rest, "", out);
                    } else {
                        self.call(opening, &rest, "", out);
                    }
                    self.section = Section::Text;
                    while self.step(out) {}
                    if self.section != Section::Text {
                        continue;
                    }
                    let rest = core::mem::take(&mut self.buffer);
                    self.rest_of_text(rest, out);
                }
                // incomplete arguments: their reader sees that the JSON is incomplete
                Section::Arguments(..) => {}
                Section::Tail => self.rest_of_call(&rest, out),
                Section::Start | Section::Text => self.rest_of_text(rest, out),
            }
            return;
        }
    }

    /// Emits the last text; trailing white space is kept only in answers without calls.
    fn rest_of_text(&mut self, rest: String, out: &mut Vec<Delta>) {
        if self.calls == 0 {
            self.text(rest, out);
            let blank = core::mem::take(&mut self.blank);
            emit_text(blank, out);
        } else if !rest.trim().is_empty() {
            self.text(rest.trim_end().to_owned(), out);
        }
    }

    /// Parses a part of the buffer; true if there is more to parse.
    fn step(&mut self, out: &mut Vec<Delta>) -> bool {
        match self.section {
            Section::Start => self.start(),
            Section::Reasoning => self.reasoning(out),
            Section::Text => self.plain(out),
            Section::Arguments(index, open) => self.arguments(index, open, out),
            Section::Tail => self.tail(out),
            Section::Call(opening) => {
                let json = self.style.calls == CallStyle::Hermes && opening == JSON;
                if json && self.begin_arguments(out) {
                    return true;
                }
                let Some(close) = closing(opening) else { return false };
                let at = match calls::tags(self.style.calls) {
                    Some(tags) => tags.end_of_call(&self.buffer, close),
                    None if close == braces::CLOSE => braces::end_of_call(&self.buffer),
                    None => self.buffer.find(close),
                };
                let Some(at) = at else { return false };
                self.closed_call(opening, at, close, out);
                true
            }
        }
    }

    /// Reads a call whose closing mark is at byte `at` of the buffer.
    fn closed_call(&mut self, opening: &str, at: usize, close: &str, out: &mut Vec<Delta>) {
        let body = self.buffer[..at].to_owned();
        self.buffer.drain(..at + close.len());
        self.section = Section::Text;
        self.call(opening, &body, close, out);
    }

    /// Emits a call of an offered tool whose head is complete, and begins to stream its arguments. Otherwise returns false:
    /// the call is then parsed as a whole.
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
        self.section = Section::Arguments(index, OpenObject::default());
        true
    }

    fn arguments(&mut self, index: usize, mut open: OpenObject, out: &mut Vec<Delta>) -> bool {
        let (text, end) = open.read(&self.buffer);
        self.buffer.drain(..end.unwrap_or(self.buffer.len()));
        if !text.is_empty() {
            out.push(Delta::Arguments { index, text });
        }
        self.section = if end.is_some() { Section::Tail } else { Section::Arguments(index, open) };
        end.is_some()
    }

    /// Reads up to the closing mark; further calls may come before it.
    fn tail(&mut self, out: &mut Vec<Delta>) -> bool {
        let Some(at) = self.buffer.find(JSON_END) else { return false };
        let body: String = self.buffer.drain(..at + JSON_END.len()).collect();
        self.rest_of_call(&body[..at], out);
        true
    }

    /// Emits the text between a call's arguments and its closing mark, without the brace of the call's object.
    fn rest_of_call(&mut self, body: &str, out: &mut Vec<Delta>) {
        self.section = Section::Text;
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
                self.section = Section::Reasoning;
                return true;
            }
            if marks.open.starts_with(text) {
                return false;
            }
            // a mark without a partner
            if marks.channel
                && let Some(lone) =
                    [marks.close, marks.opening_token()].into_iter().find(|lone| text.starts_with(lone))
            {
                self.buffer.drain(..blank + lone.len());
                self.skip_blank = true;
                return true;
            }
            if marks.channel && marks.close.starts_with(text) {
                return false;
            }
        }
        if self.style.calls == CallStyle::Bare {
            if text.starts_with('{') || text.starts_with("<|python_tag|>") {
                self.section = Section::Call("");
                return true;
            }
            if "<|python_tag|>".starts_with(text) {
                return false;
            }
        }
        self.section = Section::Text;
        true
    }

    fn reasoning(&mut self, out: &mut Vec<Delta>) -> bool {
        let Some(marks) = self.style.thinking else { return false };
        if self.blank.is_empty() {
            let trimmed = self.buffer.trim_start().len();
            self.buffer.drain(..self.buffer.len() - trimmed);
        }
        if let Some(at) = self.buffer.find(marks.close) {
            emit_reasoning(self.buffer[..at].trim_end(), out);
            self.blank.clear();
            self.buffer.drain(..at + marks.close.len());
            if !marks.channel {
                // an answer has reasoning once
                self.style.thinking = None;
            }
            self.skip_blank = self.interrupted.is_none();
            self.section = if self.skip_blank { Section::Start } else { Section::Text };
            self.blank = self.interrupted.take().unwrap_or_default();
            return true;
        }
        // only the end of the answer shows that a call was meant, so its mark and everything after it wait
        let mut ends = self.calls_in_reasoning();
        let shown = match scan::first(&self.buffer, &ends) {
            Some((at, _)) => at,
            None => {
                ends.push(marks.close);
                self.buffer.len() - scan::pending(&self.buffer, &ends)
            }
        };
        let shown = shown - scan::trailing_blank(&self.buffer[..shown]);
        if shown > 0 {
            let text: String = self.buffer.drain(..shown).collect();
            emit_reasoning(&text, out);
            // from now on leading white space is part of the reasoning
            " ".clone_into(&mut self.blank);
        }
        false
    }

    /// The marks that may open a call within reasoning.
    fn calls_in_reasoning(&self) -> Vec<&'static str> {
        openings(self.style.calls).iter().copied().filter(|&opening| opening != STRAY).collect()
    }

    /// Ends reasoning that has no closing mark: the first call in it ends it. A mark that opens no call is a part of it.
    fn unclosed_reasoning(&mut self, rest: &str, out: &mut Vec<Delta>) {
        let Some((at, _)) = scan::first(rest, &self.calls_in_reasoning()) else {
            return emit_reasoning(rest.trim_end(), out);
        };
        let mut parser = self.clone();
        parser.section = Section::Text;
        parser.blank.clear();
        let mut parts = Vec::new();
        parser.push(&rest[at..], &mut parts);
        parser.finish(&mut parts);
        let Some(first) = parts.iter().position(|part| matches!(part, Delta::Call { .. })) else {
            return emit_reasoning(rest.trim_end(), out);
        };
        let mut thoughts = rest[..at].to_owned();
        for part in parts.drain(..first) {
            if let Delta::Text(text) = part {
                thoughts.push_str(&text);
            }
        }
        emit_reasoning(thoughts.trim_end(), out);
        out.append(&mut parts);
        self.calls = parser.calls;
    }

    fn plain(&mut self, out: &mut Vec<Delta>) -> bool {
        let mut marks = openings(self.style.calls).to_vec();
        let channel = self.style.thinking.filter(|marks| marks.channel);
        marks.extend(channel.iter().flat_map(|marks| [marks.open, marks.opening_token(), marks.close]));
        let marks = marks.as_slice();
        if let Some((at, opening)) = scan::first(&self.buffer, marks) {
            let before: String = self.buffer.drain(..at).collect();
            self.text(before, out);
            if let Some(marks) = channel.filter(|_| opening != braces::OPEN) {
                return self.channel(marks, opening);
            }
            self.buffer.drain(..opening.len());
            if opening != STRAY {
                self.section = Section::Call(opening);
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

    /// Reads a mark of a channel at the beginning of the buffer, in text: it interrupts the text, or has no partner.
    fn channel(&mut self, marks: Thinking, mark: &str) -> bool {
        if mark == marks.opening_token() && marks.open.starts_with(self.buffer.as_str()) {
            return false;
        }
        self.buffer.drain(..mark.len());
        if mark == marks.open {
            self.section = Section::Reasoning;
            self.interrupted = Some(core::mem::take(&mut self.blank));
        }
        true
    }

    /// Emits text; if calls may follow, trailing white space is held back.
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

    /// Emits the calls in a body, or the body as text.
    fn call(&mut self, opening: &str, body: &str, close: &str, out: &mut Vec<Delta>) {
        let whole = if opening == "<function=" { format!("{opening}{body}{close}") } else { body.to_owned() };
        // these marks also occur in text, so the tools must exist
        let ambiguous = opening == "<function=" || self.style.calls == CallStyle::ArgumentPairs;
        let known =
            |calls: &Vec<calls::Call>| !ambiguous || calls.iter().all(|call| self.tools.has(&call.name));
        let Some(calls) = calls::parse(self.style.calls, &whole, &self.tools).filter(known) else {
            return self.call_as_text(opening, body, close, out);
        };
        self.emit_calls(calls, out);
    }

    /// Emits as text what looked like calls, up to another opening mark in it.
    fn call_as_text(&mut self, opening: &str, body: &str, close: &str, out: &mut Vec<Delta>) {
        let blank = core::mem::take(&mut self.blank);
        self.section = Section::Text;
        let again = openings(self.style.calls).iter().filter(|&&mark| mark == opening);
        let again = again.filter_map(|mark| body.find(mark)).min();
        let Some(at) = again else { return self.text(format!("{blank}{opening}{body}{close}"), out) };
        self.text(format!("{blank}{opening}{}", &body[..at]), out);
        self.buffer.insert_str(0, &format!("{}{close}", &body[at..]));
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
