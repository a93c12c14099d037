//! Repeating a system call that a signal has interrupted.

use super::abi::CreateQueue;
use super::errno::Errno;
use super::request::Request;

/// Number of attempts after `EINTR` or `EAGAIN` before the error is returned. Signals alone never cause this
/// many repeats; only a kernel that never answers does.
const ATTEMPTS: u32 = 100_000;

/// Issues a request until it is not interrupted. Every attempt passes the argument as it was, unless the request
/// [carries progress](Request::carries_progress).
pub(super) fn retry(
    request: Request,
    arg: &mut [u8],
    mut issue: impl FnMut(&mut [u8]) -> Result<(), Errno>,
) -> Result<(), Errno> {
    const LARGEST: usize = size_of::<CreateQueue>();
    let mut sent = [0; LARGEST];
    let sent = &mut sent[..arg.len()];
    sent.copy_from_slice(arg);
    for _ in 0..ATTEMPTS {
        match issue(arg) {
            Err(Errno::EINTR | Errno::EAGAIN) if request.carries_progress() => {}
            Err(Errno::EINTR | Errno::EAGAIN) => arg.copy_from_slice(sent),
            result => return result,
        }
    }
    Err(Errno::EAGAIN)
}
