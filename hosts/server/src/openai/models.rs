//! `/v1/models`

use crate::app::App;
use crate::error::{Failure, FailureKind, quoted};
use crate::request_context::RequestContext;
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

fn model(app: &App) -> Value {
    let info = &app.model.info;
    json!({
        "id": app.model.name,
        "object": "model",
        "created": app.created(),
        "owned_by": "doorbell",
        "meta": {
            // numbers of llama.cpp
            "vocab_type": match app.model.tokenizer.model_name() {
                "spm" => 1,
                "bpe" => 2,
                _ => 0,
            },
            "n_vocab": app.model.tokenizer.vocab_len(),
            "n_ctx": app.model.context,
            "n_ctx_train": info.trained_context,
            "n_embd": info.embedding,
            "n_params": info.parameters,
            "size": info.bytes,
        },
    })
}

pub(crate) async fn list(request: RequestContext) -> Result<Response, Failure> {
    let model = model(&request.app);
    // Codex reads a list under this name
    let named = json!([{ "name": request.app.model.name, "model": request.app.model.name }]);
    let document = json!({ "object": "list", "data": [model], "models": named });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn one(request: RequestContext) -> Result<Response, Failure> {
    let name = request.name.as_deref().unwrap_or_default();
    if name != request.app.model.name {
        let served = &request.app.model.name;
        return Err(Failure::new(
            FailureKind::NotFound,
            format_args!("no model is called {}; this server has {served:?}", quoted(name)),
        ));
    }
    Ok(json(StatusCode::OK, &model(&request.app)))
}
