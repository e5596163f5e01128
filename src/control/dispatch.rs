//! From a row of the route table to an axum handler: authenticates, checks the scope, only then reads the body, reads query and body by
//! their tables, runs the route, and has refused changes written to the audit log.
//!
//! The only place where a control route's caller is judged.

use super::arrival::Arrival;
use super::audit::{self, Trail};
use super::call::{Call, Presented};
use super::console::{Person, SessionWatch};
use super::error;
use super::field::{Field, Type, read_object, read_text};
use super::origin_guard;
use super::reply::Reply;
use super::route::{Access, Body, MaxBody, Route};
use super::routes::Port;
use super::services::Services;
use axum::extract::{ConnectInfo, RawPathParams, Request, State};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, on};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use jiff::Timestamp;
use memory::auth::certificate_keys::key_of_certificate;
use memory::auth::roles::{self, ClientRole};
use memory::auth::{self, ClientIdentity, KeySearch};
use memory::net::inbound::axum_bridge::Departure;
use memory::net::inbound::client_address::client_address;
use memory::net::inbound::client_certificate::ClientCertificate;
use memory::net::inbound::places::Place;
use memory::state::held_bytes::Hold;
use memory::state::refused_calls::Noted;
use memory::state::snapshot::SettingsSnapshot;
use memory::state::{Shared, authentication};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;
use words::config::node::{Node, NodeKind};
use words::config::read::{Problems, nearest};
use words::config::secret::Secret;
use words::error::Error;
use words::json::values;
use words::settings::TrustedProxies;
use words::settings::scopes::Scope;

/// The handler of a route at a port.
pub(super) fn handler(route: &'static Route, port: Port) -> MethodRouter<Services> {
    let filter = match route.method {
        "POST" => MethodFilter::POST,
        "PUT" => MethodFilter::PUT,
        "DELETE" => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    };
    on(filter, move |State(services): State<Services>, params: RawPathParams, request: Request| async move {
        let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        match Box::pin(serve(route, port, services, params, request)).await {
            Ok(reply) => reply.into_response(),
            Err(error) => error::response(error),
        }
    })
}

async fn serve(
    route: &'static Route,
    port: Port,
    Services { shared, limits, engine, planner, work }: Services,
    params: Vec<(String, String)>,
    request: Request,
) -> Result<Reply, Error> {
    let (mut parts, body) = request.into_parts();
    let snapshot = shared.settings_arc();
    let now = Timestamp::now();
    // Clients call the data port under any name, and by their key alone.
    if route.access != Access::Open && port == Port::Control {
        origin_guard::check(&parts, &snapshot.settings.listen.control_names)?;
    }
    present_certificate(&mut parts, &snapshot);
    let search = KeySearch::new(&parts.headers, &parts.uri, &snapshot.service_keys);
    let mut trail = trail(route.change, &parts, &search, &snapshot.settings.listen.trusted_proxies);
    let identity = match authorize(route, &shared, &parts, now).await {
        Ok(identity) => identity,
        Err(unauthorized) => {
            let Unauthorized { identity, error } = *unauthorized;
            return Err(refused(&shared, trail, identity.as_deref(), error, now).await);
        }
    };
    trail.workspace = identity.workspace;
    // Not before the client is known: else anyone could fill the memory, and a thread with reading JSON.
    let ReadBody { bytes, held } = match read_body(route, &shared, &parts.headers, body).await {
        Ok(read) => read,
        Err(error) => return Err(refused(&shared, trail, Some(&identity), error, now).await),
    };
    if route.change.is_some() {
        trail.set_body(&bytes, &search);
    }
    // Read again: the body and an identity provider's keys may have taken a while, and windows of limits are short.
    let now = Timestamp::now();
    let (query, body) = match read_request(route, &parts.uri, &bytes, now) {
        Ok(read) => read,
        Err(error) => return Err(refused(&shared, trail, Some(&identity), error, now).await),
    };
    let place = match work.place(route.work, bound_workspace(&identity)).await {
        Ok(place) => place,
        Err(error) => return Err(refused(&shared, trail, Some(&identity), error, now).await),
    };
    let call = Call {
        presented: presented(&mut parts, &snapshot),
        shared: Arc::clone(&shared),
        limits,
        engine,
        planner,
        snapshot,
        identity: Arc::clone(&identity),
        params,
        query,
        body,
        bytes,
        now,
        trail: trail.clone(),
        answer: Arc::new(Mutex::new(shared.held_bytes.holder())),
        arrival: arrival(&parts, port, &shared),
        departure: parts.extensions.remove::<Departure>(),
        held,
        staged: None,
    };
    match run(route, call, place).await {
        Ok(reply) => Ok(reply),
        Err(error) => Err(refused(&shared, trail, Some(&identity), error, now).await),
    }
}

