//! The response to a call as a stream of events: what its server sends meanwhile, then the response.
//!
//! It begins with the first message, so that a call of which nothing but the response comes is answered with one JSON document, and an error
//! with its status. The response itself is sent as any other (`reply`), as the last event.

use crate::proxy::downstream::PingoraDownstream;
use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT;
use motion::engine::downstream::Downstream;
use motion::engine::mcp::McpRelayed;
use motion::engine::request_context::RequestContext;
use motion::engine::response_headers::early_header;
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use tokio::sync::oneshot;
use words::api::mcp::notification::event;
use words::error::Error;

/// Whether a client takes events: it says so by this very type.
pub(super) fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_events = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"));
        let refuses = |part: &str| {
            let Some((name, quality)) = part.split_once('=') else { return false };
            let quality = quality.trim().trim_matches('"').parse::<f32>();
            // What is no number means nothing.
            name.trim().eq_ignore_ascii_case("q") && !quality.is_ok_and(|quality| quality > 0.0)
        };
        is_events && !parts.any(refuses)
    })
}

/// The client of a call, while it is carried out.
pub(super) struct CallStream<'s> {
    session: &'s mut Session,
    /// `None`: the stream has begun.
    header: Option<Box<ResponseHeader>>,
    bytes: u64,
}

impl<'s> CallStream<'s> {
    /// # Errors
    /// No header can be made.
    pub fn new(session: &'s mut Session, ctx: &RequestContext) -> Result<Self, Error> {
        Ok(Self { session, header: Some(Box::new(early_header(ctx)?)), bytes: 0 })
    }

    /// Writes the messages of a call until it has ended. `relayed`: `None` where the client takes none.
    ///
    /// # Errors
    /// The client has left.
    pub async fn forward(
        &mut self,
        mut relayed: Option<McpRelayed>,
        mut ended: oneshot::Receiver<()>,
    ) -> Result<(), Error> {
        loop {
            let message = {
                let mut downstream = PingoraDownstream::new(self.session);
                tokio::select! {
                    biased;
                    Some(message) = next(&mut relayed) => message,
                    _ = &mut ended => break,
                    () = downstream.closed() => return Err(Error::client_closed()),
                }
            };
            self.write(&message).await?;
        }
        while let Some(message) = relayed.as_mut().and_then(McpRelayed::try_next) {
            self.write(&message).await?;
        }
        Ok(())
    }

    async fn write(&mut self, message: &[u8]) -> Result<(), Error> {
        let event = Bytes::from(event(message));
        self.bytes += event.len() as u64;
        let header = self.header.take().map(|header| HttpTask::Header(header, false));
        let parts = header.into_iter().chain([HttpTask::Body(Some(event), false)]).collect();
        PingoraDownstream::new(self.session).send(parts).await
    }

    /// The bytes that were sent, if the stream has begun.
    pub fn begun(&self) -> Option<u64> {
        self.header.is_none().then_some(self.bytes)
    }
}

async fn next(relayed: &mut Option<McpRelayed>) -> Option<Vec<u8>> {
    match relayed {
        Some(relayed) => relayed.next().await,
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_header_decides_who_takes_events() {
        let accepts = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT, value.parse().unwrap());
            }
            accepts_events(&headers)
        };
        assert!(accepts(&["application/json, text/event-stream"]));
        assert!(accepts(&["application/json", "Text/Event-Stream; q=0.5"]));
        for none in [
            "*/*",
            "text/event-stream; q = 0",
            "text/event-stream;Q=\"0\"",
            "text/event-stream;q=NaN",
            "text/event-stream;q=0",
            "text/event-stream-x",
            "text/*",
        ] {
            assert!(!accepts(&[none]), "{none}");
        }
        assert!(!accepts(&[]));
    }
}
