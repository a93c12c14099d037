//! Extras of streams that a request asks for.

use crate::error::Failure;
use crate::fields::Fields;

/// Extras of streams that a request asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamExtras {
    /// A last chunk with token counts.
    pub(super) usage: bool,
    /// Progress of the prompt.
    pub(super) progress: bool,
    /// Timings in every chunk.
    pub(super) timings: bool,
}

impl StreamExtras {
    pub(super) fn of(fields: &Fields<'_>) -> Result<Self, Failure> {
        let usage = match fields.get("stream_options") {
            Some(options) => Fields::of(options, "stream_options")?.flag("include_usage")?,
            None => None,
        };
        Ok(Self {
            usage: usage.unwrap_or(false),
            progress: fields.flag("return_progress")?.unwrap_or(false),
            timings: fields.flag("timings_per_token")?.unwrap_or(false),
        })
    }
}
