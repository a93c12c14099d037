//! One HTTP/1.1 connection: requests are answered one after the other until either side closes it.
//!
//! Not here: accepting connections (`acceptor`), and answering requests (`dispatch`).

use crate::connection_slots::ConnectionSlot;
use crate::head_clock::HeadClock;
use crate::lingering_close::{LingeringStream, Timeouts};
use axum::Router;
use axum::http::Request;
use core::convert::Infallible;
use core::future::{Future as _, poll_fn};
use core::net::SocketAddr;
use core::pin::pin;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::TcpStream as StdStream;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Sender, UnboundedReceiver};
use tokio::sync::watch;
use tokio::task::coop::unconstrained;
use tower_service::Service as _;

/// Settings of a connection.
#[derive(Clone)]
pub(crate) struct ConnectionConfig {
    http: http1::Builder,
    timeouts: Timeouts,
}

/// Address of the client, in the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// An accepted connection, and its slot among all, which is free when this is dropped.
pub(crate) struct Accepted {
    pub(crate) socket: StdStream,
    pub(crate) slot: ConnectionSlot,
}

/// Bytes of the head of a request; up to twice as many are held while it is read.
const MAX_HEAD: usize = 32 << 10;

impl ConnectionConfig {
    /// For a single request, or with `reuse` for as many as the client sends. The idle timeout limits the silence before
    /// each request but the first, and after the last.
    pub(crate) fn new(timeouts: Timeouts, reuse: bool) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(timeouts.idle).keep_alive(reuse);
        http.max_buf_size(MAX_HEAD);
        // the few bytes of a token are cheaper to copy into one buffer than to write as several
        http.writev(false);
        // A client that closes its side of the connection counts as gone, as for most servers (Go's, nginx,
        // llama-server): it gives no other sign, and its work must not go on until a write fails.
        http.half_close(false);
        Self { http, timeouts }
    }
}

/// Answers the requests of a connection. When `ended` becomes true, the one in progress is the last.
pub(crate) async fn serve(
    accepted: Accepted,
    router: Router,
    config: ConnectionConfig,
    ended: watch::Receiver<bool>,
) {
    // fails if the client has disconnected
    let Accepted { socket, slot: _slot } = accepted;
    let peer = socket.peer_addr().ok().map(Peer);
    let Ok(connection) = TcpStream::from_std(socket) else { return };
    // a token must not wait for the acknowledgement of the one before
    _ = connection.set_nodelay(true);
    let clock = HeadClock::default();
    let socket = TokioIo::new(LingeringStream::new(connection, config.timeouts, clock.clone()));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let answering = clock.begin();
        peer.map(|peer| request.extensions_mut().insert(peer));
        let response = router.clone().call(request);
        async move { response.await.map(|response| answering.attach(response)) }
    });
    let mut serving = pin!(config.http.serve_connection(socket, service));
    let mut waiting = ended.clone();
    // polled once to register the waker; later polls with every token only compare a version number
    let mut end = pin!(unconstrained(waiting.wait_for(|&ended| ended)));
    let mut registered = false;
    let mut ending = false;
    let served = poll_fn(|context| {
        if !ending && (!registered || ended.has_changed().unwrap_or(true)) {
            registered = true;
            ending = end.as_mut().poll(context).is_ready();
            if ending {
                serving.as_mut().graceful_shutdown();
            }
        }
        serving.as_mut().poll(context)
    });
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Serves connections as they come, until `ended` becomes true or no more can come. Each connection holds a clone of
/// `open` while it is served.
pub(crate) async fn serve_all(
    mut connections: UnboundedReceiver<Accepted>,
    router: Router,
    config: ConnectionConfig,
    mut ended: watch::Receiver<bool>,
    open: Sender<Infallible>,
) {
    let ending = ended.clone();
    loop {
        let connection = tokio::select! {
            _ = ended.wait_for(|&ended| ended) => None,
            connection = connections.recv() => connection,
        };
        let Some(connection) = connection else { return };
        let (router, config, ended, open) = (router.clone(), config.clone(), ending.clone(), open.clone());
        tokio::spawn(async move {
            serve(connection, router, config, ended).await;
            drop(open);
        });
    }
}
