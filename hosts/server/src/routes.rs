//! The table of all paths that the server answers.

use crate::error::{Dialect, Failure};
use crate::request_context::RequestContext;
use crate::{anthropic, ollama, openai, operations, slots, web_ui};
use axum::http::Method;
use axum::response::Response;
use core::future::Future;
use core::pin::Pin;

/// The future that a handler returns.
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<Response, Failure>> + Send>>;

/// Prefixes of a route's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathPrefix {
    /// None.
    Root,
    /// `/v1` and the prefixes of Lemonade's clients.
    Versions,
    /// None, and those of [`PathPrefix::Versions`].
    Both,
}

/// Clients that may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// All, because probes send no key.
    Open,
    /// Those that send one of the server's keys.
    Key,
}

/// A row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) method: HttpMethod,
    pub(crate) prefix: PathPrefix,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) dialect: Dialect,
    pub(crate) handler: fn(RequestContext) -> HandlerFuture,
}

/// HTTP methods of routes; axum's `Method` is not `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpMethod {
    Get,
    Post,
    Delete,
}

impl HttpMethod {
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Delete => Method::DELETE,
        }
    }
}

/// Prefixes that name a version.
pub(crate) const VERSIONS: [&str; 4] = ["/v1", "/api/v1", "/v0", "/api/v0"];

use Access::{Key, Open};
use Dialect::{Anthropic, Ollama, OpenAi};
use HttpMethod::{Delete, Get, Post};
use PathPrefix::{Both, Root, Versions};

type Handler = fn(RequestContext) -> HandlerFuture;

const fn route(
    method: HttpMethod,
    prefix: PathPrefix,
    path: &'static str,
    access: Access,
    dialect: Dialect,
    handler: Handler,
) -> Route {
    Route { method, prefix, path, access, dialect, handler }
}

/// All routes. A GET request changes nothing and computes nothing.
pub(crate) const ROUTES: [Route; 47] = [
    route(Get, Root, "/", Open, OpenAi, |request| Box::pin(web_ui::page(request))),
    route(Get, Both, "/health", Open, OpenAi, |request| Box::pin(operations::health(request))),
    route(Get, Root, "/live", Open, OpenAi, |request| Box::pin(operations::live(request))),
    route(Get, Root, "/metrics", Key, OpenAi, |request| Box::pin(operations::metrics(request))),
    route(Get, Both, "/props", Key, OpenAi, |request| Box::pin(operations::props(request))),
    route(Get, Both, "/slots", Key, OpenAi, |request| Box::pin(slots::list(request))),
    route(Post, Both, "/slots/{*id}", Key, OpenAi, |request| Box::pin(slots::act(request))),
    route(Get, Versions, "/stats", Key, OpenAi, |request| Box::pin(operations::stats(request))),
    route(Get, Versions, "/system-info", Key, OpenAi, |request| Box::pin(operations::system_info(request))),
    route(Post, Both, "/tokenize", Key, OpenAi, |request| Box::pin(operations::tokenize(request))),
    route(Post, Both, "/detokenize", Key, OpenAi, |request| Box::pin(operations::detokenize(request))),
    route(Post, Both, "/apply-template", Key, OpenAi, |request| {
        Box::pin(operations::apply_template(request))
    }),
    route(Get, Both, "/models", Open, OpenAi, |request| Box::pin(openai::models::list(request))),
    route(Get, Versions, "/models/{*name}", Open, OpenAi, |request| Box::pin(openai::models::one(request))),
    route(Post, Both, "/chat/completions", Key, OpenAi, |request| {
        Box::pin(openai::chat::completions(request))
    }),
    route(Post, Both, "/chat/completions/input_tokens", Key, OpenAi, |request| {
        Box::pin(openai::chat::count(request))
    }),
    route(Post, Both, "/responses/input_tokens", Key, OpenAi, |request| {
        Box::pin(openai::responses::count(request))
    }),
    route(Post, Versions, "/completions", Key, OpenAi, |request| {
        Box::pin(openai::completions::completions(request))
    }),
    route(Post, Root, "/completion", Key, OpenAi, |request| {
        Box::pin(openai::llama_completion::completion(request))
    }),
    // without a version, both names have llama-server's form; with one, OpenAI's
    route(Post, Root, "/completions", Key, OpenAi, |request| {
        Box::pin(openai::llama_completion::completion(request))
    }),
    route(Post, Root, "/infill", Key, OpenAi, |request| Box::pin(openai::infill::infill(request))),
    route(Post, Versions, "/embeddings", Key, OpenAi, |request| {
        Box::pin(openai::embeddings::embeddings(request))
    }),
    route(Post, Root, "/embeddings", Key, OpenAi, |request| Box::pin(openai::embeddings::embedding(request))),
    route(Post, Root, "/embedding", Key, OpenAi, |request| Box::pin(openai::embeddings::embedding(request))),
    route(Post, Both, "/responses", Key, OpenAi, |request| Box::pin(openai::responses::responses(request))),
    route(Post, Versions, "/messages", Key, Anthropic, |request| Box::pin(anthropic::messages(request))),
    route(Post, Versions, "/messages/count_tokens", Key, Anthropic, |request| {
        Box::pin(anthropic::count_tokens(request))
    }),
    route(Post, Root, "/api/chat", Key, Ollama, |request| Box::pin(ollama::generate::chat(request))),
    route(Post, Root, "/api/generate", Key, Ollama, |request| Box::pin(ollama::generate::generate(request))),
    route(Get, Root, "/api/tags", Key, Ollama, |request| Box::pin(ollama::models::tags(request))),
    route(Post, Root, "/api/show", Key, Ollama, |request| Box::pin(ollama::models::show(request))),
    route(Get, Root, "/api/ps", Key, Ollama, |request| Box::pin(ollama::models::running(request))),
    route(Get, Root, "/api/version", Open, Ollama, |request| Box::pin(ollama::models::version(request))),
    route(Post, Root, "/api/embed", Key, Ollama, |request| Box::pin(openai::embeddings::embed(request))),
    route(Post, Root, "/api/embeddings", Key, Ollama, |request| {
        Box::pin(openai::embeddings::embed_prompt(request))
    }),
    route(Post, Root, "/api/pull", Key, Ollama, |request| Box::pin(ollama::models::unsupported(request))),
    route(Post, Root, "/api/push", Key, Ollama, |request| Box::pin(ollama::models::unsupported(request))),
    route(Post, Root, "/api/create", Key, Ollama, |request| Box::pin(ollama::models::unsupported(request))),
    route(Post, Root, "/api/copy", Key, Ollama, |request| Box::pin(ollama::models::unsupported(request))),
    route(Delete, Root, "/api/delete", Key, Ollama, |request| Box::pin(ollama::models::unsupported(request))),
    route(Post, Versions, "/load", Key, OpenAi, |request| Box::pin(operations::load(request))),
    route(Post, Versions, "/rerank", Key, OpenAi, |request| Box::pin(operations::unsupported(request))),
    route(Post, Versions, "/reranking", Key, OpenAi, |request| Box::pin(operations::unsupported(request))),
    route(Post, Versions, "/reranker", Key, OpenAi, |request| Box::pin(operations::unsupported(request))),
    route(Post, Versions, "/pull", Key, OpenAi, |request| Box::pin(operations::unsupported(request))),
    route(Post, Versions, "/delete", Key, OpenAi, |request| Box::pin(operations::unsupported(request))),
    route(Post, Versions, "/unload", Key, OpenAi, |request| Box::pin(operations::unsupported(request))),
];
