//! Who takes connections up: a thread of its own, which serves questions about the server's state itself and hands all
//! others to the threads that serve answers.
//!
//! So probes are answered however many requests are being read, parsed and refused. A connection is led by its first
//! request; here it ends with the answer to that, so that nothing else is ever computed on this thread. A crowd costs
//! this thread a few system calls a client: most have said what they want when they are taken up, and need no waiting.
//! The clock of silent streams ticks here, too.

use crate::app::App;
use crate::connection::{self, ConnectionConfig};
use crate::dispatch;
use crate::keep_alive;
use alloc::sync::Arc;
use axum::Router;
use core::time::Duration;
use std::io;
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// Where a path begins whose answer comes from here.
const OWN: [&[u8]; 7] =
    [b"/health", b"/live", b"/metrics", b"/v1/health", b"/api/v1/health", b"/v0/health", b"/api/v0/health"];

/// The methods of such requests, each with the space behind it.
const METHODS: [&[u8]; 2] = [b"GET ", b"HEAD "];

/// Bytes of a request that are looked at: more than any of ours begins with.
const PEEK_BYTES: usize = 32;

/// Clients that are taken up before probes under way get their turn.
const BATCH: usize = 32;

/// How long to wait when the system has no more sockets for us.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// How long to wait before looking again at a client that has not said enough.
const PEEK_PAUSE: Duration = Duration::from_millis(2);

/// How often to look at it.
const PEEKS: u32 = 100;

/// Starts the thread; connections that are not for it come through the receiver. It takes no more of them when `ended`
/// becomes true, and ends when its sender goes.
///
/// # Errors
/// The system refuses a thread or what a thread needs.
pub(crate) fn start(
    listener: StdListener,
    app: Arc<App>,
    ended: watch::Receiver<bool>,
) -> io::Result<UnboundedReceiver<StdStream>> {
    listener.set_nonblocking(true)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
    runtime.spawn(keep_alive::run(Arc::clone(&app)));
    let (others, connections) = unbounded_channel();
    let silence = app.settings.idle_timeout;
    let door = Acceptor { router: dispatch::router(&app), others, silence };
    let thread = std::thread::Builder::new().name("operations".into());
    thread.spawn(move || runtime.block_on(door.keep(listener, ended)))?;
    Ok(connections)
}

/// Where connections lead.
#[derive(Clone)]
struct Acceptor {
    router: Router,
    others: UnboundedSender<StdStream>,
    /// How long a client may say nothing.
    silence: Duration,
}

impl Acceptor {
    async fn keep(self, listener: StdListener, mut ended: watch::Receiver<bool>) {
        // one to wait, one to take up who else has come meanwhile
        let (Ok(others), Ok(first)) = (listener.try_clone(), TcpListener::from_std(listener)) else { return };
        let mut told = false;
        loop {
            let taken = tokio::select! {
                _ = ended.wait_for(|&ended| ended) => break,
                taken = first.accept() => taken.and_then(|(connection, _)| {
                    self.take(connection.into_std()?);
                    self.take_more(&others)
                }),
            };
            match taken {
                Err(error) if !gone(&error) => {
                    // once, not fifty times a second
                    if !core::mem::replace(&mut told, true) {
                        tracing::warn!(%error, "no connection can be taken up");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                _ => {
                    told = false;
                    tokio::task::yield_now().await;
                }
            }
        }
        drop((first, others));
        // probes may go on until the server has ended
        while ended.changed().await.is_ok() {}
    }

    /// Takes up who waits, but not too many.
    fn take_more(&self, listener: &StdListener) -> io::Result<()> {
        for _ in 0..BATCH {
            match listener.accept() {
                Ok((connection, _)) => self.take(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Looks at what the client says, now or when it comes.
    fn take(&self, connection: StdStream) {
        if connection.set_nonblocking(true).is_err() {
            return;
        }
        let mut first = [0; PEEK_BYTES];
        let kind = match connection.peek(&mut first) {
            Ok(seen) => RequestKind::of(&first[..seen]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => RequestKind::Unsaid,
            Err(_) => RequestKind::Nothing,
        };
        match kind {
            RequestKind::Unsaid => _ = tokio::spawn(self.clone().lead(connection)),
            kind => self.hand(connection, kind),
        }
    }

    /// Waits until the client has said what it extras, but not for ever.
    async fn lead(self, connection: StdStream) {
        let Ok(connection) = TcpStream::from_std(connection) else { return };
        let said = tokio::time::timeout(self.silence, listen(&connection)).await;
        if let (Ok(Ok(kind)), Ok(connection)) = (said, connection.into_std()) {
            self.hand(connection, kind);
        }
    }

    /// Hands a connection to who answers what it begins with.
    fn hand(&self, connection: StdStream, kind: RequestKind) {
        match kind {
            RequestKind::Probe => {
                let (router, config) = (self.router.clone(), ConnectionConfig::new(self.silence, false));
                tokio::spawn(async move {
                    // the end of the server is nothing to a probe
                    let (_never, ended) = watch::channel(false);
                    connection::serve(connection, router, config, ended).await;
                });
            }
            // if nobody is there any more, it is closed
            RequestKind::Answer => _ = self.others.send(connection),
            RequestKind::Nothing | RequestKind::Unsaid => {}
        }
    }
}

/// What the first bytes of a connection ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// The server's state.
    Probe,
    /// Anything else.
    Answer,
    /// The client has gone.
    Nothing,
    /// The bytes so far may begin either.
    Unsaid,
}

impl RequestKind {
    /// The kind of a connection whose first bytes these are; none have come when the client has gone.
    fn of(first: &[u8]) -> Self {
        if first.is_empty() {
            return Self::Nothing;
        }
        let mut unsaid = false;
        for method in METHODS {
            for own in OWN {
                let known = method.iter().chain(own);
                let same = first.iter().zip(known).take_while(|(said, known)| said == known).count();
                if same == method.len() + own.len() {
                    return Self::Probe;
                }
                unsaid |= same == first.len();
            }
        }
        if unsaid { Self::Unsaid } else { Self::Answer }
    }
}

/// Looks at a connection until it is clear what it asks for.
async fn listen(connection: &TcpStream) -> io::Result<RequestKind> {
    let mut first = [0; PEEK_BYTES];
    for _ in 0..PEEKS {
        let seen = connection.peek(&mut first).await?;
        match RequestKind::of(&first[..seen]) {
            // what was looked at is still there, so the socket stays readable: only time tells whether more comes
            RequestKind::Unsaid => tokio::time::sleep(PEEK_PAUSE).await,
            kind => return Ok(kind),
        }
    }
    // a client that has gone looks the same; who reads from it will know
    Ok(RequestKind::Answer)
}

/// Whether a client went before it was taken up.
fn gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
