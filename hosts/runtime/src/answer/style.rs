//! The marks that a model uses for tool calls and reasoning, recognized from its chat template.

use super::tools::Tools;

/// Notation of tool calls in a family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallStyle {
    /// The template has no calls.
    None,
    /// `<tool_call>{"name": N, "arguments": {...}}</tool_call>`: Qwen 2.5 and 3, Hermes, `QwQ`, `SmolLM3`.
    Hermes,
    /// `<tool_call><function=N><parameter=P>V</parameter></function></tool_call>`: Qwen3-Coder, Qwen 3.5, Nemotron 3.
    Functions,
    /// `<tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value></tool_call>`: GLM 4.5 and later.
    ArgumentPairs,
    /// `{"name": N, "parameters": {...}}` as the whole message: Llama 3.
    Bare,
    /// `[TOOL_CALLS][{"name": N, "arguments": {...}}]` or `[TOOL_CALLS]N[ARGS]{...}`: Mistral.
    Bracketed,
    /// `<｜tool▁calls▁begin｜>...`: `DeepSeek` V3.1.
    DeepSeek,
    /// `<|tool_call>call:N{K:V}<tool_call|>`, with marks around texts and none around keys: Gemma 4.
    Braces,
    /// Channels and recipients: gpt-oss.
    Harmony,
}

/// The marks around reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thinking {
    /// The opening mark.
    pub open: &'static str,
    /// The closing mark.
    pub close: &'static str,
    /// True if the marks are those of a channel: an answer may have any number of them, a mark without a partner means
    /// nothing, and no empty lines are around them.
    pub channel: bool,
}

impl Thinking {
    /// The first token of the opening mark: the mark itself, or the part up to its angle bracket.
    #[must_use]
    pub fn opening_token(&self) -> &'static str {
        self.open.find(['>', ']']).map_or(self.open, |end| &self.open[..=end])
    }
}

/// The marks of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Marks of calls.
    pub calls: CallStyle,
    /// Marks of reasoning; the harmony format has its own.
    pub thinking: Option<Thinking>,
}

/// Texts in a template and the style that they indicate; the first match counts.
const SIGNS: [(&str, CallStyle); 10] = [
    ("<|channel|>", CallStyle::Harmony),
    ("<|tool_call>", CallStyle::Braces),
    ("[TOOL_CALLS]", CallStyle::Bracketed),
    ("<｜tool▁calls▁begin｜>", CallStyle::DeepSeek),
    ("<arg_key>", CallStyle::ArgumentPairs),
    ("<function=", CallStyle::Functions),
    ("<tool_call>", CallStyle::Hermes),
    ("<|python_tag|>", CallStyle::Bare),
    ("ipython", CallStyle::Bare),
    ("\"parameters\": dictionary", CallStyle::Bare),
];

const THINKING: [Thinking; 3] = [
    Thinking { open: "<think>", close: "</think>", channel: false },
    Thinking { open: "[THINK]", close: "[/THINK]", channel: false },
    Thinking { open: "<|channel>thought", close: "<channel|>", channel: true },
];

impl Style {
    /// The style of a model that only writes text.
    pub const PLAIN: Self = Self { calls: CallStyle::None, thinking: None };

    /// The style of a template.
    #[must_use]
    pub fn of_template(source: &str) -> Self {
        let calls = SIGNS.iter().find(|(sign, _)| source.contains(sign));
        let calls = calls.map_or(CallStyle::None, |&(_, style)| style);
        let thinking = THINKING.into_iter().find(|marks| source.contains(marks.close));
        Self { calls, thinking: thinking.filter(|_| calls != CallStyle::Harmony) }
    }

    /// The style in which a model calls these tools. A template without calls describes the tools in a message at best;
    /// most models then write the commonest form.
    #[must_use]
    pub fn with_tools(mut self, tools: &Tools) -> Self {
        if self.calls == CallStyle::None && !tools.is_empty() {
            self.calls = CallStyle::Hermes;
        }
        self
    }

    /// True if the marks are control tokens, which must then appear in the text of an answer.
    #[must_use]
    pub fn needs_control_tokens(&self) -> bool {
        let control = matches!(
            self.calls,
            CallStyle::Harmony | CallStyle::Bracketed | CallStyle::DeepSeek | CallStyle::Braces
        );
        control || self.thinking.is_some_and(|marks| marks.channel || marks.open.starts_with('['))
    }

    /// True if the model can write reasoning apart from its answer.
    #[must_use]
    pub fn can_think(&self) -> bool {
        self.thinking.is_some() || self.calls == CallStyle::Harmony
    }

    /// True if a rendered prompt ends within reasoning.
    #[must_use]
    pub fn begins_thinking(&self, prompt: &str) -> bool {
        let Some(marks) = self.thinking else { return false };
        prompt.trim_end().ends_with(marks.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_show_their_style() {
        let qwen3 = "{{ '<tool_call>\\n' }}{{ '</think>' }}";
        let style = Style::of_template(qwen3);
        assert_eq!(style.calls, CallStyle::Hermes);
        assert_eq!(style.thinking.unwrap().open, "<think>");
        assert!(style.begins_thinking("<|im_start|>assistant\n<think>\n"));
        assert!(!style.begins_thinking("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
        assert_eq!(Style::of_template("<tool_call>\n<function=").calls, CallStyle::Functions);
        assert!(Style::of_template("<|channel|>analysis</think>").thinking.is_none());
        let style = Style::of_template("{{ '<|tool_call>call:' }}{{ '<|channel>thought\\n<channel|>' }}");
        assert_eq!(style.calls, CallStyle::Braces);
        assert!(style.begins_thinking("<|turn>model\n<|channel>thought\n"));
        assert!(!style.begins_thinking("<|turn>model\n<|channel>thought\n<channel|>"));
        assert_eq!(style.thinking.unwrap().opening_token(), "<|channel>");
        assert_eq!(Style::of_template("{{ messages }}"), Style::PLAIN);
    }
}
