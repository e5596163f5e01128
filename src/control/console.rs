//! The console: a page for operators, served below `/console/` at the control port.
//!
//! The page calls the control routes as any client does. Here are its files, the session in which its calls carry a key, and the one
//! route that it needs beyond the API: a chat for the playground, because a page may call only its own origin. What the page shows is not
//! decided here; its sources are in `console/`.

mod chat;
mod ends;
mod files;
mod person;
mod seal;
mod session;
mod sign_in;

use super::reply::Reply;
use super::route::{Access, MaxBody, Route, Shape, delete, get as read, post};
use super::services::Services;
use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
pub(super) use person::Person;
use serde_json::json;
pub(super) use session::SessionWatch;
use session::Sessions;
use std::sync::Arc;
use words::settings::scopes::Scope;

/// What all its paths begin with.
const BELOW: &str = "/console/";

pub(super) const ROUTES: &[Route] = &[
    read(
        session::PATH,
        Access::Open,
        "Says how a session begins: where persons sign in, if anywhere",
        |call| {
            Box::pin(async move {
                let issuer = sign_in::issuer(&call.snapshot);
                Ok(Reply::from(json!({"object": "console-sign-in", "identity_provider": issuer})))
            })
        },
    )
    .of_process()
    .replies(Shape::Object(sign_in::REPLY))
    .on_control_port_only(),
    post(
        session::PATH,
        Access::AnyKey,
        "Begins a session of the console with the key of the call",
        |mut call| {
            Box::pin(async move {
                call.record_change().await;
                Ok(Reply::from(json!({"object": "console-session"})))
            })
        },
    )
    .changes("console-sessions", "create")
    .of_process()
    .replies(Shape::Object(session::REPLY))
    .on_control_port_only(),
    delete(session::PATH, Access::AnyKey, "Ends the session of the console", |call| {
        Box::pin(ends::sign_out(call))
    })
    .changes("console-sessions", "delete")
    .of_process()
    .replies(Shape::Empty)
    .on_control_port_only(),
    post(
        "/v1/console-sessions/end",
        Access::Scope(&[Scope::OrganisationUsersUpdate]),
        "Ends all sessions of the console that a person has begun at the identity provider",
        |call| Box::pin(ends::end_all(call)),
    )
    .body(ends::BODY)
    .changes("console-sessions", "delete")
    .replies(Shape::Object(ends::REPLY))
    .on_control_port_only(),
    post(
        "/console/chat/completions",
        Access::Scope(&[Scope::CompletionsWrite]),
        "Sends a chat as the data port would, for the playground",
        |call| Box::pin(chat::send(call)),
    )
    .query(chat::QUERY)
    .of_members(chat::BODY)
    .takes(MaxBody::Settings)
    .on_control_port_only(),
];

/// Whether a route is there only with the console.
pub(super) fn has(route: &Route) -> bool {
    route.path.starts_with(BELOW)
}

/// Adds the files of the page, and the sessions by which its calls are made.
pub(super) fn attach(router: Router<Services>, services: &Services) -> Router<Services> {
    let sessions = Arc::new(Sessions::new(Arc::clone(&services.shared)));
    let beginning = Arc::clone(&sessions);
    let ending = Arc::clone(&sessions);
    router
        .route("/console", get(files::redirect))
        .route(BELOW, get(files::index))
        .route("/console/{*path}", get(files::file))
        .layer(from_fn_with_state(sessions, session::carry))
        // Behind the layer: they have a cookie of their own.
        .route(sign_in::BEGIN, get(|State(services), request| sign_in::begin(beginning, services, request)))
        .route(sign_in::END, get(|State(services), request| sign_in::end(ending, services, request)))
}