/// What a request identifies its client by.
fn presented(parts: &mut Parts, snapshot: &SettingsSnapshot) -> Presented {
    let keys = auth::control_keys(&parts.headers, &snapshot.service_keys);
    let keys = keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).map(Secret::new).collect();
    let session = parts.extensions.remove::<SessionWatch>();
    Presented { keys, person: parts.extensions.remove::<Person>(), session }
}

/// How a request came to this port.
fn arrival(parts: &Parts, port: Port, shared: &Shared) -> Arrival {
    let arrival = Arrival::of(&parts.headers, &parts.uri, has_tls(port, shared));
    Arrival { is_at_control_port: port == Port::Control, ..arrival }
}

/// Gives a request the service key that its client's certificate stands for.
pub(super) fn present_certificate(parts: &mut Parts, snapshot: &SettingsSnapshot) {
    let auth = &snapshot.settings.auth;
    let Some(certificate) = parts.extensions.get::<ClientCertificate>() else { return };
    let found = key_of_certificate(certificate, auth, &parts.headers, &parts.uri, &snapshot.service_keys);
    parts.headers.extend(found.map(|(name, value)| (Some(name), value)));
}

/// Who shares the places of work with others: a workspace, or the organisation.
fn bound_workspace(identity: &ClientIdentity) -> Option<Uuid> {
    identity.workspace.filter(|_| identity.is_bound)
}

/// What the audit log is told of a call, as far as its head says it.
pub(super) fn trail(
    change: Option<(&'static str, &'static str)>,
    parts: &Parts,
    search: &KeySearch<'_>,
    trusted: &TrustedProxies,
) -> Trail {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let address = peer.map(|peer| client_address(peer, &parts.headers, trusted).to_string());
    let mut trail = Trail {
        change,
        method: parts.method.as_str().to_owned(),
        request_id: Uuid::now_v7().to_string(),
        client_ip: address.unwrap_or_default(),
        ..Trail::default()
    };
    if change.is_some() {
        trail.set_uri(&parts.uri, search);
        trail.set_headers(&parts.headers, search);
    }
    trail
}

/// Runs a route. What only reads is given up where its client leaves; a change that was begun is finished, so that what is stored is in
/// force. Any other route has the client's departure in its call.
/// `place`: of its work, until it is done.
async fn run(route: &Route, call: Call, place: Option<Place>) -> Result<Reply, Error> {
    let _place = place;
    let departure = call.departure.clone();
    let running = (route.run)(call);
    match departure.filter(|_| route.method == "GET" && route.change.is_none()) {
        None => running.await,
        Some(mut departure) => tokio::select! {
            biased;
            reply = running => reply,
            () = departure.wait() => Err(Error::client_closed()),
        },
    }
}

/// A body, counted for as long as it is used.
struct ReadBody {
    bytes: Bytes,
    held: Hold,
}

/// Reads the body of a route, as far as it takes one.
///
/// # Errors
/// 413 above the route's bound, 408 where it does not arrive in time, 503 where the process holds as much as it may, 400 where it cannot be
/// read.
async fn read_body(
    route: &Route,
    shared: &Shared,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<ReadBody, Error> {
    /// What is made of each value of a JSON body.
    const VALUE_BYTES: usize = 160;
    const MAX_VALUES: usize = usize::MAX / VALUE_BYTES;
    let mut held = shared.held_bytes.holder();
    let mut whole = BytesMut::new();
    // Anyone may call these, and none of them looks at a body.
    if matches!(route.access, Access::Open | Access::Link | Access::Metrics) {
        return Ok(ReadBody { bytes: Bytes::new(), held });
    }
    let limit = route.max_body.bytes(shared.settings().settings.limits.max_body_bytes);
    let too_large = || match route.max_body {
        MaxBody::Settings => Error::body_too_large(limit as u64),
        MaxBody::Small | MaxBody::Large => {
            let message = format!("The request body is over {limit} bytes, the most this route reads.");
            Error { message, ..Error::body_too_large(limit as u64) }
        }
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > limit) {
        return Err(too_large());
    }
    let mut body = body.into_data_stream();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|why| unread(&why))?;
        let size = whole.len() + piece.len();
        if size > limit {
            return Err(too_large());
        }
        held.set(2 * size)?;
        whole.extend_from_slice(&piece);
    }
    let bytes = whole.freeze();
    held.set(3 * bytes.len() + values::count(&bytes, MAX_VALUES) * VALUE_BYTES)?;
    Ok(ReadBody { bytes, held })
}

/// Why a body could not be read: what the client is told, so that the audit log says the same.
fn unread(why: &axum::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(why);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<Error>() {
            return error.clone();
        }
        cause = error.source();
    }
    Error::bad_request("The request body could not be read. Send it again.")
}

