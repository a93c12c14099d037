//! Ollama's endpoints about models and the server.

use super::time;
use crate::app::App;
use crate::error::{Failure, FailureKind};
use crate::fields::Fields;
use crate::openai::fill_in;
use crate::request_context::RequestContext;
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;
use core::time::Duration;
use serde_json::{Value, json};

/// The version of Ollama whose API this is; clients check it.
const VERSION: &str = "0.6.4";

fn details(app: &App) -> Value {
    let info = &app.model.info;
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": info.architecture,
        "families": [info.architecture],
        "parameter_size": format!("{:.1}B", info.parameters as f64 / 1e9),
        "quantization_level": info.quantization,
    })
}

/// A digest, which clients expect. It is made from the name (64-bit FNV-1a), because a server has one model.
fn digest(app: &App) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in app.model.name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}").repeat(4)
}

fn model(app: &App) -> Value {
    json!({
        "name": app.model.name,
        "model": app.model.name,
        "modified_at": time::text(app.started),
        "size": app.model.info.bytes,
        "digest": digest(app),
        "details": details(app),
    })
}

pub(crate) async fn tags(request: RequestContext) -> Result<Response, Failure> {
    Ok(json(StatusCode::OK, &json!({ "models": [model(&request.app)] })))
}

pub(crate) async fn running(request: RequestContext) -> Result<Response, Failure> {
    let mut model = model(&request.app);
    // clients read from this whether the GPU is used
    let info = &request.app.model.info;
    model["size_vram"] = if info.on_gpu { info.bytes } else { 0 }.into();
    // the model is never unloaded
    let year = Duration::from_secs(365 * 86_400);
    model["expires_at"] = time::text(request.app.started + year).into();
    model["context_length"] = request.app.model.context.into();
    Ok(json(StatusCode::OK, &json!({ "models": [model] })))
}

pub(crate) async fn version(_: RequestContext) -> Result<Response, Failure> {
    Ok(json(StatusCode::OK, &json!({ "version": VERSION })))
}

pub(crate) async fn show(request: RequestContext) -> Result<Response, Failure> {
    let app = &request.app;
    let info = &app.model.info;
    // any name is that of the only model, as for every other request
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let _names = (fields.text("model")?, fields.text("name")?);
    let mut capabilities = vec!["completion"];
    if app.model.takes_tools() {
        capabilities.push("tools");
    }
    if fill_in::available(app) {
        capabilities.push("insert");
    }
    if app.style.can_think() {
        capabilities.push("thinking");
    }
    let family = &info.architecture;
    let document = json!({
        "modelfile": "",
        "parameters": "",
        "template": app.model.template_source(),
        "details": details(app),
        "model_info": {
            "general.architecture": family,
            "general.parameter_count": info.parameters,
            (format!("{family}.context_length")): info.trained_context,
            (format!("{family}.embedding_length")): info.embedding,
        },
        "capabilities": capabilities,
        "modified_at": time::text(app.started),
    });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn unsupported(_: RequestContext) -> Result<Response, Failure> {
    Err(Failure::new(FailureKind::NotSupported, "this server has one model, given on its command line"))
}
