//! A Pingora session as the engine's downstream: the one file that writes to a session.
//!
//! Not what is written, and not the control plane's responses (`net::axum_bridge` has a session of its own).

use crate::engine::downstream::Downstream;
use crate::engine::failure;
use crate::error::Error;
use bytes::Bytes;
use http::header;
use pingora::http::RequestHeader;
use pingora_core::ErrorType;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use std::net::IpAddr;

/// See the module.
pub(super) struct PingoraDownstream<'a> {
    session: &'a mut Session,
}

impl<'a> PingoraDownstream<'a> {
    pub fn new(session: &'a mut Session) -> Self {
        Self { session }
    }

    /// Makes a client that waits with `Expect: 100-continue` send its body: the provider never sees that header.
    ///
    /// # Errors
    /// The client has gone away.
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
                // Where the body ends is unknown now: what follows must not be taken for a request.
                self.session.set_keepalive(None);
                Err(failure::translate(&error.into_down(), None))
            }
        }
    }

    async fn closed(&mut self) {
        match self.session.downstream_session.read_body_or_idle(true).await {
            // Nothing more can come.
            Ok(_) => std::future::pending::<()>().await,
            // Pingora's error for a client that sends more, perhaps its next request: it is still there and gets this
            // response; the next one cannot be told from what was lost.
            Err(error) if *error.etype() == ErrorType::ConnectError => {
                self.session.set_keepalive(None);
                std::future::pending::<()>().await;
            }
            Err(_) => {}
        }
    }

    async fn send(&mut self, parts: Vec<HttpTask>) -> Result<(), Error> {
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
