//! The thread that accepts connections. It serves probes (health, metrics) itself and hands all other connections to
//! the threads that serve answers.
//!
//! Probes are therefore answered even while many requests are being read, parsed and refused. The first request of a
//! connection decides where it is served; a connection that is served here ends with that answer, so that no other
//! work ever runs on this thread. Most clients have sent their request when they are accepted, and cost only a few
//! system calls. The clock of silent streams runs on this thread, too.

use crate::app::App;
use crate::connection::{self, Accepted, ConnectionConfig};
use crate::connection_slots::ConnectionSlots;
use crate::dispatch;
use crate::keep_alive;
use crate::lingering_close::Timeouts;
use alloc::sync::Arc;
use axum::Router;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// Beginnings of the paths that this thread answers.
const PROBE_PATHS: [&[u8]; 7] =
    [b"/health", b"/live", b"/metrics", b"/v1/health", b"/api/v1/health", b"/v0/health", b"/api/v0/health"];

/// Methods of probes, each with the space after it.
const PROBE_METHODS: [&[u8]; 2] = [b"GET ", b"HEAD "];

/// Bytes of a request that are peeked at: more than any probe's method and path.
const PEEK_BYTES: usize = 32;

/// Connections that are accepted before probes in progress get their turn.
const BATCH: usize = 32;

/// Pause before accepting again after the system refused a socket.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Pause before peeking again at a connection that has not sent enough.
const PEEK_PAUSE: Duration = Duration::from_millis(2);

/// Time in which a connection must show that it is a probe, if only probes get a slot.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// Bytes that are read of a connection without a slot.
const REFUSED_BYTES: usize = 16 << 10;

/// Number of times to peek at a connection.
const PEEKS: u32 = 100;

/// Starts the thread. Connections that it does not serve come through the receiver. It accepts no more of them when
/// `ended` becomes true, and ends when the sender of `ended` is dropped.
///
/// # Errors
/// The system refuses the thread or its resources.
pub(crate) fn start(
    listener: StdListener,
    app: Arc<App>,
    ended: watch::Receiver<bool>,
) -> io::Result<UnboundedReceiver<Accepted>> {
    listener.set_nonblocking(true)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
    runtime.spawn(keep_alive::run(Arc::clone(&app.streams), app.settings.keep_alive_interval));
    let (others, connections) = unbounded_channel();
    let slots = Arc::new(ConnectionSlots::new(app.settings.connections));
    let timeouts = Timeouts { idle: app.settings.idle_timeout, head: app.settings.head_timeout };
    let acceptor = Acceptor { router: dispatch::router(&app), others, timeouts, slots };
    let thread = std::thread::Builder::new().name("operations".into());
    thread.spawn(move || runtime.block_on(acceptor.run(listener, ended)))?;
    Ok(connections)
}

/// Accepts connections and decides who serves them.
#[derive(Clone)]
struct Acceptor {
    router: Router,
    /// Takes the connections that are served elsewhere.
    others: UnboundedSender<Accepted>,
    timeouts: Timeouts,
    slots: Arc<ConnectionSlots>,
}

