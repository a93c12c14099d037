//! Every path that the server answers, in one table.

use crate::call::Call;
use crate::error::{Dialect, Failure};
use crate::{anthropic, ollama, openai, operations, page, slots};
use axum::http::Method;
use axum::response::Response;
use core::future::Future;
use core::pin::Pin;

/// What a handler gives.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Response, Failure>> + Send>>;

/// Under which prefixes a path stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    /// As it is.
    Root,
    /// Under `/v1` and the prefixes of Lemonade's clients.
    Versions,
    /// As it is, and under the versions.
    Both,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody, as probes have no key.
    Open,
    /// Whoever has a key.
    Key,
}

/// One row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) method: Verb,
    pub(crate) under: Under,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) dialect: Dialect,
    pub(crate) handler: fn(Call) -> Answer,
}

/// The methods in use; `Method` is not `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

impl Verb {
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Delete => Method::DELETE,
        }
    }
}

/// The prefixes of versions.
pub(crate) const VERSIONS: [&str; 4] = ["/v1", "/api/v1", "/v0", "/api/v0"];

use Access::{Key, Open};
use Dialect::{Anthropic, Ollama, OpenAi};
use Under::{Both, Root, Versions};
use Verb::{Delete, Get, Post};

type Handler = fn(Call) -> Answer;

const fn route(
    method: Verb,
    under: Under,
    path: &'static str,
    access: Access,
    dialect: Dialect,
    handler: Handler,
) -> Route {
    Route { method, under, path, access, dialect, handler }
}

/// Every path. GET changes nothing and computes nothing.
pub(crate) const ROUTES: [Route; 47] = [
    route(Get, Root, "/", Open, OpenAi, |call| Box::pin(page::page(call))),
    route(Get, Both, "/health", Open, OpenAi, |call| Box::pin(operations::health(call))),
    route(Get, Root, "/live", Open, OpenAi, |call| Box::pin(operations::live(call))),
    route(Get, Root, "/metrics", Key, OpenAi, |call| Box::pin(operations::metrics(call))),
    route(Get, Both, "/props", Key, OpenAi, |call| Box::pin(operations::props(call))),
    route(Get, Both, "/slots", Key, OpenAi, |call| Box::pin(slots::list(call))),
    route(Post, Both, "/slots/{*id}", Key, OpenAi, |call| Box::pin(slots::act(call))),
    route(Get, Versions, "/stats", Key, OpenAi, |call| Box::pin(operations::stats(call))),
    route(Get, Versions, "/system-info", Key, OpenAi, |call| Box::pin(operations::system_info(call))),
    route(Post, Both, "/tokenize", Key, OpenAi, |call| Box::pin(operations::tokenize(call))),
    route(Post, Both, "/detokenize", Key, OpenAi, |call| Box::pin(operations::detokenize(call))),
    route(Post, Both, "/apply-template", Key, OpenAi, |call| Box::pin(operations::apply_template(call))),
    route(Get, Both, "/models", Open, OpenAi, |call| Box::pin(openai::models::list(call))),
    route(Get, Versions, "/models/{*name}", Open, OpenAi, |call| Box::pin(openai::models::one(call))),
    route(Post, Both, "/chat/completions", Key, OpenAi, |call| Box::pin(openai::chat::completions(call))),
    route(Post, Both, "/chat/completions/input_tokens", Key, OpenAi, |call| {
        Box::pin(openai::chat::count(call))
    }),
    route(Post, Both, "/responses/input_tokens", Key, OpenAi, |call| {
        Box::pin(openai::responses::count(call))
    }),
    route(Post, Versions, "/completions", Key, OpenAi, |call| {
        Box::pin(openai::completions::completions(call))
    }),
    route(Post, Root, "/completion", Key, OpenAi, |call| Box::pin(openai::raw::completion(call))),
    // llama-server's form under both names; `OpenAI`'s has a version in front
    route(Post, Root, "/completions", Key, OpenAi, |call| Box::pin(openai::raw::completion(call))),
    route(Post, Root, "/infill", Key, OpenAi, |call| Box::pin(openai::infill::infill(call))),
    route(Post, Versions, "/embeddings", Key, OpenAi, |call| Box::pin(openai::embeddings::embeddings(call))),
    route(Post, Root, "/embeddings", Key, OpenAi, |call| Box::pin(openai::embeddings::embedding(call))),
    route(Post, Root, "/embedding", Key, OpenAi, |call| Box::pin(openai::embeddings::embedding(call))),
    route(Post, Both, "/responses", Key, OpenAi, |call| Box::pin(openai::responses::responses(call))),
    route(Post, Versions, "/messages", Key, Anthropic, |call| Box::pin(anthropic::messages(call))),
    route(Post, Versions, "/messages/count_tokens", Key, Anthropic, |call| {
        Box::pin(anthropic::count_tokens(call))
    }),
    route(Post, Root, "/api/chat", Key, Ollama, |call| Box::pin(ollama::generate::chat(call))),
    route(Post, Root, "/api/generate", Key, Ollama, |call| Box::pin(ollama::generate::generate(call))),
    route(Get, Root, "/api/tags", Key, Ollama, |call| Box::pin(ollama::about::tags(call))),
    route(Post, Root, "/api/show", Key, Ollama, |call| Box::pin(ollama::about::show(call))),
    route(Get, Root, "/api/ps", Key, Ollama, |call| Box::pin(ollama::about::running(call))),
    route(Get, Root, "/api/version", Open, Ollama, |call| Box::pin(ollama::about::version(call))),
    route(Post, Root, "/api/embed", Key, Ollama, |call| Box::pin(openai::embeddings::embed(call))),
    route(Post, Root, "/api/embeddings", Key, Ollama, |call| {
        Box::pin(openai::embeddings::embed_prompt(call))
    }),
    route(Post, Root, "/api/pull", Key, Ollama, |call| Box::pin(ollama::about::unsupported(call))),
    route(Post, Root, "/api/push", Key, Ollama, |call| Box::pin(ollama::about::unsupported(call))),
    route(Post, Root, "/api/create", Key, Ollama, |call| Box::pin(ollama::about::unsupported(call))),
    route(Post, Root, "/api/copy", Key, Ollama, |call| Box::pin(ollama::about::unsupported(call))),
    route(Delete, Root, "/api/delete", Key, Ollama, |call| Box::pin(ollama::about::unsupported(call))),
    route(Post, Versions, "/load", Key, OpenAi, |call| Box::pin(operations::load(call))),
    route(Post, Versions, "/rerank", Key, OpenAi, |call| Box::pin(operations::unsupported(call))),
    route(Post, Versions, "/reranking", Key, OpenAi, |call| Box::pin(operations::unsupported(call))),
    route(Post, Versions, "/reranker", Key, OpenAi, |call| Box::pin(operations::unsupported(call))),
    route(Post, Versions, "/pull", Key, OpenAi, |call| Box::pin(operations::unsupported(call))),
    route(Post, Versions, "/delete", Key, OpenAi, |call| Box::pin(operations::unsupported(call))),
    route(Post, Versions, "/unload", Key, OpenAi, |call| Box::pin(operations::unsupported(call))),
];
