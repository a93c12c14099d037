//! What goes wrong with a request, and how each protocol says it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use doorbell_core::engine::{AllocateError, FinishReason, SubmitError};
use doorbell_runtime::constrain::GrammarError;
use doorbell_runtime::prefix::PrefixError;
use doorbell_runtime::serve::{Finish, ServiceError};
use doorbell_runtime::template::TemplateError;
use serde_json::{Map, Value, json};

/// Whose words an answer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
    Ollama,
}

/// Kinds of failures: status, and the type that llama-server and `OpenAI`'s clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    ContextExceeded,
    Authentication,
    Permission,
    NotFound,
    MethodNotAllowed,
    TooLarge,
    MediaType,
    Busy,
    Late,
    NotSupported,
    Unavailable,
    Internal,
}

impl Kind {
    /// Status, type, and Anthropic's type.
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
            Self::Late => (StatusCode::REQUEST_TIMEOUT, "invalid_request_error", "timeout_error"),
            Self::NotSupported => (StatusCode::NOT_IMPLEMENTED, "not_supported_error", "api_error"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", "overloaded_error"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "server_error", "api_error"),
        }
    }
}

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    /// The request's field at fault.
    param: Option<String>,
    /// `OpenAI`'s word for some failures.
    code: Option<&'static str>,
    /// Further numbers that clients look for.
    extra: Map<String, Value>,
}

/// How long a client should wait when the queue is full, s.
const RETRY_AFTER: &str = "1";

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl core::fmt::Display) -> Self {
        Self { kind, message: message.to_string(), param: None, code: None, extra: Map::new() }
    }

    /// A field with a value that can't be used.
    pub(crate) fn field(param: impl Into<String>, message: impl core::fmt::Display) -> Self {
        let param = param.into();
        let message = format!("{param}: {message}");
        Self { param: Some(param), ..Self::new(Kind::Invalid, message) }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.kind.row().0
    }

    /// The document in the words of a protocol.
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

    /// The message as Anthropic's clients know it: Claude Code shortens a conversation upon these words.
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
        if self.kind == Kind::Busy {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        if self.kind == Kind::Authentication {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    /// The failure in how a generation ended, if it is one.
    pub(crate) fn of_finish(finish: &Finish) -> Option<Self> {
        match finish.reason {
            FinishReason::Sampling(_) | FinishReason::OutOfMemory | FinishReason::GrammarFailed => {
                Some(Self::new(Kind::Internal, finish))
            }
            FinishReason::DeviceFailed => Some(Self::new(Kind::Unavailable, finish)),
            FinishReason::Cancelled => Some(Self::new(Kind::Unavailable, "the server is shutting down")),
            _ => None,
        }
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::PromptTooLong { tokens, context } => {
                let message = format_args!("the request exceeds the available context size: {error}");
                let mut failure = Self::new(Kind::ContextExceeded, message);
                failure.code = Some("context_length_exceeded");
                failure.extra.insert("n_prompt_tokens".into(), tokens.into());
                failure.extra.insert("n_ctx".into(), context.into());
                failure
            }
            SubmitError::PoolingDisabled => Self::new(Kind::NotSupported, error),
            SubmitError::Busy => Self::new(Kind::Busy, error),
            SubmitError::Memory(_) => Self::new(Kind::Unavailable, error),
            _ => Self::new(Kind::Invalid, error),
        }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::new(Kind::Unavailable, error)
    }
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        match &error {
            // the template's own words
            TemplateError::Raised { .. } | TemplateError::Failed { .. } | TemplateError::TooMuchWork => {
                Self::field("messages", error)
            }
            _ => Self::new(Kind::Internal, error),
        }
    }
}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        match &error {
            GrammarError::Vocabulary { .. } => Self::new(Kind::NotSupported, error),
            _ => Self::new(Kind::Invalid, error),
        }
    }
}

impl From<PrefixError> for Failure {
    fn from(error: PrefixError) -> Self {
        let kind = match &error {
            PrefixError::Page(_) => Kind::NotSupported,
            PrefixError::Busy | PrefixError::Take(AllocateError::TooFew { .. }) => Kind::Busy,
            PrefixError::Take(_) | PrefixError::Memory(_) | PrefixError::Service(_) => Kind::Unavailable,
            PrefixError::System(_) => Kind::Internal,
            _ => Kind::Invalid,
        };
        Self::new(kind, error)
    }
}
