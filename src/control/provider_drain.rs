//! `POST /v1/providers/{slug}/drain`: takes a provider out of the choice for a while, or puts it back.
//!
//! In the memory of this process alone. Not here: what a plan makes of it (`route`).

use super::call::Call;
use super::field::{Field, Type, optional, required};
use super::page;
use super::reply::Reply;
use super::route::{Access, Route, Shape, post};
use memory::store::Kind;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

/// The longest time, seconds: 30 days.
const MAX_SECONDS: i64 = 30 * 86_400;

const BODY: &[Field] = &[
    optional("drained", Type::Flag, "Whether it gets no new attempts; true by default."),
    optional(
        "for_seconds",
        Type::Integer(1, MAX_SECONDS),
        "How long. Until it is ended, or the process ends, where absent.",
    ),
    optional(
        "warm_seconds",
        Type::Integer(0, MAX_SECONDS),
        "How long it then takes few attempts and more and more, until it takes all of its turns; 0 where absent. With `drained: false` it begins \
         at once, also for one that was not drained.",
    ),
];

const DRAINED: &[Field] = &[
    required("drained", Type::Flag, "Whether it gets no new attempts now."),
    required("was_drained", Type::Flag, "Whether it got none before."),
    required("slug", Type::Text(255), "The provider."),
    required("object", Type::Text(20), "`provider-drain`."),
];

pub(super) const ROUTES: &[Route] = &[post(
    "/v1/providers/{slug}/drain",
    Access::Scope(&[Scope::ProvidersUpdate]),
    "Takes a provider out of the choice of targets, or puts it back, at once or little by little",
    |call| Box::pin(drain(call)),
)
.body(BODY)
.query(page::IN_WORKSPACE)
.replies(Shape::Object(DRAINED))
.changes("providers", "drain")
.of_process()
.on_control_port_only()];

async fn drain(mut call: Call) -> Result<Reply, Error> {
    let (record, slug) = provider(&call)?;
    let now = Instant::now();
    let drained = &call.shared.drained_providers;
    let was_drained = drained.get(record, &slug, now).is_some();
    let drains = call.flag("drained").unwrap_or(true);
    let seconds = |name: &str| call.body.get(name).and_then(Value::as_u64).map(Duration::from_secs);
    let warms_for = seconds("warm_seconds").unwrap_or_default();
    let until = if drains { seconds("for_seconds").map(|time| now + time) } else { Some(now) };
    if !drains && warms_for.is_zero() {
        drained.remove(record, &slug, now);
    } else if !drained.insert(record, &slug, until, warms_for, now) {
        return Err(Error::conflict("Too many providers are drained; end one of them first."));
    }
    let what = match (drains, warms_for.is_zero()) {
        (true, _) => "gets no new attempts",
        (false, true) => "gets attempts again",
        (false, false) => "gets attempts again, few at first",
    };
    log::info!(target: "turnpike", "provider {slug} {what}, as the control port says");
    call.record_change().await;
    Ok(Reply::from(
        json!({"drained": drains, "was_drained": was_drained, "slug": slug, "object": "provider-drain"}),
    ))
}

/// The record of the provider that the path names, nil for one of the settings, and its slug.
///
/// # Errors
/// 404 for one that there is not; 403 for one of the settings or of the organisation, where the key is bound to a workspace.
fn provider(call: &Call) -> Result<(Uuid, String), Error> {
    let named = call.named();
    let of_host = |slug: &str| {
        let hosts = call.snapshot.directory(None).hosts(slug);
        hosts.is_some_and(|(hosts, _)| hosts.iter().any(|host| *host.name == *named))
    };
    // One that is gone may still be drained.
    let is_drained = || call.shared.drained_providers.get(Uuid::nil(), named, Instant::now()).is_some();
    let is_host = named.split_once('@').is_some_and(|(slug, _)| of_host(slug) || is_drained());
    if is_host || call.snapshot.settings.providers.contains_key(named) {
        let message = "It is a provider of the settings, which all workspaces use. A key of the organisation drains it.";
        return match call.identity.is_bound {
            true => Err(Error::forbidden(message)),
            false => Ok((Uuid::nil(), call.named().to_owned())),
        };
    }
    let record = call.find(Kind::Provider)?;
    call.check_owner(&record)?;
    Ok((record.id, record.slug.clone().unwrap_or_default()))
}
