//! `/v1/embeddings`: the engine gives no hidden states yet, and an honest refusal is all there is.

use crate::call::Call;
use crate::error::{Failure, Kind};
use axum::response::Response;

pub(crate) async fn embeddings(_: Call) -> Result<Response, Failure> {
    Err(Failure::new(Kind::NotSupported, "this server computes no embeddings"))
}
