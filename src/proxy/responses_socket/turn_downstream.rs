//! The client of one request on a websocket, as the engine sees it: what it is sent goes to the connection in parts.

use bytes::Bytes;
use motion::engine::downstream::Downstream;
use pingora::http::RequestHeader;
use pingora_core::protocols::http::HttpTask;
use std::future::pending;
use std::net::IpAddr;
use tokio::sync::{mpsc, watch};
use words::error::Error;

pub(super) struct TurnDownstream {
    pub request: RequestHeader,
    pub address: Option<IpAddr>,
    pub parts: mpsc::Sender<HttpTask>,
    /// Becomes true when the client leaves.
    pub leaves: watch::Receiver<bool>,
    pub sent_status: Option<u16>,
}

impl Downstream for TurnDownstream {
    fn request(&self) -> &RequestHeader {
        &self.request
    }

    fn peer_address(&self) -> Option<IpAddr> {
        self.address
    }

    fn body_is_complete(&mut self) -> bool {
        true
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(None)
    }

    async fn closed(&mut self) {
        if self.leaves.wait_for(|leaves| *leaves).await.is_err() {
            pending::<()>().await;
        }
    }

    async fn send(&mut self, parts: Vec<HttpTask>) -> Result<(), Error> {
        for part in parts {
            if let HttpTask::Header(header, _) = &part {
                self.sent_status = Some(header.status.as_u16());
            }
            self.parts.send(part).await.map_err(|_| Error::client_closed())?;
        }
        Ok(())
    }

    fn sent_status(&self) -> Option<u16> {
        self.sent_status
    }

    fn close_after_response(&mut self) {}
}
