//! Conversations, from whatever API: rendered, tokenized, and turned into a request for the engine.
//!
//! Not here: reading the fields of a request (each API), templates and marks of model families (runtime).

use crate::app::{App, HEAP};
use crate::error::{Failure, FailureKind};
use crate::generation::{GenerationOptions, GenerationRequest};
use crate::request_context::RequestContext;
use alloc::sync::Arc;
use doorbell_core::heap;
use doorbell_core::token::{Scratch, TokenId};
use doorbell_runtime::answer::{
    AnswerParser, Begin, Continuation, ModelMarkup, OutputGrammar, OutputGrammarError, Style, Tool,
    ToolChoice, Tools, append_continued, normalize_tool_call_ids,
};
use doorbell_runtime::constrain::{GrammarSpec, ReasoningBudget, ReasoningMarks};
use doorbell_runtime::template::{ChatInput, Moment};
use serde_json::{Map, Value};

/// A conversation that the model answers.
pub(crate) struct Conversation {
    /// In `OpenAI`'s form.
    pub(crate) messages: Vec<Value>,
    /// In `OpenAI`'s form.
    pub(crate) tools: Vec<Value>,
    /// The calls that the answer may or must have.
    pub(crate) tool_choice: ToolChoice,
    /// True if the answer has at most one call.
    pub(crate) one_call: bool,
    /// Format of the text for the user.
    pub(crate) format: Option<GrammarSpec>,
    /// Variables of the template, such as `enable_thinking`.
    pub(crate) variables: Map<String, Value>,
    /// True if reasoning is reported apart from the text.
    pub(crate) split_reasoning: bool,
    /// End of the prompt.
    pub(crate) continuation: Continuation,
    pub(crate) options: GenerationOptions,
}

/// A rendered conversation.
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) tokens: Vec<TokenId>,
    /// Point at which the answer goes on.
    pub(crate) begin: Begin,
}

/// Renders and tokenizes a conversation. This takes milliseconds, too long for the threads that serve sockets.
fn render_now(app: &App, conversation: &Conversation) -> Result<Rendered, Failure> {
    let Some(template) = &app.model.template else {
        let message = "the model file has no chat template; use /v1/completions";
        return Err(Failure::new(FailureKind::NotSupported, message));
    };
    let offered = conversation.tool_choice != ToolChoice::None && !conversation.tools.is_empty();
    if offered && !app.model.takes_tools() {
        let message = "are not known to this model's chat template";
        return Err(Failure::field("tools", message));
    }
    let split = conversation.continuation.split(&conversation.messages);
    let split = split.map_err(|error| Failure::field("messages", error))?;
    let mut messages = split.rendered.to_vec();
    normalize_tool_call_ids(app.style, &mut messages);
    let input = ChatInput {
        tools: offered.then_some(conversation.tools.as_slice()),
        add_generation_prompt: conversation.continuation != Continuation::Closed,
        merge: app.model.merge_messages,
        ..ChatInput::new(&messages, &conversation.variables, Moment::now())
    };
    let mut prompt = template.prompt(&input)?;
    let reason = conversation.variables.get("enable_thinking") != Some(&Value::Bool(false));
    let begin = append_continued(&mut prompt, split.continued, app.style, reason);
    app.check_length(prompt.text.len())?;
    let mut tokens = heap::Vec::new_in(HEAP);
    app.model
        .tokenizer
        .encode_chat(prompt.text.as_bytes(), &prompt.content, &mut Scratch::new(HEAP), &mut tokens)
        .map_err(|error| Failure::new(FailureKind::Invalid, error))?;
    Ok(Rendered { text: prompt.text, tokens: tokens.to_vec(), begin })
}

/// Renders and tokenizes a conversation.
pub(crate) async fn render(
    request: &RequestContext,
    conversation: Conversation,
) -> Result<Rendered, Failure> {
    let app = Arc::clone(&request.app);
    request.work(move || render_now(&app, &conversation)).await
}

/// Turns a conversation into a request for the engine.
pub(crate) async fn generation_request(
    request: &RequestContext,
    conversation: Conversation,
) -> Result<GenerationRequest, Failure> {
    let app = Arc::clone(&request.app);
    request.work(move || generation_request_now(&app, conversation)).await
}

/// The tools with schemas that can be enforced. Where that is impossible, a strict tool is refused; one that must be called
/// without being strict loses what can't be enforced.
fn enforceable(app: &App, tools: &Tools, choice: &ToolChoice) -> Result<Tools, Failure> {
    let forced = matches!(choice, ToolChoice::Required | ToolChoice::Named(_));
    let (grammars, tokenizer) = (&app.grammars, app.model.tokenizer);
    let enforceable = |tool: &Tool| {
        let mut tool = tool.clone();
        if tool.strict {
            if let Some(fault) = grammars.schema_fault(tokenizer, &tool.schema) {
                let message = format!("tool {}: {fault}; change the schema, or remove \"strict\"", tool.name);
                return Err(Failure::field("tools", message));
            }
        } else if forced {
            tool.schema = grammars.loosened(tokenizer, &tool.schema);
        }
        Ok(tool)
    };
    tools.iter().map(enforceable).collect()
}

fn generation_request_now(app: &App, conversation: Conversation) -> Result<GenerationRequest, Failure> {
    let rendered = render_now(app, &conversation)?;
    let offered = conversation.tool_choice != ToolChoice::None;
    let tools = if offered { Tools::new(&conversation.tools) } else { Tools::default() };
    let mut style = app.style.with_tools(&tools);
    let mut begin = rendered.begin;
    let template = app.model.template_source();
    let enforced = enforceable(app, &tools, &conversation.tool_choice)?;
    let grammar = OutputGrammar {
        markup: ModelMarkup { tokenizer: app.model.tokenizer, template, style },
        begin,
        tools: &enforced,
        choice: &conversation.tool_choice,
        one_call: conversation.one_call,
        format: conversation.format.as_ref(),
    };
    let grammar = grammar.spec().map_err(|error| match error {
        OutputGrammarError::UnknownTool => Failure::field("tool_choice", error),
        OutputGrammarError::Keyword { .. } => Failure::field("tools", error),
    })?;
    let within = begin == Begin::Reasoning;
    let budget = reasoning_budget(app, style, within, conversation.options.reasoning_budget);
    let special = style.needs_control_tokens();
    if !conversation.split_reasoning && style.thinking.take().is_some() && within {
        begin = Begin::Text;
    }
    Ok(GenerationRequest {
        prompt: rendered.tokens,
        text: rendered.text,
        options: conversation.options,
        parser: Some(AnswerParser::new(style, tools, begin)),
        special,
        grammar,
        budget,
        one_call: conversation.one_call,
    })
}

/// The limit of reasoning, if the model marks reasoning by tokens. `within` is true if the prompt has begun it.
fn reasoning_budget(app: &App, style: Style, within: bool, tokens: Option<u32>) -> Option<ReasoningBudget> {
    Some(ReasoningBudget::new(tokens?, ReasoningMarks::of(style, app.model.tokenizer)?, within))
}
