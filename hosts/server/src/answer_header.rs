//! Facts that all documents of one answer repeat.

use crate::app;
use crate::error::Failure;
use crate::fields::Fields;
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
    /// A header with a new id, for the answers to a request with these fields.
    ///
    /// # Errors
    /// The request names a model in a way that can't be repeated.
    pub(crate) fn new(
        request: &RequestContext,
        id_prefix: &str,
        fields: &Fields<'_>,
    ) -> Result<Self, Failure> {
        let model = fields.model(&request.app.model.name)?.to_owned();
        Ok(Self { id: unique_id(id_prefix), created: app::now(), model })
    }
}
