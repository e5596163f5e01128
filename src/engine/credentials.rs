//! What an attempt needs before it may leave: a token fetched, a signature made.
//!
//! How both come about is the provider's to say (`Provider::grant`, `Provider::sign`) and `state::grants` to
//! carry out. Fetched is before the attempt leaves; written when its head is otherwise complete.

use super::Engine;
use super::request_context::{AttemptHandle, RequestContext};
use crate::error::Error;
use crate::provider::Signing;
use crate::provider::token_exchange::{Credentials, TokenExchange};
use crate::state::Shared;
use crate::state::credentials::{FetchContext, Refresh};
use crate::state::snapshot::SettingsSnapshot;
use http::{HeaderMap, Method, header};
use pingora_proxy::Session;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tokio::time::timeout_at;

/// Fetches what the attempt needs; nothing, nearly always. `deadline`: when the attempt's answer
/// must have begun.
///
/// # Errors
/// Why the provider cannot be asked: 400 and 401 for the account, 408, 502 for the token server.
pub(crate) async fn acquire_credentials(
    engine: &Engine,
    session: &Session,
    ctx: &RequestContext,
    handle: &AttemptHandle,
    deadline: Option<Instant>,
) -> Result<(), Error> {
    let attempt = &handle.attempt;
    let target = &attempt.target;
    if !attempt.needs_credentials() {
        return Ok(());
    }
    let Some(snapshot) = &ctx.snapshot else { return Err(Error::internal("no settings")) };
    handle.state.update(|state| state.sent_at = Some(Instant::now()));
    if attempt.body.is_none()
        && target.provider.signs(&target.account)
        && has_body(&session.req_header().headers)
    {
        return Err(Error::bad_request(
            "Requests to this provider are signed with their body, and this one could not be read. Send a \
             JSON object with Content-Type: application/json and a Content-Length.",
        ));
    }
    let Some(token_exchange) = &attempt.token_exchange else { return Ok(()) };
    // Rare and large: every attempt would have room for it.
    let fetched = Box::pin(cached_or_fetched(
        &engine.shared,
        snapshot,
        Arc::clone(token_exchange),
        target.operator_account,
    ));
    let fetched = match deadline {
        Some(at) => timeout_at(at.into(), fetched).await.unwrap_or_else(|_| {
            let limit = target.request_timeout.unwrap_or_default();
            Err(Error::request_timed_out(limit.as_millis() as u64))
        }),
        None => fetched.await,
    };
    let credentials = fetched.map_err(|error| error.with_provider(target.provider.id()))?;
    handle.state.update(|state| state.credentials = Some(credentials));
    Ok(())
}

/// Writes what was granted, or a signature, into a head that is otherwise complete.
///
/// # Errors
/// What the provider says about the account.
pub(crate) fn sign(method: &Method, headers: &mut HeaderMap, handle: &AttemptHandle) -> Result<(), Error> {
    let attempt = &handle.attempt;
    let target = &attempt.target;
    if !attempt.needs_credentials() {
        return Ok(());
    }
    let scheme = if target.origin.tls { "https" } else { "http" };
    let signing = Signing {
        method,
        url: &format!("{scheme}://{}{}", target.origin.authority(), attempt.path),
        body: attempt.body.as_deref().unwrap_or_default(),
        now: SystemTime::now(),
    };
    let credentials = handle.state.read(|state| state.credentials.clone());
    target.provider.sign(&signing, &target.account, credentials.as_ref(), headers)
}

/// The provider answered 401 or 403: what was granted may be void.
pub(crate) fn invalidate(engine: &Engine, handle: &AttemptHandle, status: u16) {
    if let (Some(token_exchange), 401 | 403) = (&handle.attempt.token_exchange, status) {
        engine.shared.credentials.invalidate(
            &**token_exchange,
            handle.attempt.target.operator_account,
            SystemTime::now(),
        );
    }
}

/// From memory, or fetched. What nears its end is renewed behind the caller's back.
async fn cached_or_fetched(
    shared: &Arc<Shared>,
    snapshot: &Arc<SettingsSnapshot>,
    token_exchange: Arc<dyn TokenExchange>,
    by_operator: bool,
) -> Result<Credentials, Error> {
    let context =
        FetchContext { hosts: &snapshot.hosts, dns: &shared.dns, metrics: &shared.metrics, by_operator };
    let (credentials, refresh) = shared.credentials.get(&*token_exchange, context, SystemTime::now()).await?;
    if refresh == Refresh::Yes {
        let (shared, snapshot) = (Arc::clone(shared), Arc::clone(snapshot));
        tokio::spawn(async move {
            let context = FetchContext {
                hosts: &snapshot.hosts,
                dns: &shared.dns,
                metrics: &shared.metrics,
                by_operator,
            };
            shared.credentials.refresh(&*token_exchange, context, SystemTime::now()).await;
        });
    }
    Ok(credentials)
}

fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0")
}