impl Acceptor {
    async fn run(self, listener: StdListener, mut ended: watch::Receiver<bool>) {
        // one handle to wait on, one to accept further connections without waiting
        let (Ok(more), Ok(first)) = (listener.try_clone(), TcpListener::from_std(listener)) else { return };
        let mut warned = false;
        loop {
            let accepted = tokio::select! {
                _ = ended.wait_for(|&ended| ended) => break,
                accepted = first.accept() => accepted.and_then(|(connection, _)| {
                    self.classify(connection.into_std()?);
                    self.accept_batch(&more)
                }),
            };
            match accepted {
                Err(error) if !disconnected(&error) => {
                    // once, not fifty times a second
                    if !core::mem::replace(&mut warned, true) {
                        tracing::warn!(%error, "no connection can be taken up");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                _ => {
                    warned = false;
                    tokio::task::yield_now().await;
                }
            }
        }
        drop((first, more));
        // probes are answered until the server has ended
        while ended.changed().await.is_ok() {}
    }

    /// Accepts the connections that wait, at most [`BATCH`].
    fn accept_batch(&self, listener: &StdListener) -> io::Result<()> {
        for _ in 0..BATCH {
            match listener.accept() {
                Ok((connection, _)) => self.classify(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if disconnected(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives a connection a slot, reads the kind of its first request, now or when it arrives, and hands it over.
    fn classify(&self, socket: StdStream) {
        if socket.set_nonblocking(true).is_err() {
            return;
        }
        let address = socket.peer_addr().ok().map(|peer| peer.ip());
        let Some(slot) = self.slots.take(address) else { return refuse(&socket) };
        let mut first = [0; PEEK_BYTES];
        let kind = match socket.peek(&mut first) {
            Ok(count) => RequestKind::of(&first[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => RequestKind::Incomplete,
            Err(_) => RequestKind::Disconnected,
        };
        let accepted = Accepted { socket, slot };
        match kind {
            RequestKind::Incomplete => _ = tokio::spawn(self.clone().wait_and_serve(accepted)),
            kind => self.serve(accepted, kind),
        }
    }

    /// Waits for the first request, at most as long as its head may take; for a short time where others wait for the
    /// slot.
    async fn wait_and_serve(self, accepted: Accepted) {
        let Accepted { socket, slot } = accepted;
        let Ok(socket) = TcpStream::from_std(socket) else { return };
        let limit = if slot.is_for_probe() { PROBE_WAIT } else { self.timeouts.head };
        let kind = tokio::time::timeout(limit.min(self.timeouts.head), request_kind(&socket)).await;
        let Ok(socket) = socket.into_std() else { return };
        match kind {
            Ok(Ok(kind)) => self.serve(Accepted { socket, slot }, kind),
            Ok(Err(_)) => {}
            Err(_) => refuse(&socket),
        }
    }

    /// Serves a probe here and sends any other request to the threads that serve answers.
    fn serve(&self, accepted: Accepted, kind: RequestKind) {
        match kind {
            RequestKind::Probe => {
                let (router, config) = (self.router.clone(), ConnectionConfig::new(self.timeouts, false));
                tokio::spawn(async move {
                    // probes are served even while the server shuts down
                    let (_never, ended) = watch::channel(false);
                    connection::serve(accepted, router, config, ended).await;
                });
            }
            RequestKind::Other if accepted.slot.is_for_probe() => refuse(&accepted.socket),
            // the connection is closed if the receiver is gone
            RequestKind::Other => _ = self.others.send(accepted),
            RequestKind::Disconnected | RequestKind::Incomplete => {}
        }
    }
}

/// Answers a connection that gets no slot.
fn refuse(mut socket: &StdStream) {
    // a socket that is closed with unread bytes resets the connection, and with it the answer
    _ = socket.read(&mut [0; REFUSED_BYTES]);
    // the system takes this much at once; if not, the connection just ends
    _ = socket.write(
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    );
}

/// Kind of request that the first bytes of a connection begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// A question about the server's state.
    Probe,
    /// Any other request.
    Other,
    /// The client has disconnected.
    Disconnected,
    /// The bytes so far may begin a probe or another request.
    Incomplete,
}

impl RequestKind {
    /// The kind that these bytes begin. No bytes mean that the client has disconnected.
    fn of(first: &[u8]) -> Self {
        if first.is_empty() {
            return Self::Disconnected;
        }
        let mut incomplete = false;
        for method in PROBE_METHODS {
            for path in PROBE_PATHS {
                let probe = method.iter().chain(path);
                let same = first.iter().zip(probe).take_while(|(sent, probe)| sent == probe).count();
                if same == method.len() + path.len() {
                    return Self::Probe;
                }
                incomplete |= same == first.len();
            }
        }
        if incomplete { Self::Incomplete } else { Self::Other }
    }
}

/// Peeks at a connection until the kind of its first request is clear.
async fn request_kind(connection: &TcpStream) -> io::Result<RequestKind> {
    let mut first = [0; PEEK_BYTES];
    for _ in 0..PEEKS {
        let count = connection.peek(&mut first).await?;
        match RequestKind::of(&first[..count]) {
            // peeked bytes stay in the socket and keep it readable, so only a pause shows whether more arrives
            RequestKind::Incomplete => tokio::time::sleep(PEEK_PAUSE).await,
            kind => return Ok(kind),
        }
    }
    // a client that disconnected looks the same; reading from the connection will tell
    Ok(RequestKind::Other)
}

/// True if a client disconnected before its connection was accepted.
fn disconnected(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
