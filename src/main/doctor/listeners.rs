//! The addresses that a gateway listens on, and its certificates.
//!
//! An address is tried by listening there for a moment. Who holds one is asked over HTTP, where it has no TLS and no PROXY protocol.

use super::finding::{Finding, State};
use crate::acme::{AcmeFiles, OrderHistory, files_of};
use crate::certificate::{Certificate, Validity};
use crate::start_checks::{self, cannot_listen};
use crate::store_opening;
use jiff::Timestamp;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use words::settings::Settings;

/// For the one that holds an address to say who it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Of such an answer.
const MAX_ANSWER: u64 = 16 << 10;
const CERTIFICATE: &str = "certificate";
/// Seconds before the end of a certificate at which to warn.
const SOON: i64 = 14 * 86_400;

/// Whether the addresses are free or a gateway's, and whether a gateway runs there.
pub async fn addresses(settings: &Settings) -> (Vec<Finding>, bool) {
    const CHECK: &str = "listen";
    let mut found = Vec::new();
    let mut is_running = false;
    // The control port comes last, and rarely has either: it tells whose the others are.
    let mut silent = Vec::new();
    let proofs = settings.acme_http().map(|address| ("acme.http_listen".to_owned(), address));
    if let Some((path, address)) = proofs {
        // What holds it does not say who it is.
        match std::net::TcpListener::bind(address) {
            Ok(_) => found.push(Finding::ok(CHECK, format!("{path} {address} is free"))),
            Err(why) if why.kind() == ErrorKind::AddrInUse => silent.push((path, address, why)),
            Err(why) => found.push(cannot(&path, address, &why)),
        }
    }
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
                format!("{path} {address} is held while a turnpike runs; behind TLS, the PROXY protocol or acme.http_listen it does not say by whom"),
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

/// How long the certificates of listeners are good. That they can be read, and go with their keys, is checked with the settings. Of those
/// that an authority issues, if it is clear where they are: what became of the last order.
pub fn certificates(file: &Path, settings: &Settings, has_state_dir: bool) -> Vec<Finding> {
    let now = Timestamp::now().as_second();
    let issued = AcmeFiles::new(&store_opening::state_dir(file, settings), &settings.acme.directory);
    let mut found = Vec::new();
    for (path, listener) in start_checks::listeners(settings) {
        let Some(tls) = listener.tls.as_ref().filter(|_| has_state_dir || listener.acme_names().is_none())
        else {
            continue;
        };
        let Ok(certificate) = Certificate::load(files_of(tls, &issued)) else { continue };
        let validity = certificate.validity();
        match listener.acme_names() {
            Some(names) => {
                let history = issued.issued(names).history();
                found.push(issued_certificate(&path, names, validity, &history, now));
            }
            None => found.extend(validity.map(|validity| {
                let shown = format!("{path} {}", certificate.file().display());
                expiry(
                    &shown,
                    validity,
                    SOON,
                    now,
                    "renew it: a running gateway reads the new files within two seconds",
                )
            })),
        }
    }
    found
}

/// One of an authority. It is renewed with a third of its lifetime left: a quarter is late.
fn issued_certificate(
    path: &str,
    names: &[String],
    validity: Option<Validity>,
    history: &OrderHistory,
    now: i64,
) -> Finding {
    let shown = format!("{path} for {}", names.join(", "));
    let failed = history.why.as_ref().map(|why| {
        let count = history.failures;
        let next = Timestamp::from_second(history.next).map(|next| next.to_string()).unwrap_or_default();
        match count {
            0 | 1 => format!("the last order failed, the next is on {next}: {why}"),
            _ => format!("{count} orders in a row failed, the next is on {next}; the last one: {why}"),
        }
    });
    let todo = failed
        .clone()
        .unwrap_or_else(|| "start the gateway: it orders certificates while it runs".to_owned());
    let Some(validity) = validity else {
        return Finding::fail(CERTIFICATE, format!("{shown}: the authority has not issued one yet"), &todo);
    };
    let late = validity.until.saturating_sub(validity.from) / 4;
    let finding = expiry(&shown, validity, late, now, &todo);
    match failed {
        Some(failed) if finding.state == State::Ok => Finding::warn(CERTIFICATE, finding.text, &failed),
        _ => finding,
    }
}

/// `soon`: with fewer seconds left it is a warning.
fn expiry(shown: &str, validity: Validity, soon: i64, now: i64, todo: &str) -> Finding {
    let left = validity.until.saturating_sub(now);
    let days = left.div_euclid(86_400);
    if left <= 0 {
        Finding::fail(CERTIFICATE, format!("{shown} has expired"), todo)
    } else if left < soon {
        Finding::warn(CERTIFICATE, format!("{shown} expires in {days} days"), todo)
    } else {
        Finding::ok(CERTIFICATE, format!("{shown} is good for {days} days"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_an_authority_is_bad_without_one_and_odd_after_a_failed_order() {
        const DAY: i64 = 86_400;
        let names = ["a.example".to_owned()];
        let good = Some(Validity { from: 0, until: 90 * DAY });
        let failed =
            OrderHistory { failures: 2, why: Some("no route".to_owned()), ..OrderHistory::default() };
        let of = |validity, history: &OrderHistory, now| {
            let found = issued_certificate("listen.data[0]", &names, validity, history, now);
            (found.state, found.text + " " + found.what_to_do.as_deref().unwrap_or_default())
        };
        let issued = OrderHistory::issued(0);
        assert_eq!(of(good, &issued, 0).0, State::Ok);
        assert_eq!(of(good, &issued, 67 * DAY).0, State::Ok);
        assert_eq!(of(good, &issued, 68 * DAY).0, State::Warn, "it should have been renewed");
        assert_eq!(of(good, &issued, 90 * DAY).0, State::Fail);
        let (state, text) = of(good, &failed, DAY);
        assert!(
            state == State::Warn && text.contains("2 orders in a row failed") && text.contains("no route")
        );
        let once = OrderHistory { failures: 1, ..failed.clone() };
        assert!(of(good, &once, DAY).1.contains("the last order failed"));
        let (state, text) = of(None, &failed, DAY);
        assert!(state == State::Fail && text.contains("has not issued one yet") && text.contains("no route"));
        assert!(of(None, &OrderHistory::default(), DAY).1.contains("start the gateway"));
    }
}
