//! Who takes connections up: a thread of its own, which serves questions about the server's state itself and hands all
//! others to the threads that serve answers.
//!
//! So probes are answered however many requests are being read, parsed and refused. A connection is led by its first
//! request; here it ends with the answer to that, so that nothing else is ever computed on this thread.

use crate::app::App;
use crate::dispatch;
use alloc::sync::Arc;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::map_response;
use axum::response::Response;
use axum::serve::Listener;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// What the first request of a connection begins with that stays here.
const OWN: [&[u8]; 7] = [
    b"GET /health",
    b"GET /live",
    b"GET /metrics",
    b"GET /v1/health",
    b"GET /api/v1/health",
    b"GET /v0/health",
    b"GET /api/v0/health",
];

/// Bytes of a request that are looked at.
const GLANCE: usize = 32;

/// How long to wait when the system has no more sockets for us.
const BREATH: Duration = Duration::from_millis(20);

/// Connections handed over from the thread that took them up.
pub(crate) struct Handed {
    connections: UnboundedReceiver<StdStream>,
    address: SocketAddr,
}

impl Listener for Handed {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let Some(connection) = self.connections.recv().await else {
                // nobody hands anything over any more
                return core::future::pending().await;
            };
            if let Ok(connection) = TcpStream::from_std(connection) {
                let address = connection.peer_addr().unwrap_or(self.address);
                return (connection, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// Starts the thread. It takes no more connections when `ended` becomes true, and ends when its sender goes.
///
/// # Errors
/// The system refuses a thread or what a thread needs.
pub(crate) fn start(
    listener: StdListener,
    app: Arc<App>,
    ended: watch::Receiver<bool>,
) -> io::Result<Handed> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
    let (others, connections) = unbounded_channel();
    let thread = std::thread::Builder::new().name("operations".into());
    thread.spawn(move || runtime.block_on(keep(listener, address, app, others, ended)))?;
    Ok(Handed { connections, address })
}

async fn keep(
    listener: StdListener,
    address: SocketAddr,
    app: Arc<App>,
    others: UnboundedSender<StdStream>,
    mut ended: watch::Receiver<bool>,
) {
    let (own, connections) = unbounded_channel();
    let router = dispatch::router(&app).layer(map_response(last));
    let serving = axum::serve(Handed { connections, address }, router);
    tokio::spawn(serving.into_future());
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        let connection = tokio::select! {
            connection = listener.accept() => connection,
            changed = ended.changed() => {
                if changed.is_err() || *ended.borrow() {
                    break;
                }
                continue;
            }
        };
        match connection {
            Ok((connection, _)) => _ = tokio::spawn(lead(connection, own.clone(), others.clone())),
            Err(error) if gone(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken up");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
    drop(listener);
    // probes may go on until the server has ended
    while ended.changed().await.is_ok() {}
}

/// Ends a connection with this answer.
async fn last(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Whether a client went before it was taken up.
fn gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Waits until the client says something, and hands the connection to who answers that.
async fn lead(connection: TcpStream, own: UnboundedSender<StdStream>, others: UnboundedSender<StdStream>) {
    // a token must not wait for the acknowledgement of the one before
    _ = connection.set_nodelay(true);
    let mut first = [0; GLANCE];
    let Ok(seen @ 1..) = connection.peek(&mut first).await else { return };
    let stays = OWN.iter().any(|path| first[..seen].starts_with(path));
    if let Ok(connection) = connection.into_std() {
        // if nobody is there any more, it is closed
        _ = if stays { own.send(connection) } else { others.send(connection) };
    }
}
