//! The limit of open files and sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the maximum of this user: the default is too low for many clients.
pub(crate) fn raise_limit() {
    let found = getrlimit(Resource::Nofile);
    if found.current == found.maximum {
        return;
    }
    let wanted = Rlimit { current: found.maximum, maximum: found.maximum };
    let [from, to] = [found.current, found.maximum].map(|limit| limit.unwrap_or(u64::MAX));
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => tracing::debug!(from, to, "raised the limit of open files"),
        Err(error) => tracing::debug!(from, to, %error, "the limit of open files can't be raised"),
    }
}
