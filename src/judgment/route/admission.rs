//! Decides step by step whether a request is admitted: who sent it, what it requests, how its body must be read, and
//! which config applies. Every rejection of a request that is well-formed HTTP is made here.
//!
//! Pure, and used twice: by the data port, which reads bodies from a connection, and by `explain`, whose own request
//! contains them; so both reject the same requests with the same messages. The steps, in the order they must be
//! taken: [`RequestHead::new`], [`RequestHead::client`], [`RequestHead::check_origin`], [`RequestHead::plane`],
//! [`RequestHead::check_scope`], [`BodyReading::parse`], [`GatewayHeaders::read`], [`compile`] or the config cache, [`Request::check`].
//!
//! Not here: the choice of a target (`plan`), and what needs a connection, such as the limits on the size of the head
//! and on time.
//!
//! `tests/admission.rs` compares the two.

mod body_reading;
mod endpoint;
mod form_model;
mod key_places;
pub mod key_rules;
pub mod meant;
mod model_query;
mod origin;
mod own_files;
mod own_tools;
mod provider_tokens;
mod realtime_paths;
mod responses_socket;
#[cfg(test)]
mod tests;

use body_reading::content_length;
pub use body_reading::{BodyContent, BodyReading, is_sent_with_body};
pub use endpoint::{Endpoint, PathForm, allowed_methods};
pub use form_model::FormModel;
pub use model_query::ModelQuery;
pub use own_files::{NamedObject, batch_provider, creates_own, depends_on_provider, object_id};
pub use own_tools::mcp_entries;
pub use realtime_paths::TokenShape;

use endpoint::takes;
use provider_tokens::TokenPath;
use realtime_paths::RealtimePath;

use http::header::UPGRADE;
use http::{HeaderMap, Method, Uri};
use jiff::Timestamp;
use memory::auth::{self, ClientIdentity};
use memory::net::inbound::control_paths::ControlPaths;
use memory::state::snapshot::SettingsSnapshot;
use std::sync::Arc;
use words::api::connection_header;
use words::api::operation::Operation;
use words::error::Error;
use words::settings::scopes::Scope;

#[cfg(doc)]
use super::{attempt::Request, compile::compile};
#[cfg(doc)]
use words::config::headers::GatewayHeaders;

/// A request without its body, and the settings it is checked against.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    pub endpoint: Endpoint,
    snapshot: &'a SettingsSnapshot,
    control_paths: &'a ControlPaths,
}

/// The plane that handles a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plane {
    Control,
    /// The gateway itself answers, with its list of models.
    Models(ModelQuery),
    /// The gateway itself responds to OPTIONS.
    Options,
    /// The gateway itself responds, with its own files and batches.
    Files,
    /// The gateway itself is the other end of the websocket; each event on it that asks for a response is a request of its own.
    ResponsesSocket,
    /// The gateway itself makes a token of a realtime session.
    SessionToken {
        body: BodyReading,
        shape: TokenShape,
    },
    /// `body`: how the body must be read; `None` if it streams through unread.
    Data {
        body: Option<BodyReading>,
    },
    /// The gateway itself responds, as an MCP server. `server`: the only one that is meant.
    Mcp {
        body: BodyReading,
        server: Option<String>,
    },
}

impl<'a> RequestHead<'a> {
    pub fn new(
        method: &'a Method,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        snapshot: &'a SettingsSnapshot,
        control_paths: &'a ControlPaths,
    ) -> Self {
        let endpoint = Endpoint::find(method, uri.path()).with_query(uri.query());
        let endpoint = endpoint.for_client(method, uri.path(), headers);
        Self { method, uri, headers, endpoint, snapshot, control_paths }
    }

    /// The client that sent the request. The open paths of the control plane need no key, nor does OPTIONS: browsers send
    /// none with it, and it calls nothing.
    ///
    /// # Errors
    /// 401 when keys are demanded and the request has none that is good.
    pub fn client(&self, now: Timestamp) -> Result<Arc<ClientIdentity>, Error> {
        let keys = &self.snapshot.service_keys;
        if *self.method == Method::OPTIONS {
            return Ok(keys.anonymous());
        }
        if self.endpoint.operation == Operation::Realtime {
            let found = auth::authenticate_session(self.headers, self.uri, keys, now, false);
            return found.map(|(client, _)| client);
        }
        let client = auth::authenticate(self.headers, self.uri, keys, now);
        match client {
            // The control plane judges its own clients.
            Err(_) if self.is_for_control() => Ok(keys.anonymous()),
            client => client,
        }
    }

    /// Whether `client` may have this of the data plane. The control plane checks its own routes.
    ///
    /// # Errors
    /// 403 without the scope.
    pub fn check_scope(&self, plane: &Plane, client: &ClientIdentity) -> Result<(), Error> {
        match plane {
            Plane::Control | Plane::Options => Ok(()),
            Plane::Mcp { .. } => client.require(Scope::McpInvoke),
            Plane::Models(_) if client.scopes.contains(Scope::VirtualKeysList) => Ok(()),
            Plane::Models(_)
            | Plane::Files
            | Plane::ResponsesSocket
            | Plane::SessionToken { .. }
            | Plane::Data { .. } => client.require(Scope::CompletionsWrite),
        }
    }

