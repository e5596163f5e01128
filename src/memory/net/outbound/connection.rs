//! The connection of one exchange with a provider: one interface for HTTP/1.1 and HTTP/2.
//!
//! Pingora's client sessions implement the protocols; this file adds what a proxy must do around them. It is never
//! read and written at the same time: a caller that needs both alternates, as Pingora's own loop does.

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

/// A connection that carries one request and its response.
pub enum UpstreamConnection {
    H1(Box<Http1Session>),
    H2(Box<Http2Session>),
}

impl UpstreamConnection {
    pub(super) fn h1(mut session: Http1Session, peer: &HttpPeer) -> Self {
        session.write_timeout = peer.options.write_timeout;
        Self::H1(Box::new(session))
    }

    pub(super) fn h2(mut session: Http2Session, peer: &HttpPeer) -> Self {
        session.write_timeout = peer.options.write_timeout;
        Self::H2(Box::new(session))
    }

    /// Sets the maximum idle time while a response is awaited or read. Without this call there is no limit.
    pub fn set_read_timeout(&mut self, limit: Option<Duration>) {
        match self {
            Self::H1(session) => session.read_timeout = limit,
            Self::H2(session) => session.read_timeout = limit,
        }
    }

    /// Sends a request header in its HTTP/1.1 form, with `Host` and a path. `end_of_stream`: no body follows.
    ///
    /// # Errors
    /// The connection failed, or the header cannot be sent.
    pub async fn send_header(
        &mut self,
        mut header: Box<RequestHeader>,
        end_of_stream: bool,
        tls: bool,
    ) -> Result<()> {
        match self {
            Self::H1(session) => {
                header.set_version(Version::HTTP_11);
                session.write_request_header(header).await?;
            }
            Self::H2(session) => {
                header.set_version(Version::HTTP_2);
                header.remove_header(&header::TRANSFER_ENCODING);
                let host = header.remove_header(&header::HOST);
                let host = host.ok_or_else(|| Error::explain(ErrorType::InvalidHTTPHeader, "no host"))?;
                header.set_uri(absolute_uri(&header.uri, host.as_bytes(), tls)?);
                session.write_request_header(header, end_of_stream)?;
            }
        }
        Ok(())
    }

    /// Sends a chunk of the body, which may be empty. `end`: the body is complete.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn send_body(&mut self, chunk: Option<Bytes>, end: bool) -> Result<()> {
        // In chunked encoding an empty chunk would end the body.
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

    /// The provider has switched protocols: what is sent from now on is no body, and passes as it is.
    pub fn switch_protocols(&mut self) {
        if let Self::H1(session) = self {
            session.maybe_upgrade_body_writer();
        }
    }

    /// Reads the next part of the response; its header is in HTTP/1.1 form. Cancel-safe.
    ///
    /// # Errors
    /// The connection failed, or what arrived is not a valid response.
    pub async fn read_task(&mut self) -> Result<HttpTask> {
        let mut task = match self {
            Self::H1(session) => session.read_response_task().await?,
            Self::H2(session) => read_h2_task(session).await?,
        };
        if let HttpTask::Header(header, end_of_stream) = &mut task {
            as_http11(header, *end_of_stream)?;
        }
        Ok(task)
    }
}

async fn read_h2_task(session: &mut Http2Session) -> Result<HttpTask> {
    if session.response_header().is_none() {
        session.read_response_header().await?;
        let end_of_stream = session.check_response_end_or_error()?;
        let header = session.response_header().cloned();
        let header =
            header.ok_or_else(|| Error::explain(ErrorType::InvalidH2, "no response header was read"))?;
        let request_method = session.request_header().map(|header| &header.method);
        if end_of_stream && request_method != Some(&Method::HEAD) && announces_body(&header) {
            return Err(Error::explain(ErrorType::H2Error, "the announced body is missing"));
        }
        return Ok(HttpTask::Header(Box::new(header), end_of_stream));
    }
    loop {
        let Some(chunk) = session.read_response_body().await? else { return Ok(HttpTask::Done) };
        let end_of_stream = session.check_response_end_or_error()?;
        if end_of_stream || !chunk.is_empty() {
            return Ok(HttpTask::Body(Some(chunk), end_of_stream));
        }
    }
}

/// Brings a response header into HTTP/1.1 form. A body that ends with the connection or with an HTTP/2 stream is
/// forwarded in chunked encoding.
fn as_http11(header: &mut ResponseHeader, end_of_stream: bool) -> Result<()> {
    header.set_version(Version::HTTP_11);
    let has_body = !end_of_stream
        && !header.status.is_informational()
        && !matches!(header.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let is_framed = header.headers.contains_key(header::CONTENT_LENGTH)
        || header.headers.contains_key(header::TRANSFER_ENCODING);
    if has_body && !is_framed {
        header.insert_header(header::TRANSFER_ENCODING, "chunked")?;
    }
    Ok(())
}

/// Whether the header announces a body of at least one byte. The h2 crate does not check this when a response
/// consists of a header only.
fn announces_body(header: &ResponseHeader) -> bool {
    let bodiless = matches!(header.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = header.headers.get(header::CONTENT_LENGTH);
    !bodiless && length.is_some_and(|length| length.as_bytes().iter().any(|digit| *digit != b'0'))
}

/// The request URI for HTTP/2, which carries the host in the URI instead of a `Host` header.
fn absolute_uri(uri: &Uri, host: &[u8], tls: bool) -> Result<Uri> {
    let authority = Authority::try_from(host).or_err(ErrorType::InvalidHTTPHeader, "unusable host")?;
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let uri =
        Uri::builder().scheme(if tls { "https" } else { "http" }).authority(authority).path_and_query(path);
    uri.build().or_err(ErrorType::InvalidHTTPHeader, "unusable address")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response_header(status: u16, name: &'static str) -> ResponseHeader {
        let mut header = ResponseHeader::build(status, None).unwrap();
        header.set_version(Version::HTTP_2);
        if !name.is_empty() {
            header.insert_header(name, "1").unwrap();
        }
        header
    }

    #[test]
    fn a_body_of_unknown_length_is_chunked() {
        for (status, name, end_of_stream, chunked) in [
            (200, "", false, true),
            (500, "", false, true),
            (200, "content-length", false, false),
            (200, "transfer-encoding", false, false),
            (200, "", true, false),
            (204, "", false, false),
            (304, "", false, false),
            (103, "", false, false),
        ] {
            let mut header = response_header(status, name);
            as_http11(&mut header, end_of_stream).unwrap();
            let is_chunked =
                header.headers.get(header::TRANSFER_ENCODING).is_some_and(|value| value == "chunked");
            assert_eq!(
                (is_chunked, header.version),
                (chunked, Version::HTTP_11),
                "{status} {name} {end_of_stream}"
            );
        }
    }

    #[test]
    fn an_announced_body_is_detected() {
        assert!(announces_body(&response_header(200, "content-length")));
        assert!(!announces_body(&response_header(304, "content-length")));
        assert!(!announces_body(&response_header(200, "")));
        let mut none = response_header(200, "");
        none.insert_header("content-length", "00").unwrap();
        assert!(!announces_body(&none));
    }

    #[test]
    fn http2_has_the_host_in_the_address() {
        let path = Uri::from_static("/v1/chat?a=b");
        assert_eq!(
            absolute_uri(&path, b"a.example:8443", true).unwrap(),
            "https://a.example:8443/v1/chat?a=b"
        );
        assert_eq!(absolute_uri(&Uri::from_static("*"), b"a", false).unwrap().path(), "*");
        assert!(absolute_uri(&path, b"a b", true).is_err());
    }
}
