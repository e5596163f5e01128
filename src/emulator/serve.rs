//! The emulator's server: an accept loop and hyper, one task a connection.
//!
//! Not TLS and not HTTP/2: the emulator stands on loopback, in front of a gateway's plain upstream side.

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

/// The built-in provider. Clones share their memory.
#[derive(Debug, Clone)]
pub struct Emulator {
    state: Arc<State>,
}

impl Emulator {
    /// An emulator that nobody can reach yet.
    pub fn new(options: Options) -> Self {
        Self { state: Arc::new(State::new(options)) }
    }

    /// Serves `listener` until `shutdown`, then lets running answers end: returns when the last one has.
    /// A scripted `hang` never ends, so put a limit on it; dropping this future closes all connections.
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
                        // Out of file descriptors: the next try would fail at once, again and again.
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
        log::debug!(target: "turnpike", "emulator: no TCP_NODELAY: {error}");
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
        // The sender is dropped, never used.
        _ = closed.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // Broken connections are what this server is for.
    if let Err(error) = result {
        log::trace!(target: "turnpike", "emulator: a connection ended: {error}");
    }
}

/// Says what hyper needs to hear: the body type of every answer.
pub(super) type HttpResponse = http::Response<Body>;
