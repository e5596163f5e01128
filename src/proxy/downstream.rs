//! A Pingora session as the engine's downstream. The one file that writes to a session.
//!
//! Does not make responses, and does not send those of the control plane (`net::inbound::axum_bridge`).

use crate::engine::downstream::Downstream;
use crate::engine::failure;
use crate::error::Error;
use bytes::Bytes;
use http::{Method, header};
use pingora::http::RequestHeader;
use pingora_core::ErrorType;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use std::net::IpAddr;

/// The session of one request.
pub(super) struct PingoraDownstream<'a> {
    session: &'a mut Session,
}

impl<'a> PingoraDownstream<'a> {
    pub fn new(session: &'a mut Session) -> Self {
        Self { session }
    }

    /// Sends `100 Continue` to a client that waits for it before it sends its body. The provider never gets the
    /// `Expect` header.
    ///
    /// # Errors
    /// The client has disconnected.
    pub async fn send_continue(&mut self) -> Result<(), Error> {
        if self.session.req_header().headers.contains_key(header::EXPECT) {
            let sent = self.session.downstream_session.write_continue_response().await;
            sent.map_err(|_| Error::client_closed())?;
        }
        Ok(())
    }
}

impl Downstream for PingoraDownstream<'_> {
    fn request(&self) -> &RequestHeader {
        self.session.req_header()
    }

    fn client_address(&self) -> Option<IpAddr> {
        self.session.client_addr()?.as_inet().map(|address| address.ip())
    }

    fn body_is_complete(&mut self) -> bool {
        self.session.is_body_done()
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match self.session.downstream_session.read_request_body().await {
            Ok(chunk) => Ok(chunk),
            Err(error) => {
                // The end of the body is unknown now, so what follows must not be parsed as a request.
                self.session.set_keepalive(None);
                Err(failure::translate(&error.into_down(), None))
            }
        }
    }

    async fn closed(&mut self) {
        match self.session.downstream_session.read_body_or_idle(true).await {
            // Nothing more can arrive.
            Ok(_) => std::future::pending::<()>().await,
            // Pingora's error for a client that sends more bytes, perhaps its next request. The client is still
            // connected and gets this response. The bytes are lost, so the connection cannot be reused.
            Err(error) if *error.etype() == ErrorType::ConnectError => {
                self.session.set_keepalive(None);
                std::future::pending::<()>().await;
            }
            Err(_) => {}
        }
    }

    async fn send(&mut self, mut parts: Vec<HttpTask>) -> Result<(), Error> {
        if self.session.req_header().method == Method::HEAD {
            parts = without_body(parts);
            if parts.is_empty() {
                return Ok(());
            }
        }
        let sent = self.session.write_response_tasks(parts).await;
        sent.map(|_| ()).map_err(|error| failure::translate(&error.into_down(), None))
    }

    fn sent_status(&self) -> Option<u16> {
        self.session.response_written().map(|header| header.status.as_u16())
    }

    fn close_after_response(&mut self) {
        self.session.set_keepalive(None);
    }
}

/// The response to HEAD: its header, and the end.
fn without_body(parts: Vec<HttpTask>) -> Vec<HttpTask> {
    let header = parts.into_iter().filter_map(|part| match part {
        HttpTask::Header(header, _) => Some(HttpTask::Header(header, true)),
        HttpTask::Failed(error) => Some(HttpTask::Failed(error)),
        _ => None,
    });
    header.collect()
}
