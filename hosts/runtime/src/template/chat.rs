//! A model's chat template: compiled once from its source, rendered for each conversation.
//!
//! Not here: filters and functions (`filters`), the form of messages (`form`), and refused conversations (`merge`).

use super::calendar::Moment;
use super::error::TemplateError;
use super::filters::{self, Raised};
use super::form::MessageForm;
use super::generic_tools::{self, Position};
use super::guard::Guard;
use super::input::{ChatInput, Prompt};
use super::merge;
use super::present::{self, Marked, TextEnd};
use super::source::without_generation_tags;
use core::error::Error as _;
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

/// A compiled chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    special: SpecialTokens,
    /// The form of messages that it prints.
    form: MessageForm,
    /// True if it prints tools.
    tools: bool,
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
        let (form, tools) = (MessageForm::default(), true);
        let mut template = Self { environment, source: source.to_owned(), special, form, tools };
        template.form = MessageForm::find(|form, messages| template.probe(form, messages, None));
        let question = [json!({ "role": "user", "content": "q" })];
        let print = |form: MessageForm, tools: &[Json]| template.probe(form, &question, Some(tools));
        let form = template.form.with_tools(print);
        let tools = form.prints_tools(print);
        (template.form, template.tools) = (form, tools);
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

    /// True if the template prints tools. For others, tools are described in the system text, or in the first turn of the
    /// user if that is refused, and calls and results are texts, in the convention of Hermes.
    #[must_use]
    pub fn prints_tools(&self) -> bool {
        self.tools
    }

    /// The text of a conversation in the given form, with the smaller budget of work.
    fn probe(&self, form: MessageForm, messages: &[Json], tools: Option<&[Json]>) -> Option<String> {
        let (variables, now) = (Map::new(), Moment { seconds: 0 });
        let input = ChatInput { tools, ..ChatInput::new(messages, &variables, now) };
        on_deep_stack(&BUDGETS[1..], |fuel| self.render_with(&input, form.into(), fuel)).ok()?.ok()
    }

    /// Renders the prompt and finds the contents in it; see [`Prompt`].
    ///
    /// Every text of the messages is in the prompt. A conversation that the template refuses or loses texts of is retold:
    /// system messages in the middle are marked and put into turns of the user, or joined to the first; messages with
    /// several calls are split; text after the result of a tool is appended to it; neighboring answers are joined. Tools are
    /// described if the template prints none; see [`Self::prints_tools`].
    ///
    /// # Errors
    ///
    /// As [`Self::render`]; a role is unknown; a text of the user, the system or a tool is in no prompt.
    pub fn prompt(&self, input: &ChatInput<'_>) -> Result<Prompt, TemplateError> {
        self.check_roles(input.messages)?;
        let (messages, tools) = (input.messages, input.tools.unwrap_or_default());
        if self.tools || tools.is_empty() {
            return self.retold_with_calls(input);
        }
        // the refusal of the system text is the one that its author understands
        let described = |position| {
            let messages = generic_tools::described(messages, tools, position, self.form.prints_calls());
            self.retold_with_calls(&ChatInput { messages: &messages, tools: None, ..input.clone() })
        };
        described(Position::System).or_else(|refusal| described(Position::User).map_err(|_| refusal))
    }

    /// The prompt of a conversation or a retelling. Calls and results that the template can't hold are texts.
    fn retold_with_calls(&self, input: &ChatInput<'_>) -> Result<Prompt, TemplateError> {
        match self.retold(input) {
            Err(refusal) if generic_tools::has_calls(input.messages) => {
                let messages = generic_tools::as_texts(input.messages);
                self.retold(&ChatInput { messages: &messages, ..input.clone() }).map_err(|_| refusal)
            }
            result => result,
        }
    }

    /// The prompt of a conversation, or of the first retelling that the template accepts.
    fn retold(&self, input: &ChatInput<'_>) -> Result<Prompt, TemplateError> {
        let refusal = match self.fullest_prompt(input) {
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
            rewritten.iter().map(|messages| self.fullest_prompt(&ChatInput { messages, ..input.clone() }));
        // the refusal of the original conversation is the one that its author understands
        prompts.find_map(Result::ok).ok_or(refusal)
    }

    /// The prompt of a conversation. Texts of the assistant beside calls, which templates leave out, get messages of their
    /// own if the template accepts that, and are put before the first result, marked, if it does not.
    fn fullest_prompt(&self, input: &ChatInput<'_>) -> Result<Prompt, TemplateError> {
        let (prompt, whole) = self.whole_prompt(input)?;
        if whole {
            return Ok(prompt);
        }
        let others = [merge::answers_before_calls(input.messages), merge::answers_in_results(input.messages)];
        let mut others = others.iter().filter_map(|messages| {
            let (prompt, whole) = self.whole_prompt(&ChatInput { messages, ..input.clone() }).ok()?;
            whole.then_some(prompt)
        });
        Ok(others.next().unwrap_or(prompt))
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

    /// The prompt, if every text is in it but those of the assistant; true if these are, too.
    fn whole_prompt(&self, input: &ChatInput<'_>) -> Result<(Prompt, bool), TemplateError> {
        let prompt = self.prompt_of(input)?;
        let required = |&index: &usize| input.messages[index]["role"] != "assistant";
        // a template may inspect one end of a text, and refuse it with a word there
        for end in [TextEnd::Last, TextEnd::First] {
            let marked = Marked::new(input.messages, end);
            match self.render(&ChatInput { messages: &marked.messages, ..input.clone() }) {
                Ok(rendering) => {
                    return match marked.lost(&rendering, required) {
                        Some(index) => Err(lost(input, index)),
                        None => Ok((prompt, marked.lost(&rendering, |_| true).is_none())),
                    };
                }
                Err(error @ (TemplateError::NoThread | TemplateError::TooMuchWork)) => return Err(error),
                Err(_) => {}
            }
        }
        match present::missing(input.messages, &prompt.text, required) {
            Some(index) => Err(lost(input, index)),
            None => Ok((prompt, true)),
        }
    }

    fn prompt_of(&self, input: &ChatInput<'_>) -> Result<Prompt, TemplateError> {
        if !Guard::is_needed(input) {
            return Ok(Prompt { text: self.render(input)?, content: Vec::new() });
        }
        let guard = Guard::new(input, &self.source).ok_or(TemplateError::Markup)?;
        let passing = Passing { form: self.form, guard: Some(&guard) };
        let rendering = on_deep_stack(&BUDGETS, |fuel| self.render_with(input, passing, fuel))?;
        match rendering {
            Ok(rendering) => guard.prompt(&rendering).ok_or(TemplateError::Markup),
            Err(TemplateError::Raised { message }) => {
                Err(TemplateError::Raised { message: guard.without(&message) })
            }
            Err(error) => Err(error),
        }
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
        on_deep_stack(&BUDGETS, |fuel| self.render_with(input, self.form.into(), fuel))?
    }

    fn render_with(
        &self,
        input: &ChatInput<'_>,
        passing: Passing<'_>,
        fuel: u64,
    ) -> Result<String, TemplateError> {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        filters::install_clock(&mut environment, input.now);
        let template = environment.get_template(NAME).map_err(syntax_error)?;
        template.render(self.context(input, passing)).map_err(failure)
    }

    fn context(&self, input: &ChatInput<'_>, passing: Passing<'_>) -> Value {
        let list = |items: Option<Vec<Json>>| items.map_or(Json::Null, Json::Array);
        let messages = input.messages.iter().map(|message| passing.message(message)).collect();
        let tools = input.tools.map(|tools| tools.iter().map(|tool| passing.tool(tool)).collect());
        let documents =
            input.documents.map(|items| items.iter().map(|item| passing.value(item.clone())).collect());
        let mut variables = Map::new();
        variables.insert("messages".into(), Json::Array(messages));
        // the name that Firefunction uses, as text
        let functions = tools
            .as_ref()
            .map_or_else(String::new, |tools: &Vec<Json>| Json::from(tools.as_slice()).to_string());
        variables.insert("functions".into(), functions.into());
        // the name that SmolLM3 uses
        variables.insert("xml_tools".into(), tools.clone().map_or(Json::Null, Json::Array));
        variables.insert("tools".into(), list(tools));
        variables.insert("documents".into(), list(documents));
        variables.insert("add_generation_prompt".into(), input.add_generation_prompt.into());
        variables.insert("bos_token".into(), self.special.bos.clone().into());
        variables.insert("eos_token".into(), self.special.eos.clone().into());
        variables.extend(DATES.map(|(name, format)| (name.to_owned(), input.now.strftime(format).into())));
        let own = input.variables.iter().map(|(name, value)| (name.clone(), passing.value(value.clone())));
        variables.extend(own);
        value_of(&Json::Object(variables))
    }
}

/// The way in which a conversation is passed to the template.
#[derive(Clone, Copy)]
struct Passing<'g> {
    form: MessageForm,
    guard: Option<&'g Guard>,
}

impl From<MessageForm> for Passing<'_> {
    fn from(form: MessageForm) -> Self {
        Self { form, guard: None }
    }
}

impl Passing<'_> {
    fn message(self, message: &Json) -> Json {
        let mut message = self.form.message(message);
        if let Some(guard) = self.guard {
            guard.message(&mut message);
        }
        message
    }

    fn tool(self, tool: &Json) -> Json {
        self.value(self.form.tool(tool))
    }

    fn value(self, mut value: Json) -> Json {
        if let Some(guard) = self.guard {
            guard.value(&mut value);
        }
        value
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

/// The error for a text of the message at `index` that is in no prompt.
fn lost(input: &ChatInput<'_>, index: usize) -> TemplateError {
    let role = input.messages[index]["role"].as_str().unwrap_or_default().to_owned();
    TemplateError::Lost { index, role }
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
