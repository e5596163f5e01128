//! Credentials that a provider needs beyond a fixed key: a token fetched before the attempt is sent, or a signature written
//! when its header is otherwise complete.
//!
//! The provider describes both (`Provider::token_exchange`, `Provider::sign`), `state::credentials` carries the exchange
//! out and caches tokens.

use super::attempt::{AttemptCall, Ending, Flow, Layer};
use super::request_context::RequestContext;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use judgment::route::attempt::Attempt;
use judgment::route::deadlines::request_timed_out;
use judgment::route::outcome::Outcome;
use judgment::route::target::Target;
use knowledge::provider::Signing;
use knowledge::provider::token_exchange::{Credentials, TokenExchange};
use memory::state::Shared;
use memory::state::credentials::{FetchContext, Refresh};
use memory::state::snapshot::SettingsSnapshot;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tokio::time::timeout_at;
use words::error::{Error, Kind};

struct CredentialsLayer;

pub(super) fn compile(target: &Target) -> Option<Box<dyn Layer>> {
    target.needs_credentials().then(|| Box::new(CredentialsLayer) as Box<dyn Layer>)
}

impl Layer for CredentialsLayer {
    fn name(&self) -> &'static str {
        "credentials"
    }

    fn applies(&self, call: &AttemptCall<'_>) -> bool {
        call.calls_target() && call.attempt().is_some_and(Attempt::needs_credentials)
    }

    fn is_for_unread(&self, attempt: &Attempt) -> bool {
        attempt.needs_credentials()
    }

    fn open<'a>(&'a self, call: &'a mut AttemptCall<'_>) -> BoxFuture<'a, Flow> {
        Box::pin(async move {
            call.state.sent_at = Some(Instant::now());
            let shared = &call.engine.shared;
            let deadline = call.deadline();
            let Some(attempt) = call.attempt() else { return Flow::Continue };
            let streams_body = attempt.body.is_none() && !call.incoming.is_read;
            let token_exchange = attempt.token_exchange.clone();
            match acquire(shared, call.ctx, streams_body, attempt, deadline).await {
                Ok(credentials) => call.credentials = credentials,
                Err(error) => {
                    let outcome = match error.kind {
                        Kind::RequestTimeout => Outcome::TimedOut,
                        Kind::CredentialsUnavailable | Kind::Unreachable => Outcome::Failed,
                        _ => Outcome::Unsupported(error.status()),
                    };
                    return Flow::Refuse(outcome, error);
                }
            }
            if let Some(token_exchange) = token_exchange {
                let shared = Arc::clone(shared);
                let by_operator = call.next.target.operator_account;
                call.on_end(Box::new(move |ending| {
                    drop_refused(&shared, &*token_exchange, by_operator, ending);
                }));
            }
            Flow::Continue
        })
    }
}

/// Drops a cached token that the provider refused with 401 or 403: it may have been revoked.
fn drop_refused(shared: &Shared, token_exchange: &dyn TokenExchange, by_operator: bool, ending: Ending) {
    if let Ending::Outcome(Outcome::Response { status: 401 | 403, .. }) = ending {
        shared.credentials.invalidate(token_exchange, by_operator, SystemTime::now());
    }
}

/// Fetches what authorizes a request that switches protocols, which Pingora proxies. `has_body`: a body follows.
///
/// # Errors
/// 400 and 401 where the account is at fault, 502 where the token server failed.
pub async fn authorize_upgrade(
    shared: &Arc<Shared>,
    ctx: &mut RequestContext,
    attempt: &mut Attempt,
    has_body: bool,
) -> Result<(), Error> {
    if attempt.needs_credentials() {
        ctx.facts.state.sent_at = Some(Instant::now());
        let credentials = acquire(shared, ctx, has_body, attempt, None).await?;
        attempt.fetched = credentials.map(Box::new);
    }
    Ok(())
}

/// Fetches what an attempt needs to be authorized. `streams_body`: a body follows that was not read; `deadline`: when the
/// attempt's response must have begun.
///
/// # Errors
/// 400 and 401 where the account is at fault, 408 at the deadline, 502 where the token server failed.
async fn acquire(
    shared: &Arc<Shared>,
    ctx: &RequestContext,
    streams_body: bool,
    attempt: &Attempt,
    deadline: Option<Instant>,
) -> Result<Option<Credentials>, Error> {
    let target = &attempt.target;
    if streams_body && target.provider.signs(&target.account) {
        return Err(Error::bad_request(
            "Requests to this provider are signed with their body, and this one could not be read. Send a \
             JSON object with Content-Type: application/json and a Content-Length.",
        ));
    }
    let Some(token_exchange) = &attempt.token_exchange else { return Ok(None) };
    let token_exchange = Arc::clone(token_exchange);
    let fetched = cached_or_fetched(shared, &ctx.snapshot, token_exchange, target.operator_account);
    let fetched = match deadline {
        Some(at) => timeout_at(at.into(), fetched).await.unwrap_or_else(|_| Err(request_timed_out(target))),
        None => fetched.await,
    };
    fetched.map(Some).map_err(|error| error.with_provider(target.provider.id()))
}

/// Writes the credentials, or a signature, into a header that is otherwise complete.
///
/// # Errors
/// As [`knowledge::provider::Provider::sign`].
pub fn sign(
    method: &Method,
    headers: &mut HeaderMap,
    attempt: &Attempt,
    credentials: Option<&Credentials>,
) -> Result<(), Error> {
    let target = &attempt.target;
    if !attempt.needs_credentials() {
        return Ok(());
    }
    let origin = attempt.origin();
    let scheme = if origin.tls { "https" } else { "http" };
    let signing = Signing {
        method,
        url: &format!("{scheme}://{}{}", origin.authority(), attempt.path),
        body: attempt.body.as_deref().unwrap_or_default(),
        now: SystemTime::now(),
    };
    target.provider.sign(&signing, &target.account, credentials, headers)
}

/// From the cache, or fetched. A token that expires soon is used and refreshed in the background.
pub(super) async fn cached_or_fetched(
    shared: &Arc<Shared>,
    snapshot: &Arc<SettingsSnapshot>,
    token_exchange: Arc<dyn TokenExchange>,
    by_operator: bool,
) -> Result<Credentials, Error> {
    let context =
        FetchContext { hosts: &snapshot.hosts, dns: &shared.dns, metrics: &shared.metrics, by_operator };
    let (credentials, refresh) = shared.credentials.get(&*token_exchange, context, SystemTime::now()).await?;
    if refresh == Refresh::Yes {
        let shared = Arc::clone(shared);
        let snapshot = Arc::clone(snapshot);
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
