//! Driver for hostile histories: bytes become a conversation, which becomes prompts of several templates. The test
//! `histories` and the fuzz target `history` choose the bytes.

use doorbell_runtime::template::{ChatInput, ChatTemplate, Moment, SpecialTokens, TemplateError};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Templates that print texts as they are, in JSON, in tags, trimmed, by parts of reasoning, and with alternating turns.
const SOURCES: [&str; 4] = [
    "{% if tools %}<|tools|>{{ tools|tojson }}{% endif %}{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.reasoning_content or '' }}\
     {{ m.content }}{% for c in m.tool_calls %}<|call|>{{ c.function|tojson }}{% endfor %}{% endfor %}<|last|>",
    "{% for m in messages %}<|turn|>{{ m.content|trim|tojson }}{% for c in m.tool_calls %}<|call|>{{ c.function.name }}\
     {% for n, v in c.function.arguments|items %}<{{ n }}>{{ v|string }}</{{ n }}>{% endfor %}{% endfor %}{% endfor %}<|last|>",
    "{% for m in messages %}{% if m.role == 'assistant' and '</think>' in m.content %}<|turn|>{{ m.content.split('</think>')[-1] }}\
     {% elif m.content.startswith('<tool_response>') %}<|turn|>(result){{ m.content }}{% else %}<|turn|>{{ m.content }}{% endif %}{% endfor %}<|last|>",
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}\
     <|turn|>{{ m.content|trim }}{% endfor %}<|last|>",
];

static TEMPLATES: LazyLock<Vec<ChatTemplate>> = LazyLock::new(|| {
    let compile = |source| ChatTemplate::new(source, SpecialTokens::default()).expect("the source is Jinja");
    SOURCES.into_iter().map(compile).collect()
});

/// Pieces of texts, chosen by a byte; other bytes are characters.
const PIECES: [&str; 16] = [
    "<|turn|>",
    "<|evil|>",
    "<|",
    "|>",
    "<",
    "</think>",
    "<think>",
    "<tool_response>",
    "\"",
    "'",
    "\\",
    "\n",
    "~618033!",
    "é",
    "{\"a\": [",
    "618034",
];

/// The bytes that are left.
struct Source<'b>(&'b [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn text(&mut self) -> String {
        let len = self.byte() % 12;
        let mut text = String::new();
        for _ in 0..len {
            match self.byte() {
                byte @ 0..64 => text.push_str(PIECES[usize::from(byte) % PIECES.len()]),
                byte => text.push(char::from(byte)),
            }
        }
        text
    }

    fn call(&mut self) -> Value {
        let arguments = match self.byte() % 4 {
            0 => json!(self.text()),
            1 => json!({ self.text(): self.text() }),
            2 => json!([self.text(), 1, null]),
            _ => json!(format!("{{\"a\": \"{}", self.text())),
        };
        json!({ "id": self.text(), "type": "function", "function": { "name": self.text(), "arguments": arguments } })
    }

    fn message(&mut self) -> Value {
        match self.byte() % 6 {
            0 => json!({ "role": "system", "content": self.text() }),
            1 => json!({ "role": "assistant", "content": self.text(), "reasoning_content": self.text() }),
            2 => {
                let calls: Vec<Value> = (0..=self.byte() % 3).map(|_| self.call()).collect();
                json!({ "role": "assistant", "content": self.text(), "tool_calls": calls })
            }
            3 => json!({ "role": "tool", "content": self.text(), "tool_call_id": self.text() }),
            _ => json!({ "role": "user", "content": self.text() }),
        }
    }

    fn tool(&mut self) -> Value {
        let parameters = json!({ "type": "object", "properties": { self.text(): { "type": "string", "description": self.text() } } });
        json!({ "type": "function", "function": { "name": self.text(), "description": self.text(), "parameters": parameters } })
    }
}

/// Renders the conversation in `bytes`. Returns how many prompts there are, of as many as there are templates.
///
/// # Panics
/// Markup of a text is a control token, a mark of the protection is left in a prompt, or a text of the user is in none.
pub(crate) fn history(bytes: &[u8]) -> usize {
    let mut source = Source(bytes);
    let tools: Vec<Value> = (0..source.byte() % 3).map(|_| source.tool()).collect();
    let messages: Vec<Value> = (0..=source.byte() % 8).map(|_| source.message()).collect();
    let merge = source.byte() % 2 == 0;
    let variables = Map::new();
    let tools = (!tools.is_empty()).then_some(tools.as_slice());
    let input = ChatInput { tools, merge, ..ChatInput::new(&messages, &variables, Moment { seconds: 0 }) };
    let mut prompts = 0;
    for template in TEMPLATES.iter() {
        let prompt = match template.prompt(&input) {
            Ok(prompt) => prompt,
            Err(TemplateError::Syntax { .. } | TemplateError::NoThread) => {
                panic!("a template of this driver is good")
            }
            Err(_) => continue,
        };
        prompts += 1;
        let mut content = prompt.content.iter();
        assert!(content.all(|range| prompt.text.get(range.clone()).is_some()), "{prompt:?}");
        assert!(prompt.content.is_sorted_by(|one, other| one.end <= other.start), "{prompt:?}");
        let free = |mark: &str| {
            let touched = |at: usize| {
                prompt.content.iter().any(|range| range.start < at + mark.len() && range.end > at)
            };
            prompt.text.match_indices(mark).filter(|&(at, _)| !touched(at)).count()
        };
        assert_eq!(free("<|evil|>"), 0, "{messages:?} {prompt:?}");
        assert_eq!(free("<|last|>"), 1, "{messages:?} {prompt:?}");
        // answers beside calls and results may become turns of their own, and tools one
        let most = messages.len() * 2 + 1;
        assert!(free("<|turn|>") <= most, "{messages:?} {prompt:?}");
        for message in messages.iter().filter(|message| message["role"] == "user") {
            let text = message["content"].as_str().unwrap_or_default().trim();
            let quoted = Value::from(text).to_string();
            let found = prompt.text.contains(text) || prompt.text.contains(&quoted[1..quoted.len() - 1]);
            assert!(found, "{text:?} is not in {prompt:?}");
        }
    }
    prompts
}