    /// Whether the control plane responds. The path of an operation is in its table as it is written, and no control path is.
    fn is_for_control(&self) -> bool {
        self.endpoint.operation == Operation::Passthrough && self.is_control_path()
    }

    /// Whether the control plane owns the path, also where a client made for Azure has it below another prefix.
    fn is_control_path(&self) -> bool {
        let path = self.uri.path();
        let below = path.get(self.endpoint.path_offset..).unwrap_or_default();
        let is_azure = self.endpoint.form == PathForm::Azure;
        self.control_paths.owns(path) || (is_azure && self.control_paths.owns(&format!("/v1/{below}")))
    }

    /// Whether a token of a realtime session is asked for.
    ///
    /// # Errors
    /// 403 for what would flow beside the gateway, and for what opens a way beside it.
    fn token_shape(&self) -> Result<Option<TokenShape>, Error> {
        if let Some(TokenPath { vendor, makes, .. }) = TokenPath::find(self.uri.path()) {
            return Err(Error::forbidden(format!(
                "{vendor} makes {makes} at such a path, for whoever has its operator's key. What is made there would be used beside the \
                 gateway, where no limit counts it, so the path is not passed on."
            )));
        }
        match RealtimePath::find(self.method, self.uri.path(), &self.endpoint) {
            Some(RealtimePath::Token(shape)) => Ok(Some(shape)),
            Some(RealtimePath::ProviderToken) => Err(Error::forbidden(
                "A provider's own token would open sessions that the gateway does not see. POST /v1/realtime/client_secrets makes one of \
                 the gateway, for the websocket /v1/realtime.",
            )),
            Some(RealtimePath::Media) if !self.snapshot.settings.realtime.webrtc => Err(Error::forbidden(
                "Realtime sessions by WebRTC and SIP are not passed on: their media and events flow beside the gateway, where no limit \
                 counts them. Use the websocket /v1/realtime, or have the operator set realtime.webrtc.",
            )),
            Some(RealtimePath::OtherSocket) if self.headers.contains_key(UPGRADE) => Err(Error::forbidden(
                "The websocket of the realtime API is at /v1/realtime: elsewhere its turns would pass without limits.",
            )),
            Some(RealtimePath::Media | RealtimePath::OtherSocket) | None => Ok(None),
        }
    }

    /// # Errors
    /// 413 for a body that is too long.
    fn mcp(&self) -> Result<Plane, Error> {
        let limit = self.snapshot.settings.limits.max_body_bytes;
        let body =
            BodyReading { limit, length: content_length(self.headers), content: BodyContent::JsonObject };
        body.check_size(body.length.unwrap_or_default())?;
        let below = self.uri.path().get(self.endpoint.path_offset..).unwrap_or_default();
        let server = below.split_once('/').map(|(_, slug)| slug.to_owned()).filter(|slug| !slug.is_empty());
        Ok(Plane::Mcp { body, server })
    }

    /// The plane that handles the request, and how the body must be read. Call it only for authenticated clients.
    ///
    /// # Errors
    /// 404 and 405 for paths and methods that no plane handles, 400 for a `Connection` header that names a forbidden
    /// header, and the errors of the body that the headers already show.
    pub fn plane(&self, client: &ClientIdentity) -> Result<Plane, Error> {
        let path = self.uri.path();
        if self.is_for_control() {
            return Ok(Plane::Control);
        }
        let is_options = *self.method == Method::OPTIONS;
        // What load balancers send, and the request-target of the server as a whole.
        if is_options && matches!(path, "*" | "/" | "") {
            return Ok(Plane::Options);
        }
        if self.endpoint.path_offset == path.len() {
            return Err(Error::not_found(format!(
                "There is nothing at {path}. The API is below /v1, for example /v1/chat/completions."
            )));
        }
        if is_options {
            return Ok(Plane::Options);
        }
        if self.endpoint.operation == Operation::Mcp && *self.method != Method::POST {
            // The stateless era has no other, and the one before it allows servers to have no stream and no end of a session.
            let method = self.method;
            return Err(Error::method_not_allowed(format!("{method} is not for {path}, which takes POST.")));
        }
        if !takes(self.method, path, &self.endpoint) {
            let method = self.method;
            let allowed = allowed_methods(path);
            return Err(Error::method_not_allowed(format!(
                "{method} is not passed on to {path}, which takes {allowed}."
            )));
        }
        connection_header::check(self.headers)?;
        key_places::check(self)?;
        if self.endpoint.operation == Operation::Mcp {
            return self.mcp();
        }
        if responses_socket::is_requested(self) {
            return Ok(Plane::ResponsesSocket);
        }
        if let Some(shape) = self.token_shape()? {
            let content = BodyContent::JsonObject;
            let length = content_length(self.headers);
            let body = BodyReading { limit: self.snapshot.settings.limits.max_body_bytes, length, content };
            return Ok(Plane::SessionToken { body, shape });
        }
        if let Some(query) = ModelQuery::find(self, client)? {
            return Ok(Plane::Models(query));
        }
        if own_files::names_own(self)? {
            return Ok(Plane::Files);
        }
        let limit = self.snapshot.settings.limits.max_body_bytes;
        let body = match form_model::reading(self, client, limit)? {
            Some(form) => Some(form),
            None => BodyReading::find(self, limit)?,
        };
        Ok(Plane::Data { body })
    }
}
