//! `/v1/models`

use crate::app::App;
use crate::call::Call;
use crate::error::{Failure, Kind};
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

fn model(app: &App) -> Value {
    let facts = &app.served.facts;
    json!({
        "id": app.served.name,
        "object": "model",
        "created": app.created(),
        "owned_by": "doorbell",
        "meta": {
            // llama.cpp's numbers
            "vocab_type": match app.served.tokenizer.model_name() {
                "spm" => 1,
                "bpe" => 2,
                _ => 0,
            },
            "n_vocab": app.served.tokenizer.vocab_len(),
            "n_ctx": app.served.context,
            "n_ctx_train": facts.trained_context,
            "n_embd": facts.embedding,
            "n_params": facts.parameters,
            "size": facts.bytes,
        },
    })
}

pub(crate) async fn list(call: Call) -> Result<Response, Failure> {
    let model = model(&call.app);
    // Codex looks for a list called models
    let named = json!([{ "name": call.app.served.name, "model": call.app.served.name }]);
    let document = json!({ "object": "list", "data": [model], "models": named });
    Ok(json(StatusCode::OK, &document))
}

pub(crate) async fn one(call: Call) -> Result<Response, Failure> {
    let name = call.name.as_deref().unwrap_or_default();
    if name != call.app.served.name {
        let served = &call.app.served.name;
        return Err(Failure::new(
            Kind::NotFound,
            format_args!("no model is called {name:?}; this server has {served:?}"),
        ));
    }
    Ok(json(StatusCode::OK, &model(&call.app)))
}
