//! Who takes connections up: a thread of its own, which serves questions about the server's state itself and hands all
//! others to the threads that serve answers.
//!
//! So probes are answered however many requests are being read, parsed and refused. A connection is led by its first
//! request; here it ends with the answer to that, so that nothing else is ever computed on this thread. A crowd costs
//! this thread a few system calls a client: most have said what they want when they are taken up, and need no waiting.

use crate::app::App;
use crate::connection;
use crate::dispatch;
use alloc::sync::Arc;
use axum::Router;
use core::future::pending;
use core::time::Duration;
use std::io;
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// Where a path begins whose answer comes from here.
const OWN: [&[u8]; 7] =
    [b"/health", b"/live", b"/metrics", b"/v1/health", b"/api/v1/health", b"/v0/health", b"/api/v0/health"];

/// Bytes of a request that are looked at.
const GLANCE: usize = 32;

/// Clients that are taken up before probes under way get their turn.
const BATCH: usize = 32;

/// How long to wait when the system has no more sockets for us.
const BREATH: Duration = Duration::from_millis(20);

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
    let (others, connections) = unbounded_channel();
    let silence = app.settings.silence;
    let door = Door { router: dispatch::router(&app), others, silence };
    let thread = std::thread::Builder::new().name("operations".into());
    thread.spawn(move || runtime.block_on(door.keep(listener, ended)))?;
    Ok(connections)
}

/// Where connections lead.
#[derive(Clone)]
struct Door {
    router: Router,
    others: UnboundedSender<StdStream>,
    /// How long a client may say nothing.
    silence: Duration,
}

impl Door {
    async fn keep(self, listener: StdListener, mut ended: watch::Receiver<bool>) {
        // one to wait, one to take up who else has come meanwhile
        let (Ok(others), Ok(first)) = (listener.try_clone(), TcpListener::from_std(listener)) else { return };
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
                    tracing::warn!(%error, "no connection can be taken up");
                    tokio::time::sleep(BREATH).await;
                }
                _ => tokio::task::yield_now().await,
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
        let mut first = [0; GLANCE];
        match connection.peek(&mut first) {
            Ok(seen) => self.hand(connection, &first[..seen]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::spawn(self.clone().lead(connection));
            }
            // gone
            Err(_) => {}
        }
    }

    /// Waits until the client says something, but not for ever.
    async fn lead(self, connection: StdStream) {
        let Ok(connection) = TcpStream::from_std(connection) else { return };
        let mut first = [0; GLANCE];
        let Ok(Ok(seen)) = tokio::time::timeout(self.silence, connection.peek(&mut first)).await else {
            return;
        };
        if let Ok(connection) = connection.into_std() {
            self.hand(connection, &first[..seen]);
        }
    }

    /// Hands a connection to who answers what it begins with.
    fn hand(&self, connection: StdStream, first: &[u8]) {
        let path = first.strip_prefix(b"GET ").or_else(|| first.strip_prefix(b"HEAD "));
        if path.is_some_and(|path| OWN.iter().any(|own| path.starts_with(own))) {
            let manner = connection::manner(self.silence, false);
            tokio::spawn(connection::serve(connection, self.router.clone(), manner, pending()));
        } else if !first.is_empty() {
            // if nobody is there any more, it is closed
            _ = self.others.send(connection);
        }
    }
}

/// Whether a client went before it was taken up.
fn gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
