//! Settings of a server that its operator chooses.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use doorbell_runtime::prefix::PrefixFolder;

/// The port that Lemonade's clients try first.
pub const DEFAULT_PORT: u16 = 13305;

/// Settings of a server that its operator chooses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Keys that clients must send; if there are none, every client may use the server.
    pub api_keys: Vec<String>,
    /// Origins of web pages that may use the server, besides its own; `*` allows all.
    pub origins: Vec<String>,
    /// Size limit of a request's body, bytes. All requests together hold at most sixteen times as many in
    /// memory.
    pub body_limit: usize,
    /// Requests that may be in progress at once.
    pub concurrency: usize,
    /// Connections that may be open at once, 32 of them for probes only. An address other than this machine's gets a
    /// quarter.
    pub connections: usize,
    /// Time for the head of a request.
    pub head_timeout: Duration,
    /// Time without output after which a stream gets a comment, so that proxies and clients keep it open.
    pub keep_alive_interval: Duration,
    /// Time that answers in progress get after the signal to end.
    pub drain_timeout: Duration,
    /// Time after that in which cancelled answers may still write their last event.
    pub final_write_timeout: Duration,
    /// Time that a connection may stay idle: before its first request, between requests, and while the client reads
    /// nothing of a pending answer. Longer than common clients keep unused connections (Go: 90 s), so that the client
    /// is the side that closes.
    pub idle_timeout: Duration,
    /// Folder for saved prefixes; without one they can't be saved.
    pub prefix_folder: Option<Arc<PrefixFolder>>,
}

impl Settings {
    /// Default settings for `address`: no key, bodies up to 8 MiB, 1024 requests at once.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            api_keys: Vec::new(),
            origins: Vec::new(),
            body_limit: 8 << 20,
            concurrency: 1024,
            connections: 4096,
            head_timeout: Duration::from_secs(10),
            keep_alive_interval: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(4),
            final_write_timeout: Duration::from_millis(200),
            idle_timeout: Duration::from_secs(120),
            prefix_folder: None,
        }
    }
}
