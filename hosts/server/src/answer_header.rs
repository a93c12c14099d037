//! Facts that all documents of one answer repeat.

use crate::app;
use crate::request_context::RequestContext;
use crate::unique_id::unique_id;

/// Facts that all documents of one answer repeat.
#[derive(Clone, Debug)]
pub(crate) struct AnswerHeader {
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    /// The model's name as the request has it.
    pub(crate) model: String,
}

impl AnswerHeader {
    /// A header with a new id. `requested` is the model that the request names.
    pub(crate) fn new(request: &RequestContext, id_prefix: &str, requested: Option<&str>) -> Self {
        let model = requested.filter(|name| !name.is_empty()).unwrap_or(&request.app.model.name);
        Self { id: unique_id(id_prefix), created: app::now(), model: model.to_owned() }
    }
}
