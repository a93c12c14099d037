//! A model's chat template: compiled once from its source, rendered for each conversation.
//!
//! Not here: filters and functions (`filters`), the form of messages (`form`), and refused conversations (`merge`).

use super::calendar::Moment;
use super::content;
use super::error::TemplateError;
use super::filters::{self, Raised};
use super::form::MessageForm;
use super::merge;
use super::present::Marked;
use super::source::without_generation_tags;
use core::error::Error as _;
use core::ops::Range;
use doorbell_core::gguf::Gguf;
use doorbell_core::token::{TokenId, Tokenizer};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::{Map, Value as Json, json};
use std::thread::ScopedJoinHandle;

/// Limits of one rendering: fuel in minijinja's unit (an instruction, or 64 bytes of output), and bytes of stack. The first
/// pair whose stack the system can reserve is used. Conversations with thousands of turns stay within it.
///
/// A template can nest values as deeply as its fuel allows, and dropping them recurses with up to 500 bytes of stack per
/// level (measured). The stack reserves address space; memory is used only where it is touched.
const BUDGETS: [(u64, usize); 2] = [(8_000_000, 4 << 30), (400_000, 256 << 20)];

/// Variables with the date in templates, and their formats, as in llama.cpp. Without them the prompts of Llama 3.1 and 3.3
/// contain the date of their release.
const DATES: [(&str, &str); 2] = [("date_string", "%d %b %Y"), ("datetime", "%b %d %Y")];

/// Limit of a template in bytes; templates of models have up to a hundred thousand. Parsing an expression recurses at most
/// once per byte.
const LONGEST: usize = 256 << 10;

/// Roles of messages in the APIs.
const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// Characters of an unknown role that an error shows.
const ROLE_SHOWN: usize = 64;

/// The name under which the one template of an environment is stored.
const NAME: &str = "chat";

/// Texts of the special tokens that templates print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Text of the token that begins a sequence; empty if there is none.
    pub bos: String,
    /// Text of the token that ends a sequence; empty if there is none.
    pub eos: String,
}

impl SpecialTokens {
    /// The texts of a tokenizer's special tokens.
    #[must_use]
    pub fn of(tokenizer: &Tokenizer<'_>) -> Self {
        let text = |token: Option<TokenId>| {
            let text = token.and_then(|token| tokenizer.text(token)).unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        Self { bos: text(tokenizer.bos()), eos: text(tokenizer.eos()) }
    }
}

/// Input of a rendering: the conversation and its options.
#[derive(Clone, Debug)]
pub struct ChatInput<'c> {
    /// Messages as in the `OpenAI` API: objects with `role`, `content`, `tool_calls` and so on.
    pub messages: &'c [Json],
    /// Tool descriptions as in the `OpenAI` API, if any.
    pub tools: Option<&'c [Json]>,
    /// Documents for retrieval templates, if any.
    pub documents: Option<&'c [Json]>,
    /// True to end the text with the beginning of the assistant's turn.
    pub add_generation_prompt: bool,
    /// True to rewrite a conversation that the template refuses: neighboring messages of one role are merged, and the
    /// system message is put into the first turn of the user.
    pub merge: bool,
    /// Further variables, such as `enable_thinking`; they override all others.
    pub variables: &'c Map<String, Json>,
    /// The time for `strftime_now`, `date_string` and `datetime`.
    pub now: Moment,
}

impl<'c> ChatInput<'c> {
    /// A conversation without tools that ends with the beginning of the assistant's turn.
    #[must_use]
    pub fn new(messages: &'c [Json], variables: &'c Map<String, Json>, now: Moment) -> Self {
        Self {
            messages,
            tools: None,
            documents: None,
            add_generation_prompt: true,
            merge: false,
            variables,
            now,
        }
    }
}

/// A rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Byte ranges with contents of messages, ascending; empty if no content may hold markup, or if the template changes
    /// contents. Markup in these ranges must not become control tokens.
    pub content: Vec<Range<usize>>,
}

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    special: SpecialTokens,
    /// The form of messages that it prints.
    form: MessageForm,
}

