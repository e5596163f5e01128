//! One exchange's connection to a provider, HTTP/1.1 or HTTP/2: the same words for both.
//!
//! Pingora's client sessions speak the versions; here is what a proxy must do around them. Never read and written at
//! once: whoever must do both does it in turns, as Pingora's own loop does.

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery};
use http::{Method, StatusCode, Uri, Version, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::protocols::http::HttpTask;
use pingora_core::protocols::http::v1::client::HttpSession as Http1Session;
use pingora_core::protocols::http::v2::client::Http2Session;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType, OrErr, Result};
use std::time::Duration;

/// A connection that carries one request and its answer.
pub enum Connection {
    H1(Box<Http1Session>),
    H2(Box<Http2Session>),
}

impl Connection {
    pub(super) fn h1(mut session: Http1Session, peer: &HttpPeer) -> Self {
        session.write_timeout = peer.options.write_timeout;
        Self::H1(Box::new(session))
    }

    pub(super) fn h2(mut session: Http2Session, peer: &HttpPeer) -> Self {
        session.write_timeout = peer.options.write_timeout;
        Self::H2(Box::new(session))
    }

    /// The longest silence while an answer is awaited or read. None unless this is called.
    pub fn set_read_timeout(&mut self, limit: Option<Duration>) {
        match self {
            Self::H1(session) => session.read_timeout = limit,
            Self::H2(session) => session.read_timeout = limit,
        }
    }

    /// Sends a head as for HTTP/1.1, with `Host` and a path. `over`: no body follows.
    ///
    /// # Errors
    /// The connection's, or a head that cannot be sent.
    pub async fn send_head(&mut self, mut head: Box<RequestHeader>, over: bool, tls: bool) -> Result<()> {
        match self {
            Self::H1(session) => {
                head.set_version(Version::HTTP_11);
                session.write_request_header(head).await?;
            }
            Self::H2(session) => {
                head.set_version(Version::HTTP_2);
                head.remove_header(&header::TRANSFER_ENCODING);
                let host = head.remove_header(&header::HOST);
                let host = host.ok_or_else(|| Error::explain(ErrorType::InvalidHTTPHeader, "no host"))?;
                head.set_uri(absolute(&head.uri, host.as_bytes(), tls)?);
                session.write_request_header(head, over)?;
            }
        }
        Ok(())
    }

    /// Sends a piece of the body, which may be empty.
    ///
    /// # Errors
    /// The connection's.
    pub async fn send_body(&mut self, chunk: Option<Bytes>, end: bool) -> Result<()> {
        // A chunk without bytes would be the last one.
        let chunk = chunk.filter(|chunk| !chunk.is_empty());
        match self {
            Self::H1(session) => {
                if let Some(chunk) = chunk {
                    session.write_body(&chunk).await?;
                }
                if end {
                    session.finish_body().await?;
                }
            }
            Self::H2(session) => match (chunk, end) {
                (Some(chunk), end) => session.write_request_body(chunk, end).await?,
                (None, true) => session.finish_request_body()?,
                (None, false) => {}
            },
        }
        Ok(())
    }

    /// The next piece of the answer, its head as for HTTP/1.1. May be dropped while it waits, and called again.
    ///
    /// # Errors
    /// The connection's, or an answer that is none.
    pub async fn piece(&mut self) -> Result<HttpTask> {
        let mut piece = match self {
            Self::H1(session) => session.read_response_task().await?,
            Self::H2(session) => h2_piece(session).await?,
        };
        if let HttpTask::Header(head, over) = &mut piece {
            as_http11(head, *over)?;
        }
        Ok(piece)
    }
}

async fn h2_piece(session: &mut Http2Session) -> Result<HttpTask> {
    if session.response_header().is_none() {
        session.read_response_header().await?;
        let over = session.check_response_end_or_error()?;
        let head = session.response_header().cloned();
        let head = head.ok_or_else(|| Error::explain(ErrorType::InvalidH2, "no head was read"))?;
        let asked = session.request_header().map(|head| &head.method);
        if over && asked != Some(&Method::HEAD) && promises_body(&head) {
            return Err(Error::explain(ErrorType::H2Error, "the body that was promised is missing"));
        }
        return Ok(HttpTask::Header(Box::new(head), over));
    }
    loop {
        let Some(chunk) = session.read_response_body().await? else { return Ok(HttpTask::Done) };
        let over = session.check_response_end_or_error()?;
        if over || !chunk.is_empty() {
            return Ok(HttpTask::Body(Some(chunk), over));
        }
    }
}

/// An answer's head as HTTP/1.1 has it: a body whose end is told by the connection, or by HTTP/2, goes on in chunks.
fn as_http11(head: &mut ResponseHeader, over: bool) -> Result<()> {
    head.set_version(Version::HTTP_11);
    let has_body = !over
        && !head.status.is_informational()
        && !matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let is_framed = head.headers.contains_key(header::CONTENT_LENGTH)
        || head.headers.contains_key(header::TRANSFER_ENCODING);
    if has_body && !is_framed {
        head.insert_header(header::TRANSFER_ENCODING, "chunked")?;
    }
    Ok(())
}

/// The h2 crate does not look when the head is all there is.
fn promises_body(head: &ResponseHeader) -> bool {
    let none = matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = head.headers.get(header::CONTENT_LENGTH);
    !none && length.is_some_and(|length| length.as_bytes().iter().any(|digit| *digit != b'0'))
}

/// HTTP/2 puts the host into the address.
fn absolute(uri: &Uri, host: &[u8], tls: bool) -> Result<Uri> {
    let authority = Authority::try_from(host).or_err(ErrorType::InvalidHTTPHeader, "unusable host")?;
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let uri =
        Uri::builder().scheme(if tls { "https" } else { "http" }).authority(authority).path_and_query(path);
    uri.build().or_err(ErrorType::InvalidHTTPHeader, "unusable address")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, name: &'static str) -> ResponseHeader {
        let mut head = ResponseHeader::build(status, None).unwrap();
        head.set_version(Version::HTTP_2);
        if !name.is_empty() {
            head.insert_header(name, "1").unwrap();
        }
        head
    }

    #[test]
    fn a_body_whose_end_nothing_tells_goes_on_in_chunks() {
        for (status, name, over, chunked) in [
            (200, "", false, true),
            (500, "", false, true),
            (200, "content-length", false, false),
            (200, "transfer-encoding", false, false),
            (200, "", true, false),
            (204, "", false, false),
            (304, "", false, false),
            (103, "", false, false),
        ] {
            let mut head = head(status, name);
            as_http11(&mut head, over).unwrap();
            let told = head.headers.get(header::TRANSFER_ENCODING).is_some_and(|value| value == "chunked");
            assert_eq!((told, head.version), (chunked, Version::HTTP_11), "{status} {name} {over}");
        }
    }

    #[test]
    fn a_promised_body_is_missed() {
        assert!(promises_body(&head(200, "content-length")));
        assert!(!promises_body(&head(304, "content-length")));
        assert!(!promises_body(&head(200, "")));
        let mut none = head(200, "");
        none.insert_header("content-length", "00").unwrap();
        assert!(!promises_body(&none));
    }

    #[test]
    fn http2_has_the_host_in_the_address() {
        let path = Uri::from_static("/v1/chat?a=b");
        assert_eq!(absolute(&path, b"a.example:8443", true).unwrap(), "https://a.example:8443/v1/chat?a=b");
        assert_eq!(absolute(&Uri::from_static("*"), b"a", false).unwrap().path(), "*");
        assert!(absolute(&path, b"a b", true).is_err());
    }
}
