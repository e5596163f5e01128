//! The emulator's server: an accept loop, and hyper in one task per connection.
//!
//! No TLS and no HTTP/2: the emulator listens on loopback, as the plain-text upstream of a gateway.

use super::Options;
use super::body::Body;
use super::routes;
use super::socket::{ConnectionHandle, Socket};
use super::state::State;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The built-in provider. Clones share their state.
#[derive(Debug, Clone)]
pub struct Emulator {
    state: Arc<State>,
}

impl Emulator {
    /// Creates an emulator; it is not listening yet.
    pub fn new(options: Options) -> Self {
        Self { state: Arc::new(State::new(options)) }
    }

    /// Serves `listener` until `shutdown`, then waits for running responses to complete. A scripted `hang`
    /// never completes, so put a timeout on this future; dropping it closes all connections.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send) {
        let (closing, closed) = watch::channel(());
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((tcp, _)) => {
                        connections.spawn(connection(self.state.clone(), tcp, closed.clone()));
                    }
                    Err(error) => {
                        log::warn!(target: "turnpike", "emulator: cannot accept a connection: {error}");
                        // Out of file descriptors: the next accept would fail at once as well.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = &mut shutdown => break,
            }
        }
        drop(listener);
        drop(closing);
        while connections.join_next().await.is_some() {}
    }
}

async fn connection(state: Arc<State>, tcp: TcpStream, mut closed: watch::Receiver<()>) {
    if let Err(error) = tcp.set_nodelay(true) {
        log::debug!(target: "turnpike", "emulator: cannot set TCP_NODELAY: {error}");
    }
    let handle = Arc::new(ConnectionHandle::new(state.stats.connected()));
    let socket = Socket::new(tcp, handle.clone(), state.clone());
    let service = service_fn(move |request| routes::serve_request(state.clone(), handle.clone(), request));
    let mut http = http1::Builder::new();
    // Tests hold connections open for as long as they like.
    http.header_read_timeout(None).max_headers(300);
    let connection = http.serve_connection::<_, _>(TokioIo::new(socket), service).with_upgrades();
    tokio::pin!(connection);
    let result = tokio::select! {
        ended = connection.as_mut() => ended,
        // The sender is only ever dropped.
        _ = closed.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // Broken connections are expected here.
    if let Err(error) = result {
        log::trace!(target: "turnpike", "emulator: a connection ended: {error}");
    }
}

/// The response type of hyper's service.
pub(super) type HttpResponse = http::Response<Body>;
