//! The grammar of a whole answer in the marks of the model's family: reasoning, channels, calls that are forced or
//! allowed, and JSON inside them.
//!
//! Not here: the rules of the calls (`tool_grammar`), and matching tokens against a grammar (`crate::constrain`).

use super::delta::Begin;
use super::grammar_text::{json_rule, lazy_until, mark};
use super::style::{CallStyle, Thinking};
use super::tool_grammar::{ModelMarkup, ToolGrammar, UnenforcedKeyword};
use super::tools::{Tool, ToolChoice, Tools};
use crate::constrain::GrammarSpec;
use core::fmt::{self, Write as _};
use serde_json::{Value, json};

/// The parts of a request and its model that decide the grammar of the answer.
#[derive(Clone, Copy)]
pub struct OutputGrammar<'r> {
    /// Vocabulary, template and marks.
    pub markup: ModelMarkup<'r>,
    /// The part of the answer in which generation begins.
    pub begin: Begin,
    /// Tools that the request offers.
    pub tools: &'r Tools,
    /// The calls that the answer may or must have.
    pub choice: &'r ToolChoice,
    /// True if the answer has at most one call.
    pub one_call: bool,
    /// Format of the text for the user.
    pub format: Option<&'r GrammarSpec>,
}

/// Reason why there is no grammar for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputGrammarError {
    /// A forced tool is not among the tools of the request.
    UnknownTool,
    /// A keyword of a strict tool can't be enforced in this model's notation of calls, which writes texts without quotes.
    Keyword {
        /// Name of the tool.
        tool: String,
        /// Name of the parameter.
        parameter: String,
        /// The keyword.
        keyword: String,
    },
}

impl fmt::Display for OutputGrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTool => f.write_str("names no tool that the request offers"),
            Self::Keyword { tool, parameter, keyword } => write!(
                f,
                "tool {tool}: {keyword} at /properties/{parameter} can't be enforced in this model's calls; remove it, or \
                 \"strict\""
            ),
        }
    }
}

impl core::error::Error for OutputGrammarError {}

impl From<UnenforcedKeyword> for OutputGrammarError {
    fn from(error: UnenforcedKeyword) -> Self {
        let UnenforcedKeyword { tool, parameter, keyword } = error;
        Self::Keyword { tool, parameter, keyword }
    }
}

