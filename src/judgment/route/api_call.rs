//! An attempt at a tool that is an operation of an API: its message becomes the HTTP request of the operation.
//!
//! Made of what hooks have left of the message, so that what they have taken out is not sent. An attempt at anything else stays as it is.

use super::attempt::Attempt;
use bytes::Bytes;
use words::api::body::Body;
use words::api::openapi::tool::ApiRequest;
use words::error::Error;
use words::json::Json;

/// The arguments of a call of a tool. `message`: of JSON-RPC.
fn arguments(message: &Body) -> Option<Json<'_>> {
    let params = Json::members(message.raw("params")?)?;
    params.into_iter().find(|(name, _)| name == "arguments").map(|(_, json)| json)
}

impl Attempt {
    /// # Errors
    /// 400 for arguments that do not fit.
    pub(super) fn into_api_call(mut self, message: Option<&Body>) -> Result<Self, Error> {
        let Some(tool) = &self.target.api else { return Ok(self) };
        let request = tool.request_of(message.and_then(arguments).as_ref());
        let ApiRequest { method, path, headers, body } =
            request.map_err(|why| Error::invalid_request("params.arguments", why))?;
        self.method = method;
        self.path = [self.target.origin.base_path.as_str(), path.as_str()].concat();
        self.body = body.map(Bytes::from);
        for (name, value) in &headers {
            self.vendor_headers.set(name.clone(), value.clone());
        }
        Ok(self)
    }
}
