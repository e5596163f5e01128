//! The addresses that a gateway listens on, and its certificates.
//!
//! An address is tried by listening there for a moment. Who holds one is asked over HTTP, where it has no TLS and no PROXY protocol.

use super::finding::Finding;
use crate::certificate::Certificate;
use crate::start_checks::{self, cannot_listen};
use jiff::Timestamp;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use words::settings::Settings;

/// For the one that holds an address to say who it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Of such an answer.
const MAX_ANSWER: u64 = 16 << 10;
/// Seconds before the end of a certificate at which to warn.
const SOON: i64 = 14 * 86_400;

/// Whether the addresses are free or a gateway's, and whether a gateway runs there.
pub async fn addresses(settings: &Settings) -> (Vec<Finding>, bool) {
    const CHECK: &str = "listen";
    let mut found = Vec::new();
    let mut is_running = false;
    // The control port comes last, and rarely has either: it tells whose the others are.
    let mut silent = Vec::new();
    for (path, listener) in start_checks::listeners(settings) {
        let address = listener.address;
        match std::net::TcpListener::bind(address) {
            Ok(_) => found.push(Finding::ok(CHECK, format!("{path} {address} is free"))),
            Err(why) if why.kind() != ErrorKind::AddrInUse => found.push(cannot(&path, address, &why)),
            Err(why) if listener.tls.is_some() || listener.proxy_protocol => {
                silent.push((path, address, why));
            }
            Err(why) if is_turnpike(address).await.is_none() => found.push(cannot(&path, address, &why)),
            Err(_) => {
                is_running = true;
                found.push(Finding::ok(CHECK, format!("{path} {address} is held by a running turnpike")));
            }
        }
    }
    for (path, address, why) in silent {
        found.push(match is_running {
            true => Finding::ok(
                CHECK,
                format!("{path} {address} is held while a turnpike runs; behind TLS or the PROXY protocol it does not say by whom"),
            ),
            false => cannot(&path, address, &why),
        });
    }
    (found, is_running)
}

fn cannot(path: &str, address: SocketAddr, why: &io::Error) -> Finding {
    let text = cannot_listen(address, why);
    let (text, todo) = text.split_once("; ").unwrap_or((&text, "look at the address"));
    Finding::fail("listen", format!("{path} {text}"), todo)
}

/// Whether a gateway responds there.
async fn is_turnpike(address: SocketAddr) -> Option<()> {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let exchange = async {
        let mut stream = TcpStream::connect((ip, address.port())).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
        Ok::<String, io::Error>(answer)
    };
    let answer = timeout(ANSWER_TIMEOUT, exchange).await.ok()?.ok()?;
    (answer.starts_with("HTTP/1.1 ") && answer.contains("\"requests_in_flight\"")).then_some(())
}

/// How long the certificates of listeners are good. That they can be read, and go with their keys, is checked with the settings.
pub fn certificates(settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "certificate";
    let now = Timestamp::now().as_second();
    let with_tls =
        start_checks::listeners(settings).filter_map(|(path, listener)| Some((path, listener.tls.as_ref()?)));
    let states = with_tls.filter_map(|(path, files)| {
        let expires = Certificate::load(files).ok()?.expires()?;
        let shown = files.cert.display();
        let days = (expires - now).div_euclid(86_400);
        let renew = "renew it: a running gateway reads the new files within two seconds";
        Some(match expires - now {
            ..=0 => Finding::fail(CHECK, format!("{path} {shown} has expired"), renew),
            1..SOON => Finding::warn(CHECK, format!("{path} {shown} expires in {days} days"), renew),
            _ => Finding::ok(CHECK, format!("{path} {shown} is good for {days} days")),
        })
    });
    states.collect()
}
