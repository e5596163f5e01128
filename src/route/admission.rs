//! Whether a request may pass, judged step by step: who sent it, what it asks for, how its body must be read, and
//! which config it goes by. Every refusal of a request that is well-formed HTTP is made here.
//!
//! Pure, and used twice: by the door of the data port, which reads bodies from a connection, and by `explain`, which
//! has them in its question; so both refuse the same requests in the same words. The steps, in the order they must be
//! taken: [`RequestHead::new`], [`RequestHead::client`], [`RequestHead::plane`], [`BodyReading::parse`],
//! [`GatewayHeaders::read`], [`compile`] or the cache of what it made, [`Request::check`].
//!
//! Not the choice of a target (`plan`), and nothing that needs a connection: limits of the head and of time.

mod body_reading;
mod endpoint;
#[cfg(test)]
mod tests;

pub use body_reading::{BodyContent, BodyReading};
pub use endpoint::Endpoint;

use crate::api::connection_header;
use crate::auth::{self, ClientIdentity};
use crate::error::Error;
use crate::net::inbound::control_paths::ControlPaths;
use crate::state::snapshot::SettingsSnapshot;
use http::{HeaderMap, Method, Uri};

#[cfg(doc)]
use super::{attempt::Request, compile::compile};
#[cfg(doc)]
use crate::config::headers::GatewayHeaders;

/// A request without its body, and what it is judged by.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    pub endpoint: Endpoint,
    snapshot: &'a SettingsSnapshot,
    control_paths: &'a ControlPaths,
}

/// Which plane responds to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    Control,
    /// `body`: how it must be read; `None` where it streams through unread.
    Data {
        body: Option<BodyReading>,
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
        let endpoint = Endpoint::find(method, uri.path());
        Self { method, uri, headers, endpoint, snapshot, control_paths }
    }

    /// Who sent it. The open paths of the control plane ask for no key.
    ///
    /// # Errors
    /// 401 when keys are configured and the request has none of them.
    pub fn client(&self) -> Result<ClientIdentity, Error> {
        match self.control_paths.owns_path(self.uri.path()) {
            true => Ok(ClientIdentity::default()),
            false => auth::authenticate(self.headers, &self.snapshot.service_keys),
        }
    }

    /// Which plane responds, and how the body must be read there. Only for clients that are let in.
    ///
    /// # Errors
    /// 404 and 405 for what no plane takes, 400 for a `Connection` that names what it must not; what is wrong
    /// with the body is refused as soon as the headers show it.
    pub fn plane(&self) -> Result<Plane, Error> {
        let path = self.uri.path();
        let below_version = path.strip_prefix("/v1/").unwrap_or_default();
        if self.control_paths.owns_path(path) || self.control_paths.owns_relative(below_version) {
            return Ok(Plane::Control);
        }
        if self.endpoint.path_offset == path.len() {
            return Err(Error::not_found(format!(
                "There is nothing at {path}. The API is below /v1, for example /v1/chat/completions."
            )));
        }
        if !matches!(self.method.as_str(), "GET" | "POST" | "PUT" | "DELETE") {
            return Err(Error::method_not_allowed(format!(
                "{} is not passed on. Use POST, GET, PUT or DELETE.",
                self.method
            )));
        }
        connection_header::check(self.headers)?;
        let limit = self.snapshot.settings.limits.max_body_bytes;
        BodyReading::find(self, limit).map(|body| Plane::Data { body })
    }
}
