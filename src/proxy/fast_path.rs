//! Calls the hooks of `ProxyHttp` for requests whose response always comes from `request_filter`.
//!
//! Pingora's own loop calls the same hooks in the same order, but its future for each request also has space for
//! everything else it can do (caching, upstreams, retries): some ten thousand bytes that are moved twice for each
//! request, and held while a response is awaited. The first line of a request shows whether it needs that. All other
//! requests, and HTTP/2, go through Pingora's loop.

use super::Gateway;
use super::native;
use bytes::BytesMut;
use http::Method;
use judgment::route::admission::Endpoint;
use judgment::route::request_mode::RequestMode;
use pingora_core::ErrorType;
use pingora_core::protocols::Stream;
use pingora_proxy::{ProxyHttp, Session};
use words::api::operation::BodyKind;
use words::error::Error;

/// Whether the raw head is that of a request whose body is read and whose attempts the engine runs. Not an upgrade.
pub(super) fn applies_to(head: &[u8]) -> bool {
    let Some(target) = head.strip_prefix(b"POST ").filter(|target| target.starts_with(b"/")) else {
        return false;
    };
    let end = memchr::memchr3(b' ', b'?', b'\n', target).unwrap_or(target.len());
    let Some(Ok(path)) = target.get(..end).map(std::str::from_utf8) else { return false };
    let endpoint = Endpoint::find(&Method::POST, path);
    endpoint.mode == RequestMode::Api
        && endpoint.operation.body_kind() == BodyKind::Json
        && !is_upgrade(target)
}

/// Whether one of the lines after the first is an `Upgrade` header.
fn is_upgrade(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).any(|end| {
        matches!(head.get(end + 1), Some(b'u' | b'U'))
            && head.get(end + 1..end + 8).is_some_and(|name| name.eq_ignore_ascii_case(b"upgrade"))
    })
}

/// Calls the hooks for one request. Returns its connection if that can carry another request, and what was read of that
/// one.
pub(super) async fn serve(gateway: &Gateway, mut session: Session) -> Option<(Stream, Option<BytesMut>)> {
    match session.downstream_session.read_request().await {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => {
            if *error.etype() == ErrorType::InvalidHTTPHeader {
                // The same response as Pingora's loop sends.
                let _ = session.downstream_session.respond_error(400).await;
            }
            session.downstream_session.shutdown().await;
            return None;
        }
    }
    let mut ctx = gateway.new_ctx();
    let failed = match gateway.request_filter(&mut session, &mut ctx).await {
        Ok(true) => None,
        Ok(false) => {
            Some(native::fail_request(&mut ctx.request, Error::internal("nobody answered the request")))
        }
        Err(error) => Some(error),
    };
    let may_reuse = match &failed {
        Some(error) => gateway.fail_to_proxy(&mut session, error, &mut ctx).await.can_reuse_downstream,
        None => true,
    };
    gateway.logging(&mut session, failed.as_deref(), &mut ctx).await;
    if !may_reuse {
        return None;
    }
    Some(session.downstream_session.finish().await.ok()??.into_parts())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_selected_by_their_head() {
        for head in [
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n\r\n",
            "POST /v1/embeddings?x=1 HTTP/1.0\r\n\r\n",
            "POST /v1/messages HTTP/1.1\nhost: a\n\n",
            "POST /openai/deployments/d/chat/completions?api-version=2024-10-21 HTTP/1.1\r\n\r\n",
            "POST /v1/audio/speech HTTP/1.1\r\nx-note: upgrade\r\n\r\n",
        ] {
            assert!(applies_to(head.as_bytes()), "{head}");
        }
        for head in [
            "GET /v1/models HTTP/1.1\r\n\r\n",
            "GET /v1/chat/completions HTTP/1.1\r\n\r\n",
            "POST /v1/files HTTP/1.1\r\n\r\n",
            "POST /v1/proxy/chat/completions HTTP/1.1\r\n\r\n",
            "POST /v1/anything HTTP/1.1\r\n\r\n",
            "POST http://host/v1/chat/completions HTTP/1.1\r\n\r\n",
            "POST /v1/chat/completions HTTP/1.1\r\nUPGRADE: websocket\r\n\r\n",
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\n\r\n",
            "\r\nPOST /v1/chat/completions HTTP/1.1\r\n\r\n",
            "",
        ] {
            assert!(!applies_to(head.as_bytes()), "{head}");
        }
    }
}
