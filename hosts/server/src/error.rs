//! Failures of requests, and their documents in each API.

use alloc::borrow::Cow;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use doorbell_core::engine::{AllocateError, FinishReason, SubmitError};
use doorbell_runtime::constrain::GrammarError;
use doorbell_runtime::prefix::PrefixError;
use doorbell_runtime::serve::{Finish, ServiceError};
use doorbell_runtime::template::TemplateError;
use serde_json::{Map, Value, json};

/// The API whose documents an answer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
    Ollama,
}

/// Kinds of failures. Each has a status, and type names that clients of the APIs check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Invalid,
    ContextExceeded,
    Authentication,
    Permission,
    NotFound,
    MethodNotAllowed,
    TooLarge,
    MediaType,
    Busy,
    Timeout,
    NotSupported,
    Unavailable,
    Internal,
}

impl FailureKind {
    /// Status, type of `OpenAI` and llama-server, type of Anthropic.
    const fn row(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Invalid => (StatusCode::BAD_REQUEST, "invalid_request_error", "invalid_request_error"),
            Self::ContextExceeded => {
                (StatusCode::BAD_REQUEST, "exceed_context_size_error", "invalid_request_error")
            }
            Self::Authentication => {
                (StatusCode::UNAUTHORIZED, "authentication_error", "authentication_error")
            }
            Self::Permission => (StatusCode::FORBIDDEN, "permission_error", "permission_error"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found_error", "not_found_error"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "invalid_request_error")
            }
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", "request_too_large"),
            Self::MediaType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error", "invalid_request_error")
            }
            Self::Busy => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "rate_limit_error"),
            Self::Timeout => (StatusCode::REQUEST_TIMEOUT, "invalid_request_error", "timeout_error"),
            Self::NotSupported => (StatusCode::NOT_IMPLEMENTED, "not_supported_error", "api_error"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", "overloaded_error"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "server_error", "api_error"),
        }
    }
}

/// Bytes of a message; what a request says is quoted in it only in part.
const MAX_MESSAGE: usize = 1024;

/// Bytes of a path or a message in the log.
pub(crate) const LOGGED: usize = 256;

/// The beginning of a text, with an ellipsis if it is cut to `most` bytes.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    const ELLIPSIS: &str = "...";
    let end = text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len()));
    Cow::Owned([&text[..end], ELLIPSIS].concat())
}

/// Text of a request within a message: its beginning, in quotation marks, without control characters.
pub(crate) fn quoted(text: &str) -> String {
    const QUOTED: usize = 40;
    format!("{:?}", cut(text, QUOTED))
}

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
    /// Field of the request that is wrong.
    param: Option<String>,
    /// `OpenAI`'s code, for some failures.
    code: Option<&'static str>,
    /// Further numbers that clients read.
    extra: Map<String, Value>,
}

