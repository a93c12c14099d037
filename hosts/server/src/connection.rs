//! One connection: HTTP/1.1, request after request, until one of the two sides has enough. Who takes connections up is
//! the doorman's business, what is answered that of the routes.

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

/// How a connection is served.
#[derive(Clone)]
pub(crate) struct ConnectionConfig {
    http: http1::Builder,
    silence: Duration,
}

impl ConnectionConfig {
    /// For one request, or for as many as the client extras with at most so much silence before each and behind the last.
    pub(crate) fn new(silence: Duration, again: bool) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(silence).keep_alive(again);
        // a token's few bytes cost less to copy together than to gather: one buffer to write
        http.writev(false);
        // A client that closes its side of the connection has gone, as for most servers (Go's, nginx, llama-server's):
        // who goes says no more than that, and work for him must not go on until somebody tries to write to him.
        http.half_close(false);
        Self { http, silence }
    }
}

/// Answers the requests of a connection. When `ended` becomes true, the one in progress is the last.
pub(crate) async fn serve(
    connection: StdStream,
    router: Router,
    config: ConnectionConfig,
    ended: watch::Receiver<bool>,
) {
    // a client that has gone already
    let Ok(connection) = TcpStream::from_std(connection) else { return };
    // a token must not wait for the acknowledgement of the one before
    _ = connection.set_nodelay(true);
    let service = service_fn(move |request| router.clone().call(request));
    let socket = TokioIo::new(LingeringStream::new(connection, config.silence));
    let mut serving = pin!(config.http.serve_connection(socket, service));
    let mut waiting = ended.clone();
    // all wakes of a task are alike: it listens for the end once, and looks at a number with each token
    let mut end = pin!(unconstrained(waiting.wait_for(|&ended| ended)));
    let mut listening = false;
    let mut ending = false;
    let served = poll_fn(|context| {
        if !ending && (!listening || ended.has_changed().unwrap_or(true)) {
            listening = true;
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

/// Serves connections as they come, until `ended` becomes true or no more can come. A clone of `open` goes with each of
/// them.
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
