//! Progress bars on stderr, where stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;

/// A bar, or nothing.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Bytes read while loading.
    pub(crate) fn loading(total: u64) -> Self {
        Self::new(total, "loading {bar:30} {bytes}/{total_bytes}")
    }

    /// Prompt tokens computed.
    pub(crate) fn prefill(total: u64) -> Self {
        Self::new(total, "prompt  {bar:30} {pos}/{len} tokens")
    }

    fn new(total: u64, template: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(Some(ProgressBar::new(total).with_style(style)))
    }

    pub(crate) fn set(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