/// Time after which a client should retry when the queue is full, s.
const RETRY_AFTER: &str = "1";

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl core::fmt::Display) -> Self {
        let message = message.to_string();
        let message =
            if message.len() > MAX_MESSAGE { cut(&message, MAX_MESSAGE).into_owned() } else { message };
        Self { kind, message, param: None, code: None, extra: Map::new() }
    }

    /// The value of a field can't be used.
    pub(crate) fn field(param: impl Into<String>, message: impl core::fmt::Display) -> Self {
        let param: String = param.into();
        let message = format!("{param}: {message}");
        Self { param: Some(param), ..Self::new(FailureKind::Invalid, message) }
    }

    /// The server ends before the request is answered.
    pub(crate) fn shutting_down() -> Self {
        Self::new(FailureKind::Unavailable, "the server is shutting down")
    }

    /// Its description in the log. A refusal may quote the request, whose texts are not logged: of these only the type and
    /// the field are told.
    pub(crate) fn for_log(&self) -> String {
        let (_, kind, _) = self.kind.row();
        match (self.kind, &self.param) {
            (FailureKind::Invalid, Some(param)) => format!("{kind}: {}", cut(param, LOGGED / 2)),
            (FailureKind::Invalid | FailureKind::NotFound, None) => kind.to_owned(),
            _ => cut(&self.message, LOGGED).into_owned(),
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.kind.row().0
    }

    /// The document in the form of an API.
    pub(crate) fn document(&self, dialect: Dialect) -> Value {
        let (status, kind, anthropic) = self.kind.row();
        match dialect {
            Dialect::OpenAi => {
                let code = self.code.map_or_else(|| status.as_u16().into(), Value::from);
                let mut error =
                    json!({ "message": self.message, "type": kind, "param": self.param, "code": code });
                if let Some(error) = error.as_object_mut() {
                    error.extend(self.extra.clone());
                }
                json!({ "error": error })
            }
            Dialect::Anthropic => {
                json!({ "type": "error", "error": { "type": anthropic, "message": self.for_anthropic() } })
            }
            Dialect::Ollama => json!({ "error": self.message }),
        }
    }

    /// The message in Anthropic's wording: Claude Code shortens a conversation when it reads these words.
    fn for_anthropic(&self) -> String {
        match (self.extra.get("n_prompt_tokens"), self.extra.get("n_ctx")) {
            (Some(tokens), Some(context)) => {
                format!("prompt is too long: {tokens} tokens > {context} maximum")
            }
            _ => self.message.clone(),
        }
    }

    pub(crate) fn response(&self, dialect: Dialect) -> Response {
        let mut response = crate::stream::json(self.status(), &self.document(dialect));
        if self.kind == FailureKind::Busy {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        if self.kind == FailureKind::Authentication {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    /// The failure that ended a generation; `None` if it ended as it should.
    pub(crate) fn of_finish(finish: &Finish) -> Option<Self> {
        match finish.reason {
            FinishReason::Sampling(_) | FinishReason::OutOfMemory | FinishReason::GrammarFailed => {
                Some(Self::new(FailureKind::Internal, finish))
            }
            FinishReason::DeviceFailed => Some(Self::new(FailureKind::Unavailable, finish)),
            FinishReason::Cancelled => Some(Self::shutting_down()),
            _ => None,
        }
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::PromptTooLong { tokens, context } => {
                let message = format_args!("the request exceeds the available context size: {error}");
                let mut failure = Self::new(FailureKind::ContextExceeded, message);
                failure.code = Some("context_length_exceeded");
                failure.extra.insert("n_prompt_tokens".into(), tokens.into());
                failure.extra.insert("n_ctx".into(), context.into());
                failure
            }
            SubmitError::PoolingDisabled => Self::new(FailureKind::NotSupported, error),
            SubmitError::Busy => Self::new(FailureKind::Busy, error),
            SubmitError::Memory(_) => Self::new(FailureKind::Unavailable, error),
            _ => Self::new(FailureKind::Invalid, error),
        }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::new(FailureKind::Unavailable, error)
    }
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        match &error {
            // refusals of the template itself
            TemplateError::Raised { .. }
            | TemplateError::Failed { .. }
            | TemplateError::Role { .. }
            | TemplateError::Lost { .. }
            | TemplateError::Markup
            | TemplateError::TooMuchWork => Self::field("messages", error),
            _ => Self::new(FailureKind::Internal, error),
        }
    }
}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        match &error {
            GrammarError::Vocabulary { .. } => Self::new(FailureKind::NotSupported, error),
            _ => Self::new(FailureKind::Invalid, error),
        }
    }
}

impl From<PrefixError> for Failure {
    fn from(error: PrefixError) -> Self {
        let kind = match &error {
            PrefixError::Page(_) => FailureKind::NotSupported,
            PrefixError::Busy | PrefixError::Take(AllocateError::TooFew { .. }) => FailureKind::Busy,
            PrefixError::Take(_) | PrefixError::Memory(_) | PrefixError::Service(_) => {
                FailureKind::Unavailable
            }
            PrefixError::System(_) => FailureKind::Internal,
            _ => FailureKind::Invalid,
        };
        Self::new(kind, error)
    }
}
