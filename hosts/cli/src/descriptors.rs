//! The limit of open files and sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files and sockets that the program has open besides connections: the model, the device, its threads' events.
const OWN: u64 = 64;

/// Raises the limit to the maximum of this user: the default is too low for many clients. Returns the number of
/// connections that it leaves room for.
pub(crate) fn raise_limit() -> usize {
    raise();
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(OWN)).unwrap_or(usize::MAX)
}

fn raise() {
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