impl ChatTemplate {
    /// Compiles the template of a model file.
    ///
    /// # Errors
    ///
    /// The source isn't valid Jinja, or too long.
    pub fn new(source: &str, special: SpecialTokens) -> Result<Self, TemplateError> {
        if source.len() > LONGEST {
            let reason = format!("it has more than {LONGEST} bytes");
            return Err(TemplateError::Syntax { line: 0, reason });
        }
        let environment = on_deep_stack(&BUDGETS, |_| compile(source))??;
        let mut template =
            Self { environment, source: source.to_owned(), special, form: MessageForm::default() };
        template.form = MessageForm::find(|form, messages| template.probe(form, messages));
        template.form = template.form.with_tools(|form, tools| {
            let (variables, now) = (Map::new(), Moment { seconds: 0 });
            let messages = [json!({ "role": "user", "content": "q" })];
            let input = ChatInput { tools: Some(tools), ..ChatInput::new(&messages, &variables, now) };
            on_deep_stack(&BUDGETS[1..], |fuel| template.render_with(&input, form, fuel)).ok()?.ok()
        });
        Ok(template)
    }

    /// Compiles the chat template in a model file; `None` if the file has none.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn of_model(gguf: &Gguf<'_>, tokenizer: &Tokenizer<'_>) -> Result<Option<Self>, TemplateError> {
        let source = gguf.get("tokenizer.chat_template").and_then(|value| value.text());
        source.map(|source| Self::new(source, SpecialTokens::of(tokenizer))).transpose()
    }

    /// The source, as it was compiled.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation in the given form, with the smaller budget of work.
    fn probe(&self, form: MessageForm, messages: &[Json]) -> Option<String> {
        let (variables, now) = (Map::new(), Moment { seconds: 0 });
        let input = ChatInput::new(messages, &variables, now);
        on_deep_stack(&BUDGETS[1..], |fuel| self.render_with(&input, form, fuel)).ok()?.ok()
    }

    /// Renders the prompt and finds the contents in it; see [`Prompt`].
    ///
    /// Every text of the messages is in the prompt. A conversation that the template refuses or loses texts of is retold:
    /// system messages in the middle are marked and put into turns of the user, or joined to the first; messages with
    /// several calls are split; text after the result of a tool is appended to it; neighboring answers are joined.
    ///
    /// # Errors
    ///
    /// As [`Self::render`]; a role is unknown; a text of the user, the system or a tool is in no prompt.
    pub fn prompt(&self, input: &ChatInput<'_>) -> Result<Prompt, TemplateError> {
        self.check_roles(input.messages)?;
        let refusal = match self.whole_prompt(input) {
            Ok(prompt) => return Ok(prompt),
            Err(refusal @ (TemplateError::NoThread | TemplateError::TooMuchWork)) => return Err(refusal),
            Err(refusal) => refusal,
        };
        let mut rewritten = merge::retellings(input.messages);
        if input.merge {
            let fullest = rewritten.last().map_or(input.messages, Vec::as_slice);
            let further = [merge::rewrites(input.messages), merge::rewrites(fullest)].concat();
            rewritten.extend(further);
        }
        let mut prompts =
            rewritten.iter().map(|messages| self.whole_prompt(&ChatInput { messages, ..input.clone() }));
        // the refusal of the original conversation is the one that its author understands
        prompts.find_map(Result::ok).ok_or(refusal)
    }

    /// Refuses roles that neither the API nor the template knows: templates skip such messages.
    fn check_roles(&self, messages: &[Json]) -> Result<(), TemplateError> {
        let known = |role: &str| {
            ROLES.contains(&role)
                || ["'", "\""].iter().any(|quote| self.source.contains(&format!("{quote}{role}{quote}")))
        };
        for message in messages {
            let role = message["role"].as_str().unwrap_or_default();
            if !known(role) {
                return Err(TemplateError::Role { role: role.chars().take(ROLE_SHOWN).collect() });
            }
        }
        Ok(())
    }

    /// The prompt, if every text is in it. The assistant's own texts may be left out: templates drop those beside calls.
    fn whole_prompt(&self, input: &ChatInput<'_>) -> Result<Prompt, TemplateError> {
        let prompt = self.prompt_of(input)?;
        let marked = Marked::new(input.messages);
        let rendering = self.render(&ChatInput { messages: &marked.messages, ..input.clone() });
        match rendering.ok().and_then(|rendering| marked.lost(&rendering)) {
            Some(index) if input.messages[index]["role"] != "assistant" => {
                let role = input.messages[index]["role"].as_str().unwrap_or_default().to_owned();
                Err(TemplateError::Lost { index, role })
            }
            _ => Ok(prompt),
        }
    }

    fn prompt_of(&self, input: &ChatInput<'_>) -> Result<Prompt, TemplateError> {
        let text = self.render(input)?;
        let content = if content::may_hold_markup(input.messages) {
            let messages = content::substituted(input.messages);
            // a template that fails on other characters inspects the contents
            let other = self.render(&ChatInput { messages: &messages, ..input.clone() });
            other.ok().and_then(|other| content::ranges(&text, &other))
        } else {
            None
        };
        Ok(Prompt { text, content: content.unwrap_or_default() })
    }

    /// Renders a conversation without rewriting it. The work is bounded for every template.
    ///
    /// Messages are passed to the template in the form that it prints: arguments of calls as objects, or as texts if it
    /// prints only those; contents as texts, or as lists of parts.
    ///
    /// # Errors
    ///
    /// The template refuses the conversation, fails, or exceeds its budget of work.
    pub fn render(&self, input: &ChatInput<'_>) -> Result<String, TemplateError> {
        on_deep_stack(&BUDGETS, |fuel| self.render_with(input, self.form, fuel))?
    }

    fn render_with(
        &self,
        input: &ChatInput<'_>,
        form: MessageForm,
        fuel: u64,
    ) -> Result<String, TemplateError> {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        filters::install_clock(&mut environment, input.now);
        let template = environment.get_template(NAME).map_err(syntax_error)?;
        template.render(self.context(input, form)).map_err(failure)
    }

    fn context(&self, input: &ChatInput<'_>, form: MessageForm) -> Value {
        let list = |items: Option<&[Json]>| items.map_or(Json::Null, |items| Json::Array(items.to_vec()));
        let messages = input.messages.iter().map(|message| form.message(message)).collect();
        let tools: Option<Vec<Json>> =
            input.tools.map(|tools| tools.iter().map(|tool| form.tool(tool)).collect());
        let tools = tools.as_deref();
        let mut variables = Map::new();
        variables.insert("messages".into(), Json::Array(messages));
        variables.insert("tools".into(), list(tools));
        // the name that Firefunction uses, as text
        let functions = tools.map_or_else(String::new, |tools| Json::from(tools).to_string());
        variables.insert("functions".into(), functions.into());
        variables.insert("documents".into(), list(input.documents));
        variables.insert("add_generation_prompt".into(), input.add_generation_prompt.into());
        variables.insert("bos_token".into(), self.special.bos.clone().into());
        variables.insert("eos_token".into(), self.special.eos.clone().into());
        variables.extend(DATES.map(|(name, format)| (name.to_owned(), input.now.strftime(format).into())));
        variables.extend(input.variables.iter().map(|(name, value)| (name.clone(), value.clone())));
        value_of(&Json::Object(variables))
    }
}

