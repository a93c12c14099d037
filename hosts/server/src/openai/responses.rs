//! `/v1/responses`. The server stores no responses: every request has its whole conversation.

use super::response_document::ResponseDocument;
use super::stream_extras::StreamExtras;
use super::{document, responses_input, responses_stream};
use crate::answer_header::AnswerHeader;
use crate::conversation;
use crate::error::Failure;
use crate::fields::Fields;
use crate::generation::Generation;
use crate::request_context::RequestContext;
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;

pub(crate) async fn responses(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let conversation = request.read(&body, responses_input::conversation).await?;
    let fields = Fields::of_request(&body)?;
    let header = AnswerHeader::new(&request, "resp_", &fields)?;
    let response = ResponseDocument::new(header, &fields)?;
    let generated = conversation::generation_request(&request, conversation).await?;
    let generation = Generation::begin(&request, generated).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        let extras = StreamExtras::of(&fields)?;
        return Ok(responses_stream::respond(&request, response, extras, generation));
    }
    Ok(json(StatusCode::OK, &responses_stream::whole(response, generation).await?))
}

/// `/v1/responses/input_tokens`: the number of tokens of an input.
pub(crate) async fn count(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let conversation = request.read(&body, responses_input::conversation).await?;
    let rendered = conversation::render(&request, conversation).await?;
    Ok(document::input_tokens(rendered.tokens.len()))
}
