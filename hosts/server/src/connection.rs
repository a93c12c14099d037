//! One HTTP/1.1 connection: requests are answered one after the other until either side closes it.
//!
//! Not here: accepting connections (`acceptor`), and answering requests (`dispatch`).

use crate::lingering_close::LingeringStream;
use axum::Router;
use core::convert::Infallible;
use core::future::{Future as _, poll_fn};
use core::pin::pin;
use core::time::Duration;
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
    idle_timeout: Duration,
}

impl ConnectionConfig {
    /// For a single request, or with `reuse` for as many as the client sends. `idle_timeout` limits the silence before
    /// each request and after the last.
    pub(crate) fn new(idle_timeout: Duration, reuse: bool) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(idle_timeout).keep_alive(reuse);
        // the few bytes of a token are cheaper to copy into one buffer than to write as several
        http.writev(false);
        // A client that closes its side of the connection counts as gone, as for most servers (Go's, nginx,
        // llama-server): it gives no other sign, and its work must not go on until a write fails.
        http.half_close(false);
        Self { http, idle_timeout }
    }
}

/// Answers the requests of a connection. When `ended` becomes true, the one in progress is the last.
pub(crate) async fn serve(
    connection: StdStream,
    router: Router,
    config: ConnectionConfig,
    ended: watch::Receiver<bool>,
) {
    // fails if the client has disconnected
    let Ok(connection) = TcpStream::from_std(connection) else { return };
    // a token must not wait for the acknowledgement of the one before
    _ = connection.set_nodelay(true);
    let service = service_fn(move |request| router.clone().call(request));
    let socket = TokioIo::new(LingeringStream::new(connection, config.idle_timeout));
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
    mut connections: UnboundedReceiver<StdStream>,
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