/// Runs `work`, which may recurse deeply, on a thread of its own, with the first budget whose stack the system can
/// reserve.
fn on_deep_stack<T: Send>(
    budgets: &[(u64, usize)],
    work: impl Fn(u64) -> T + Sync,
) -> Result<T, TemplateError> {
    for &(fuel, stack) in budgets {
        let done = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("template".into()).stack_size(stack);
            thread.spawn_scoped(scope, || work(fuel)).map(ScopedJoinHandle::join)
        });
        match done {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // not that much address space: try with less
            Err(_) => {}
        }
    }
    Err(TemplateError::NoThread)
}

/// An environment with one template.
fn compile(source: &str) -> Result<Environment<'static>, TemplateError> {
    let mut environment = Environment::new();
    // these builders fail only for delimiters that contradict each other
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(syntax_error)?);
    filters::install(&mut environment);
    let source = without_generation_tags(source);
    environment.add_template_owned(NAME, source).map_err(syntax_error)?;
    Ok(environment)
}

/// JSON as template values, keys in order. Recursion is bounded by the JSON parser's own limit of 128.
fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(truth) => Value::from(*truth),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(signed), _) => Value::from(signed),
            (None, Some(unsigned)) => Value::from(unsigned),
            (None, None) => Value::from(number.as_f64()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(value_of).collect(),
        Json::Object(fields) => {
            Value::from_pairs(fields.iter().map(|(name, field)| (name.as_str(), value_of(field))))
        }
    }
}

fn reason(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

fn syntax_error(error: Error) -> TemplateError {
    TemplateError::Syntax { line: error.line().unwrap_or(0), reason: reason(&error) }
}

fn failure(error: Error) -> TemplateError {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Raised(message)) = cause.downcast_ref() {
            return TemplateError::Raised { message: message.clone() };
        }
        source = cause.source();
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return TemplateError::TooMuchWork;
    }
    TemplateError::Failed { line: error.line().unwrap_or(0), reason: reason(&error) }
}