/// Whether clients of this port connect with TLS.
pub(super) fn has_tls(port: Port, shared: &Shared) -> bool {
    let listen = &shared.settings_arc().settings.listen;
    match port {
        Port::Control => listen.control.tls.is_some(),
        Port::Data => listen.data.iter().all(|listener| listener.tls.is_some()),
    }
}

/// Why a client may not call, and who it is if that is clear: for the audit log.
struct Unauthorized {
    identity: Option<Arc<ClientIdentity>>,
    error: Error,
}

/// Who calls, if it may: with the scopes that are left of its key's by the role of the person it belongs to.
async fn authorize(
    route: &Route,
    shared: &Arc<Shared>,
    parts: &Parts,
    now: Timestamp,
) -> Result<Arc<ClientIdentity>, Box<Unauthorized>> {
    let snapshot = shared.settings_arc();
    let anonymous = || Ok(snapshot.service_keys.anonymous());
    let scopes = match route.access {
        Access::Open | Access::Link => return anonymous(),
        Access::Metrics if snapshot.settings.listen.open_metrics => return anonymous(),
        Access::Metrics => &[Scope::MetricsRead][..],
        Access::AnyKey => &[],
        Access::Scope(scopes) => scopes,
    };
    let identity = match parts.extensions.get::<Person>() {
        Some(person) => person.identify(&snapshot, now),
        None => authentication::authenticate(shared, &parts.headers, &parts.uri, now).await,
    };
    let identity = identity.map_err(|error| Box::new(Unauthorized { identity: None, error }))?;
    let client_role =
        shared.store().map_or(ClientRole::Scopes, |store| roles::client_role(&identity, &store.catalog()));
    if scopes.is_empty() || scopes.iter().any(|scope| roles::may(&identity, &client_role, *scope)) {
        if route.writes() && shared.node.role.is_edge() {
            return Err(Box::new(Unauthorized { identity: Some(identity), error: Error::edge_node() }));
        }
        return Ok(match client_role {
            ClientRole::Scopes => identity,
            _ => {
                let scopes = roles::allowed(&identity, &client_role);
                Arc::new(ClientIdentity { scopes, ..(*identity).clone() })
            }
        });
    }
    let error = refusal(&identity, &client_role, scopes);
    Err(Box::new(Unauthorized { identity: Some(identity), error }))
}

/// Why none of the scopes of a route is there.
fn refusal(identity: &ClientIdentity, client_role: &ClientRole, scopes: &[Scope]) -> Error {
    let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let names = names.join(" or ");
    let has_scope = scopes.iter().any(|scope| identity.scopes.contains(*scope));
    match client_role {
        ClientRole::Person(role, _) if has_scope => Error::forbidden(format!(
            "The key has the scope {names}, and the role of its user in this workspace ({}) does not allow it. Ask an administrator of the \
             workspace.",
            role.as_str()
        )),
        ClientRole::Stranger if has_scope => Error::forbidden(format!(
            "The key has the scope {names}, and its user is no member of this workspace. Ask an administrator of the workspace."
        )),
        _ => Error::missing_scope(&names),
    }
}

/// Has a refused change written to the audit log.
pub(super) async fn refused(
    shared: &Arc<Shared>,
    mut trail: Trail,
    identity: Option<&ClientIdentity>,
    error: Error,
    now: Timestamp,
) -> Error {
    if trail.change.is_none() || trail.is_written || !is_noted(shared, &mut trail, identity) {
        return error;
    }
    if let Some(entry) = trail.entry(identity, error.status(), now) {
        audit::append(shared, entry).await;
    }
    error
}

/// Whether a refused call is written down. Anyone can be refused without a key, as often as they like, and so can whoever has one.
fn is_noted(shared: &Shared, trail: &mut Trail, identity: Option<&ClientIdentity>) -> bool {
    let Some(client) = identity.map(|identity| identity.id.as_deref().unwrap_or_default()) else {
        return shared.unknown_clients.allows(Instant::now());
    };
    match shared.refused_calls.note(client, Instant::now()) {
        Noted::Written { left_out } => {
            trail.left_out = left_out;
            true
        }
        Noted::LeftOut { is_first } => {
            if is_first {
                log::warn!(
                    target: "turnpike::audit",
                    "further refused calls of {client:?} in this minute are left out of the audit log"
                );
            }
            false
        }
    }
}

type QueryAndBody = (Map<String, Value>, Map<String, Value>);