impl OutputGrammar<'_> {
    /// The grammar of the answer with reasoning before it; `None` if the answer is free.
    ///
    /// # Errors
    /// [`OutputGrammarError`]
    pub fn spec(&self) -> Result<Option<GrammarSpec>, OutputGrammarError> {
        let forced = match self.choice {
            ToolChoice::Required => Some(None),
            ToolChoice::Named(name) => Some(Some(name.as_str())),
            ToolChoice::None | ToolChoice::Auto => None,
        };
        if let Some(name) = forced {
            let named = |tool: &&Tool| name.is_none_or(|name| name == tool.name);
            let wanted: Vec<&Tool> = self.tools.iter().filter(named).collect();
            if wanted.is_empty() {
                return Err(OutputGrammarError::UnknownTool);
            }
            let single = Self { one_call: self.one_call || name.is_some(), ..*self };
            return Ok(Some(GrammarSpec::Lark(single.forced(&wanted)?)));
        }
        let schema = match self.format {
            None => None,
            Some(GrammarSpec::JsonObject) => Some(json!({ "type": "object" })),
            Some(GrammarSpec::JsonSchema(schema)) => Some(schema.clone()),
            // a grammar of the client also decides about reasoning and calls
            Some(other) => return Ok(Some(other.clone())),
        };
        // a schema that need not be kept must not cause a refusal
        let kept = |tool: &Tool| {
            let schema = if tool.strict { tool.schema.clone() } else { Value::Null };
            Tool { schema, ..tool.clone() }
        };
        let offered: Vec<Tool> = self.tools.iter().map(kept).collect();
        let offered: Vec<&Tool> = offered.iter().collect();
        let (style, strict) = (self.markup.style, self.tools.iter().any(|tool| tool.strict));
        match schema {
            Some(_) if offered.is_empty() && !style.can_think() => Ok(self.format.cloned()),
            Some(schema) => Ok(Some(GrammarSpec::Lark(self.json_or_calls(&schema, &offered)?))),
            None if strict => Ok(self.text_and_calls(&offered)?.map(GrammarSpec::Lark)),
            None => Ok(None),
        }
    }

    fn mark(&self, text: &str) -> String {
        mark(self.markup.tokenizer, text)
    }

    /// Grammar text of the mark that opens reasoning.
    fn opening(&self, marks: Thinking) -> String {
        let token = marks.opening_token();
        let (mark, rest) = (self.mark(token), &marks.open[token.len()..]);
        if rest.is_empty() { mark } else { format!("{mark} \"{rest}\"") }
    }

    fn rules(&self, tools: &[&Tool]) -> Result<ToolGrammar, UnenforcedKeyword> {
        ToolGrammar::new(self.markup, tools, self.one_call)
    }

    /// A grammar of calls and nothing else.
    fn forced(&self, tools: &[&Tool]) -> Result<String, UnenforcedKeyword> {
        let ToolGrammar { opening, rules } = self.rules(tools)?;
        let head = if self.markup.style.calls == CallStyle::Harmony && self.begin == Begin::Text {
            // a text that the prompt has begun ends here
            let [end, start] = ["<|end|>", "<|start|>"].map(|mark| self.mark(mark));
            format!("{end} {start} \"assistant\" ")
        } else {
            String::new()
        };
        Ok(self.around(&format!("body: {head}{opening} calls\n{rules}")))
    }

    /// A grammar of JSON, or of calls of the offered tools.
    fn json_or_calls(&self, schema: &Value, tools: &[&Tool]) -> Result<String, UnenforcedKeyword> {
        let head = if self.markup.style.calls == CallStyle::Harmony && self.begin != Begin::Text {
            let [channel, message] = ["<|channel|>", "<|message|>"].map(|mark| self.mark(mark));
            format!("{channel} \"final\" {message} ")
        } else {
            String::new()
        };
        let mut body = format!("body: {head}answer");
        let mut rules = json_rule("answer", schema);
        if !tools.is_empty() && self.begin != Begin::Text {
            let calls = self.rules(tools)?;
            _ = write!(body, " | {} calls", calls.opening);
            rules.push_str(&calls.rules);
        }
        Ok(self.around(&format!("{body}\n{rules}")))
    }

    /// A grammar of any text, with calls that keep to their schemas. `None` if the prompt has begun a channel of text,
    /// which has no calls.
    fn text_and_calls(&self, tools: &[&Tool]) -> Result<Option<String>, UnenforcedKeyword> {
        let ToolGrammar { opening, rules } = self.rules(tools)?;
        let body = match self.markup.style.calls {
            CallStyle::Harmony if self.begin == Begin::Text => return Ok(None),
            CallStyle::Harmony => {
                let [channel, message, end, start] =
                    ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"].map(|mark| self.mark(mark));
                format!(
                    "body: preamble? ({channel} \"final\" {message} TEXT? | {opening} calls)\n\
                     preamble: {channel} \"commentary\" {message} TEXT? {end} {start} \"assistant\"\n\
                     TEXT: /(.|\\n)+/\n"
                )
            }
            CallStyle::Bare => "body: calls | TEXT?\nTEXT: /[^{](.|\\n)*/\n".to_owned(),
            _ => {
                let repeat = if self.one_call { "?" } else { "*" };
                let (prose, rule) = match opening.strip_prefix('"') {
                    Some(_) => ("prose", format!("prose{}", lazy_until(&opening))),
                    None => ("TEXT?", String::new()),
                };
                let opening = if rule.is_empty() { opening.as_str() } else { "" };
                format!("body: ({prose} {opening} calls){repeat} TEXT?\n{rule}TEXT: /(.|\\n)+/\n")
            }
        };
        Ok(Some(self.around(&format!("{body}{rules}"))))
    }

    /// A grammar of `body`, after reasoning if the model may reason.
    fn around(&self, body: &str) -> String {
        if self.markup.style.calls == CallStyle::Harmony {
            return self.around_harmony(body);
        }
        match (self.markup.style.thinking, self.begin) {
            (None, _) | (_, Begin::Text) => format!("start: body\n{body}"),
            (Some(marks), begin) => {
                let start = match begin {
                    Begin::Reasoning => "thoughts blank body".to_owned(),
                    _ => format!("({} thoughts blank)? body", self.opening(marks)),
                };
                let close = self.mark(marks.close);
                let thoughts = if close.starts_with('"') {
                    lazy_until(&close)
                } else {
                    format!(": THOUGHTS? {close}\nTHOUGHTS: /(.|\\n)+/\n")
                };
                format!("start: {start}\nthoughts{thoughts}blank: /[ \\n]*/\n{body}")
            }
        }
    }

    /// A grammar of an answer of gpt-oss: an optional analysis, then the channel of the body.
    fn around_harmony(&self, body: &str) -> String {
        let [channel, message, end, start] =
            ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"].map(|mark| self.mark(mark));
        let thoughts = if end.starts_with('"') {
            // a mark without a token of its own is the end of the text
            format!("thoughts{}", lazy_until(&end))
        } else {
            format!("thoughts: THOUGHTS {end}\nTHOUGHTS: /(.|\\n)*/\n")
        };
        let before = match self.begin {
            Begin::Turn => "analysis?",
            Begin::Reasoning => "rest",
            Begin::Text => return format!("start: body\n{body}"),
        };
        format!(
            "start: {before} body\nanalysis: {channel} \"analysis\" {message} rest\n\
             rest: thoughts {start} \"assistant\"\n{thoughts}{body}"
        )
    }
}
