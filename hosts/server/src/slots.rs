//! `/slots`: llama-server's list of requests in progress, and prefixes saved to disk and restored.

use crate::error::{Failure, FailureKind};
use crate::fields::Fields;
use crate::request_context::RequestContext;
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;
use doorbell_runtime::prefix::{FileName, PrefixError, PrefixFolder};
use doorbell_runtime::serve::{ConversationSlot, Service};
use serde_json::{Value, json};
use std::time::Instant;

pub(crate) async fn list(request: RequestContext) -> Result<Response, Failure> {
    let slots = request.app.model.service.slots().list();
    if request.parameter("fail_on_no_slot") == Some("1") && slots.iter().all(|slot| slot.busy > 0) {
        return Err(Failure::new(FailureKind::Unavailable, "no slot is free"));
    }
    let context = request.app.model.context;
    let document = |(id, slot): (usize, &ConversationSlot)| {
        let busy = slot.busy > 0;
        let limit = slot.limit.min(context.saturating_sub(slot.prompt));
        let remain = if busy { i64::from(limit.saturating_sub(slot.decoded)) } else { -1 };
        json!({
            "id": id,
            "n_ctx": context,
            "is_processing": busy,
            "speculative": false,
            "n_prompt_tokens": if busy { slot.prompt } else { 0 },
            "next_token": [{
                "has_next_token": busy,
                "n_remain": remain,
                "n_decoded": if busy { slot.decoded } else { 0 },
            }],
        })
    };
    let slots: Vec<Value> = slots.iter().enumerate().map(document).collect();
    Ok(json(StatusCode::OK, &slots.into()))
}

/// `POST /slots/{id}?action=save|restore|erase`
pub(crate) async fn act(request: RequestContext) -> Result<Response, Failure> {
    let slot = request.name.as_deref().and_then(|name| name.parse::<u32>().ok());
    let slot = slot.ok_or_else(|| Failure::field("id_slot", "must be the number of a slot"))?;
    let action = request.parameter("action").unwrap_or_default().to_owned();
    match action.as_str() {
        "save" | "restore" => {
            let Some(folder) = request.app.settings.prefix_folder.clone() else {
                return Err(Failure::new(
                    FailureKind::NotSupported,
                    "this server saves nothing; start it with --slot-save-path",
                ));
            };
            let body = request.json().await?;
            let fields = Fields::of_request(&body)?;
            let name = fields.text("filename")?.ok_or_else(|| fields.wrong("filename", "is missing"))?;
            let name = FileName::new(name).map_err(|error| fields.wrong("filename", error))?;
            let act = if action == "save" { save } else { restore };
            blocking(&request, move |service| act(service, &folder, slot, &name)).await
        }
        "erase" => {
            let erased = move |service: &Service| {
                let count = PrefixFolder::erase(service, slot)?;
                Ok(json!({ "id_slot": slot, "n_erased": count }))
            };
            blocking(&request, erased).await
        }
        _ => Err(Failure::field("action", "must be save, restore or erase")),
    }
}

/// Runs work on files on a blocking thread.
async fn blocking(
    request: &RequestContext,
    act: impl FnOnce(&Service) -> Result<Value, PrefixError> + Send + 'static,
) -> Result<Response, Failure> {
    let service = request.app.model.service.clone();
    let done = tokio::task::spawn_blocking(move || act(&service)).await;
    let document = done.map_err(|error| Failure::new(FailureKind::Internal, error))??;
    Ok(json(StatusCode::OK, &document))
}

fn save(service: &Service, folder: &PrefixFolder, slot: u32, name: &FileName) -> Result<Value, PrefixError> {
    let start = Instant::now();
    let saved = folder.save(service, slot, name)?;
    Ok(json!({
        "id_slot": slot,
        "filename": name.as_str(),
        "n_saved": saved.tokens,
        "n_written": saved.bytes,
        "timings": { "save_ms": milliseconds(start) },
    }))
}

fn restore(
    service: &Service,
    folder: &PrefixFolder,
    slot: u32,
    name: &FileName,
) -> Result<Value, PrefixError> {
    let start = Instant::now();
    let restored = folder.restore(service, slot, name)?;
    Ok(json!({
        "id_slot": slot,
        "filename": name.as_str(),
        "n_restored": restored.tokens.len(),
        "n_read": restored.bytes,
        "timings": { "restore_ms": milliseconds(start) },
    }))
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
