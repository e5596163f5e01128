//! What an attempt needs before it may leave: a token fetched, a signature made.
//!
//! How both come about is the provider's to say (`Provider::grant`, `Provider::sign`) and `state::grants` to
//! carry out. Fetched is before the attempt leaves; written when its head is otherwise complete.

use super::Gateway;
use super::ctx::{Ctx, Errand};
use crate::error::Error;
use crate::provider::Signing;
use crate::provider::grant::{Credentials, TokenExchange};
use crate::state::Shared;
use crate::state::grants::{Renew, With};
use crate::state::live::Live;
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
pub(super) async fn authorized(
    gateway: &Gateway,
    session: &Session,
    ctx: &Ctx,
    errand: &Errand,
    deadline: Option<Instant>,
) -> Result<(), Error> {
    let attempt = &errand.attempt;
    let leaf = &attempt.leaf;
    if !attempt.is_signed() {
        return Ok(());
    }
    let Some(live) = &ctx.live else { return Err(Error::internal("no settings")) };
    errand.marks.note(|noted| noted.begun = Some(Instant::now()));
    if attempt.body.is_none() && leaf.provider.signs(&leaf.account) && has_body(&session.req_header().headers)
    {
        return Err(Error::bad_request(
            "Requests to this provider are signed with their body, and this one could not be read. Send a \
             JSON object with Content-Type: application/json and a Content-Length.",
        ));
    }
    let Some(grant) = &attempt.grant else { return Ok(()) };
    // Rare and large: every attempt would have room for it.
    let obtained = Box::pin(obtained(&gateway.shared, live, Arc::clone(grant), leaf.by_operator));
    let obtained = match deadline {
        Some(at) => timeout_at(at.into(), obtained).await.unwrap_or_else(|_| {
            let limit = leaf.request_timeout.unwrap_or_default();
            Err(Error::request_timed_out(limit.as_millis() as u64))
        }),
        None => obtained.await,
    };
    let granted = obtained.map_err(|error| error.with_provider(leaf.provider.id()))?;
    errand.marks.note(|noted| noted.granted = Some(granted));
    Ok(())
}

/// Writes what was granted, or a signature, into a head that is otherwise complete.
///
/// # Errors
/// What the provider says about the account.
pub(super) fn sign(method: &Method, headers: &mut HeaderMap, errand: &Errand) -> Result<(), Error> {
    let attempt = &errand.attempt;
    let leaf = &attempt.leaf;
    if !attempt.is_signed() {
        return Ok(());
    }
    let scheme = if leaf.origin.tls { "https" } else { "http" };
    let signing = Signing {
        method,
        url: &format!("{scheme}://{}{}", leaf.origin.authority(), attempt.path),
        body: attempt.body.as_deref().unwrap_or_default(),
        now: SystemTime::now(),
    };
    let granted = errand.marks.read(|noted| noted.granted.clone());
    leaf.provider.sign(&signing, &leaf.account, granted.as_ref(), headers)
}

/// The provider answered 401 or 403: what was granted may be void.
pub(super) fn doubted(gateway: &Gateway, errand: &Errand, status: u16) {
    if let (Some(grant), 401 | 403) = (&errand.attempt.grant, status) {
        gateway.shared.grants.doubt(&**grant, errand.attempt.leaf.by_operator, SystemTime::now());
    }
}

/// From memory, or fetched. What nears its end is renewed behind the caller's back.
async fn obtained(
    shared: &Arc<Shared>,
    live: &Arc<Live>,
    grant: Arc<dyn TokenExchange>,
    by_operator: bool,
) -> Result<Credentials, Error> {
    let with = With { hosts: &live.hosts, dns: &shared.dns, metrics: &shared.metrics, by_operator };
    let (granted, renew) = shared.grants.obtain(&*grant, with, SystemTime::now()).await?;
    if renew == Renew::Yes {
        let (shared, live) = (Arc::clone(shared), Arc::clone(live));
        tokio::spawn(async move {
            let with = With { hosts: &live.hosts, dns: &shared.dns, metrics: &shared.metrics, by_operator };
            shared.grants.renew(&*grant, with, SystemTime::now()).await;
        });
    }
    Ok(granted)
}

fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0")
}
