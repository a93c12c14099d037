//! Endpoints for operators and dashboards: health, metrics, properties, tokenization.

use crate::app::App;
use crate::conversation;
use crate::error::{Failure, FailureKind};
use crate::fields::{self, Fields};
use crate::metrics;
use crate::openai;
use crate::request_context::RequestContext;
use crate::stream::{json, with_type};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use core::sync::atomic::Ordering;
use doorbell_core::token::{EncodeOptions, TokenId};
use doorbell_runtime::memory;
use doorbell_runtime::timings::seconds;
use serde_json::{Value, json};

pub(crate) async fn health(request: RequestContext) -> Result<Response, Failure> {
    let load = request.app.model.service.load();
    if load.device_lost || load.ended {
        return Err(Failure::new(FailureKind::Unavailable, "the device has failed; start the server again"));
    }
    let document = json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "model_loaded": request.app.model.name,
        "device": request.app.model.info.device,
        "requests": { "running": load.running, "waiting": load.live.saturating_sub(load.running) },
    });
    Ok(json(StatusCode::OK, &document))
}

/// Answers while the process lives.
pub(crate) async fn live(_: RequestContext) -> Result<Response, Failure> {
    Ok(json(StatusCode::OK, &json!({ "status": "ok" })))
}

/// Metrics in Prometheus's text format, or in `OpenMetrics` if the client accepts it.
pub(crate) async fn metrics(request: RequestContext) -> Result<Response, Failure> {
    let text = request.app.metrics.text(&request.app.model.service.load());
    let accept = request.accept.as_ref().and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let mut response = if accept.contains("application/openmetrics-text") {
        with_type(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
    } else {
        with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", metrics::plain(&text))
    };
    response.headers_mut().insert("process-start-time-unix", HeaderValue::from(request.app.created()));
    Ok(response)
}

/// Statistics of the last finished answer, under Lemonade's names.
pub(crate) async fn stats(request: RequestContext) -> Result<Response, Failure> {
    let last = request.app.last.lock().ok().and_then(|last| last.clone());
    let Some(last) = last else { return Ok(json(StatusCode::OK, &json!({}))) };
    let timings = last.timings();
    let times = &timings.times;
    let document = json!({
        "time_to_first_token": seconds(times.queue) + seconds(times.prefill),
        "tokens_per_second": times.decode_rate(),
        "input_tokens": last.usage.prompt_tokens,
        "output_tokens": last.usage.generated_tokens,
        "prompt_tokens": last.usage.prompt_tokens,
        "cache_tokens": last.usage.cached_tokens,
        "queue_seconds": seconds(times.queue),
        "timings": timings.document(),
    });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn system_info(request: RequestContext) -> Result<Response, Failure> {
    let memory = memory::host_memory();
    let cores = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    let document = json!({
        "os": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "cores": cores,
        "memory_total_bytes": memory.map(|memory| memory.total),
        "memory_available_bytes": memory.map(|memory| memory.available),
        "peak_resident_bytes": memory::peak_resident(),
        "device": request.app.model.info.device,
        "version": env!("CARGO_PKG_VERSION"),
    });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn props(request: RequestContext) -> Result<Response, Failure> {
    let app = &request.app;
    let defaults = &app.model.defaults;
    let document = json!({
        "default_generation_settings": {
            "n_ctx": app.model.context,
            "params": {
                "seed": app.model.seed.unwrap_or(u32::MAX.into()),
                "temperature": defaults.temperature,
                "top_k": defaults.top_k,
                "top_p": defaults.top_p,
                "min_p": defaults.min_p,
                "repeat_penalty": defaults.penalties.repeat,
                "n_predict": -1,
            },
        },
        // the name without its folder
        "model_path": app.model.file,
        "total_slots": app.model.parallel,
        "model_alias": app.model.name,
        "chat_template": app.model.template_source(),
        "modalities": { "vision": false, "audio": false },
        "build_info": concat!("doorbell ", env!("CARGO_PKG_VERSION")),
        "is_sleeping": false,
        "requests_in_flight": app.in_flight.load(Ordering::Relaxed),
    });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn tokenize(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    request.read(&body, |app, fields| Ok(json(StatusCode::OK, &tokens_of(app, fields)?))).await
}

fn tokens_of(app: &App, fields: &Fields<'_>) -> Result<Value, Failure> {
    // llama-server calls it content, Lemonade and vLLM prompt or input
    let text = [fields.text("content")?, fields.text("prompt")?, fields.text("input")?];
    let text = text.into_iter().flatten().next().ok_or_else(|| fields.wrong("content", "is missing"))?;
    let options = EncodeOptions {
        add_special: fields.flag("add_special")?.unwrap_or(false),
        parse_special: fields.flag("parse_special")?.unwrap_or(true),
    };
    let tokens = app.encode(text, options)?;
    let piece = |&token: &TokenId| {
        let piece = match String::from_utf8(app.piece(token)) {
            Ok(text) => Value::from(text),
            Err(error) => json!(error.as_bytes()),
        };
        json!({ "id": token.0, "piece": piece })
    };
    let list: Vec<Value> = if fields.flag("with_pieces")?.unwrap_or(false) {
        tokens.iter().map(piece).collect()
    } else {
        tokens.iter().map(|token| token.0.into()).collect()
    };
    Ok(json!({ "tokens": list, "count": tokens.len() }))
}

pub(crate) async fn detokenize(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    request.read(&body, |app, fields| Ok(json(StatusCode::OK, &text_of(app, fields)?))).await
}

fn text_of(app: &App, fields: &Fields<'_>) -> Result<Value, Failure> {
    let list = fields.list("tokens")?.ok_or_else(|| fields.wrong("tokens", "is missing"))?;
    let tokens: Option<Vec<TokenId>> = list.iter().map(|id| fields::count(id).map(TokenId)).collect();
    let tokens = tokens.ok_or_else(|| fields.wrong("tokens", "must be token ids"))?;
    let known = app.model.tokenizer.vocab_len();
    if let Some(token) = tokens.iter().find(|token| token.0 as usize >= known) {
        return Err(fields.wrong("tokens", format_args!("{} is not in the vocabulary", token.0)));
    }
    if tokens.len() > app.model.context as usize {
        return Err(fields.wrong("tokens", "are more than the context holds"));
    }
    Ok(json!({ "content": app.decode(&tokens) }))
}

pub(crate) async fn apply_template(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let conversation = request.read(&body, openai::chat_input::conversation).await?;
    let rendered = conversation::render(&request, conversation).await?;
    Ok(json(StatusCode::OK, &json!({ "prompt": rendered.text, "tokens": rendered.tokens.len() })))
}

/// Lemonade's request to load a model; the only one is always loaded.
pub(crate) async fn load(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let name = fields.text("model_name")?.or(fields.text("model")?);
    if name.is_some_and(|name| name != request.app.model.name) {
        return Err(Failure::new(
            FailureKind::NotFound,
            format_args!(
                "this server has only {:?}; start another one for other models",
                request.app.model.name
            ),
        ));
    }
    let document = json!({ "status": "success", "message": "the model is loaded" });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn unsupported(_: RequestContext) -> Result<Response, Failure> {
    Err(Failure::new(FailureKind::NotSupported, "this server has no such function"))
}
