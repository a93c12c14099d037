//! The life of a server: it listens, answers, and shuts down in order.

use crate::acceptor;
use crate::app::App;
use crate::connection::{self, ConnectionConfig};
use crate::dispatch;
use crate::lingering_close::Timeouts;
use crate::model_handle::ModelHandle;
use crate::settings::Settings;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::net::SocketAddr;
use core::sync::atomic::Ordering;
use core::time::Duration;
use doorbell_runtime::serve::Service;
use std::io;
use std::net::TcpListener;
use std::time::Instant;
use tokio::net::TcpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// Interval at which a server that is shutting down checks for requests in progress.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// Interval at which a server checks that its engine lives.
const ENGINE_POLL: Duration = Duration::from_secs(1);

/// Connections that may wait to be accepted. If there are more, their clients retry only after a second. The system has
/// a limit of its own.
const BACKLOG: u32 = 16384;

/// Reason why a server cannot start or has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The address can't be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The system refuses a thread, a signal handler or a socket.
    System(io::Error),
    /// The engine's thread has ended while the server was running.
    EngineEnded,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, error } => {
                let remedy = match error.kind() {
                    io::ErrorKind::AddrNotAvailable => "give --host an address of this machine",
                    io::ErrorKind::PermissionDenied => "choose a --port above 1023",
                    _ => "choose another --port",
                };
                write!(f, "cannot listen on {address}: {error}; {remedy}")
            }
            Self::System(error) => write!(f, "the server cannot go on: {error}"),
            Self::EngineEnded => {
                f.write_str("the engine has ended, see the log above; start the server again")
            }
        }
    }
}

impl core::error::Error for ServerError {}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // a restarted server must not wait until the connections of the old one have expired
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
}

impl Server {
    /// Listens; requests are answered by [`Server::run`]. With port 0 the system chooses one.
    ///
    /// # Errors
    /// [`ServerError::Listen`]
    pub async fn bind(model: ModelHandle, settings: Settings) -> Result<Self, ServerError> {
        let address = settings.address;
        let listener = listen(address).map_err(|error| ServerError::Listen { address, error })?;
        if !address.ip().is_loopback() && settings.api_keys.is_empty() {
            tracing::warn!(%address, "everybody who reaches this address can use the model; give it a key with --api-key");
        }
        Ok(Self { listener, app: Arc::new(App::new(model, settings)) })
    }

    /// Address that it listens on.
    ///
    /// # Errors
    /// [`ServerError::System`]
    pub fn address(&self) -> Result<SocketAddr, ServerError> {
        self.listener.local_addr().map_err(ServerError::System)
    }

    /// Answers requests until `end` completes, then gives answers in progress [`Settings::drain_timeout`] and returns.
    ///
    /// # Errors
    /// [`ServerError::System`]
    pub async fn run(self, end: impl Future<Output = ()> + Send + 'static) -> Result<(), ServerError> {
        let Self { listener, app } = self;
        // tells the acceptor and every connection that no further requests are taken
        let (ended, _) = watch::channel(false);
        let connections = acceptor::start(listener, Arc::clone(&app), ended.subscribe());
        let connections = connections.map_err(ServerError::System)?;
        let (open, mut closed) = mpsc::channel(1);
        let timeouts = Timeouts { idle: app.settings.idle_timeout, head: app.settings.head_timeout };
        let config = ConnectionConfig::new(timeouts, true);
        let router = dispatch::router(&app);
        tokio::spawn(connection::serve_all(connections, router, config, ended.subscribe(), open));
        end.await;
        let (start, drain_timeout) = (Instant::now(), app.settings.drain_timeout);
        tracing::info!("ending; answers in progress have {} s", drain_timeout.as_secs_f32());
        app.model.service.drain();
        ended.send_replace(true);
        // connections without a complete request do not delay the end
        while app.in_flight.load(Ordering::Relaxed) > 0 && start.elapsed() < drain_timeout {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        app.model.service.stop();
        app.aborted.send_replace(true);
        // unfinished answers end with an error event; what no client reads is closed with the process
        _ = tokio::time::timeout(app.settings.final_write_timeout, closed.recv()).await;
        Ok(())
    }
}

/// A future that completes upon SIGTERM or Ctrl-C.
///
/// # Errors
/// [`ServerError::System`]
pub fn signals() -> Result<impl Future<Output = ()> + Send + 'static, ServerError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServerError::System)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServerError::System)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Completes when the engine has ended, which it does by itself only after an internal error. A host can then end its
/// server, so that whatever supervises the process starts it again.
pub async fn engine_end(engine: Service) {
    while !engine.load().ended {
        tokio::time::sleep(ENGINE_POLL).await;
    }
}
