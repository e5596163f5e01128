//! A small outbound proxy on loopback: it keeps what it is asked for, and leads every host to one port of this machine.
//!
//! `CONNECT` and requests with absolute targets, one of these for each connection. Not a provider: what comes back is the target's.

use parking_lot::Mutex;
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// What it does with every connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leads {
    /// To this port.
    To(u16),
    /// Nowhere: it answers so, and closes.
    Refuses(&'static str),
}

/// A listening proxy, which ends with the runtime of its test.
pub(crate) struct ProxyServer {
    pub(crate) port: u16,
    headers: Arc<Mutex<Vec<String>>>,
}

impl ProxyServer {
    pub(crate) async fn start(leads: Leads) -> Self {
        Self::listen(leads, None).await
    }

    /// One that clients speak TLS with.
    pub(crate) async fn with_tls(leads: Leads, config: ServerConfig) -> Self {
        Self::listen(leads, Some(tokio_rustls::TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn listen(leads: Leads, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let headers = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&headers);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                let tls = tls.clone();
                tokio::spawn(async move {
                    let _ = match tls {
                        Some(tls) => serve(tls.accept(tcp).await?, leads, &log).await,
                        None => serve(tcp, leads, &log).await,
                    };
                    io::Result::Ok(())
                });
            }
        });
        Self { port, headers }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The header of the first request on each connection, oldest first.
    pub(crate) fn headers(&self) -> Vec<String> {
        self.headers.lock().clone()
    }

    /// Their request lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.headers().iter().map(|header| header.lines().next().unwrap_or_default().to_owned()).collect()
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut client: S,
    leads: Leads,
    log: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        header.push(client.read_u8().await?);
    }
    let header = String::from_utf8_lossy(&header).into_owned();
    log.lock().push(header.clone());
    let port = match leads {
        Leads::To(port) => port,
        Leads::Refuses(answer) => {
            client.write_all(answer.as_bytes()).await?;
            return client.shutdown().await;
        }
    };
    let mut target = TcpStream::connect(("127.0.0.1", port)).await?;
    if header.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    } else {
        target.write_all(relative(&header).as_bytes()).await?;
    }
    copy_bidirectional(&mut client, &mut target).await.map(drop)
}

/// The header as the target gets it: a path in place of the URL, and nothing that is for the proxy.
fn relative(header: &str) -> String {
    let path = header.split(' ').nth(1).and_then(|url| url.strip_prefix("http://"));
    let authority = path.and_then(|url| url.split('/').next()).unwrap_or_default();
    let lines = header
        .split_inclusive("\r\n")
        .filter(|line| !line.to_ascii_lowercase().starts_with("proxy-authorization:"));
    lines.collect::<String>().replacen(&format!("http://{authority}"), "", 1)
}
