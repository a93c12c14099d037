//! What an operator can decide.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use doorbell_runtime::prefix::Folder;

/// The port that Lemonade's clients try first.
pub const DEFAULT_PORT: u16 = 13305;

/// What an operator can decide.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub address: SocketAddr,
    /// Keys that open the server; with none, everybody who reaches it may use it.
    pub api_keys: Vec<String>,
    /// Origins of web pages that may use it, beside its own; `*` allows all.
    pub origins: Vec<String>,
    /// The longest body of a request, in bytes; four of these are held at a time.
    pub body_limit: usize,
    /// Requests that may be in progress at a time.
    pub concurrency: usize,
    /// Silence after which a stream gets a comment, so that nobody takes it for dead.
    pub keep_alive: Duration,
    /// How long answers may go on after the order to end.
    pub drain: Duration,
    /// How long the last words of answers may take after that.
    pub farewell: Duration,
    /// How long a client may take to say what it wants, at first and after each answer, and how long it may read nothing
    /// of what waits for it. Longer than usual clients keep
    /// connections that they don't use (Go: 90 s), so that theirs is the side that closes.
    pub silence: Duration,
    /// Where prefixes may be saved; with none they can't be.
    pub prefixes: Option<Arc<Folder>>,
}

impl Settings {
    /// Listening at `address`, open, 32 MiB bodies, 1024 requests.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            api_keys: Vec::new(),
            origins: Vec::new(),
            body_limit: 32 << 20,
            concurrency: 1024,
            keep_alive: Duration::from_secs(10),
            drain: Duration::from_secs(4),
            farewell: Duration::from_millis(200),
            silence: Duration::from_secs(120),
            prefixes: None,
        }
    }
}