/// The query's parameters and the body's members, or all their problems.
fn read_request(
    route: &Route,
    uri: &http::Uri,
    bytes: &Bytes,
    now: Timestamp,
) -> Result<QueryAndBody, Error> {
    let problems = Problems::default();
    let query = read_query(route, uri, &problems);
    let mut body = match route.body {
        Body::None | Body::Raw(_) => Map::new(),
        Body::Object(fields) => {
            let mut node = match bytes.trim_ascii() {
                b"" => Node { kind: NodeKind::Map(Vec::new()), place: None },
                text => Node::from_json(text).map_err(|why| {
                    Error::bad_request(format!("The request body must be a JSON object: {why}."))
                })?,
            };
            remove_repeats(&mut node, fields, uri.path());
            read_object(fields, &node, "", &problems)
        }
    };
    if let Some(check) = route.check {
        check(&mut body, now, &problems);
    }
    if problems.is_empty() { Ok((query, body)) } else { Err(Error::invalid_body(problems.into_vec())) }
}

/// Removes the members that only repeat a segment of the path: clients of Portkey send `slug`, `userId`, `workspaceId` …
/// in the body as well.
fn remove_repeats(node: &mut Node, fields: &[Field], path: &str) {
    let NodeKind::Map(entries) = &mut node.kind else { return };
    entries.retain(|entry| {
        let is_listed = fields.iter().any(|field| field.name == entry.name);
        let is_repeat =
            matches!(&entry.value.kind, NodeKind::Text(text) if path.split('/').any(|part| part == text.as_str()));
        is_listed || !is_repeat
    });
}

/// Reads the query's parameters by the route's tables. One that is in none of them is ignored, because clients of Portkey add their own,
/// but by lists ([`Route::refuses_others`]), which ignore only those that repeat a segment of the path: the same clients send them twice.
fn read_query(route: &Route, uri: &http::Uri, problems: &Problems) -> Map<String, Value> {
    let query = uri.query().unwrap_or_default();
    let mut read = Map::new();
    let is_sent = |name: &str| url::form_urlencoded::parse(query.as_bytes()).any(|(sent, _)| sent == name);
    for (name, text) in url::form_urlencoded::parse(query.as_bytes()) {
        let Some(field) = route.parameters().find(|field| field.name == name) else {
            let is_repeat = route.path.contains('{') && uri.path().split('/').any(|part| part == text);
            if route.refuses_others() && !is_repeat {
                refuse_parameter(route, &name, problems);
            }
            continue;
        };
        if text.is_empty() && field.may_be_empty() && !matches!(field.of, Type::Switch) {
            continue;
        }
        if route.refuses_others() && read.contains_key(field.name) {
            problems.push(field.name, None, "stands twice");
            continue;
        }
        if let Some(value) = read_text(&field.of, &text, field.name, problems) {
            read.insert(field.name.to_owned(), value);
        }
    }
    for field in route.parameters().filter(|field| field.is_required && !read.contains_key(field.name)) {
        if !is_sent(field.name) {
            problems.push(field.name, None, "is required");
        }
    }
    read
}

/// Adds the problem of a parameter that a list does not have.
fn refuse_parameter(route: &Route, name: &str, problems: &Problems) {
    let names: Vec<&str> = route.parameters().map(|field| field.name).collect();
    // A name may be anything a client has written.
    let at: String = name.chars().take(64).collect();
    problems.push(
        at,
        None,
        match nearest(&names, name) {
            Some(near) => format!("unknown parameter; did you mean {near}?"),
            None => format!("unknown parameter; this list has {}", names.join(", ")),
        },
    );
}

#[cfg(test)]
mod tests {
    use super::super::field::optional;
    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_arrive_is_refused_with_its_clients_status() {
        let reading = async |why: Error| {
            let pieces = futures_util::stream::iter([Ok(Bytes::from_static(b"{")), Err(why)]);
            let mut body = axum::body::Body::from_stream(pieces).into_data_stream();
            assert!(body.next().await.unwrap().is_ok());
            unread(&body.next().await.unwrap().unwrap_err()).status()
        };
        assert_eq!(reading(Error::slow_client("late")).await, 408);
        assert_eq!(reading(Error::body_too_large(1)).await, 413);
        assert_eq!(unread(&axum::Error::new("broken")).status(), 400);
    }

    #[test]
    fn members_that_repeat_the_path_are_ignored_and_others_are_not() {
        const FIELDS: &[Field] = &[optional("name", Type::Text(10), "A name.")];
        let left = |body: &str| {
            let mut node = Node::from_json(body.as_bytes()).unwrap();
            remove_repeats(&mut node, FIELDS, "/v1/admin/workspaces/ws-1/users/u-2");
            node.to_json()
        };
        assert_eq!(left(r#"{"workspaceId":"ws-1","userId":"u-2","name":"u-2"}"#), r#"{"name":"u-2"}"#);
        assert_eq!(
            left(r#"{"userId":"u-3","workspaceId":["ws-1"]}"#),
            r#"{"userId":"u-3","workspaceId":["ws-1"]}"#
        );
    }
}
