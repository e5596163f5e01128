//! One request as the dialects see it: its parts, its whole body, the model and the script it names.
//!
//! Not for streamed bodies: uploads and unknown paths read those themselves.

use super::reply::{ApiError, Dialect};
use super::script::Script;
use super::state::State;
use bytes::Bytes;
use http::request::Parts;
use serde::Deserialize;

/// What a dialect needs to build its response.
pub(super) struct Call<'a> {
    pub(super) state: &'a State,
    pub(super) parts: &'a Parts,
    pub(super) body: &'a Bytes,
    /// The decoded object id from the path; empty if the path has none.
    pub(super) id: &'a str,
    /// The script of the `x-emulator-script` header.
    pub(super) script: Option<&'a Script>,
}

impl Call<'_> {
    /// Parses the body as `T`.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self, dialect: Dialect) -> Result<T, ApiError> {
        serde_json::from_slice(self.body).map_err(|error| {
            ApiError::bad(format!("We could not parse the JSON body of your request: {error}"))
                .in_dialect(dialect)
        })
    }

    /// The model's name without its script, and the script that applies.
    pub(super) fn model<'m>(
        &self,
        model: Option<&'m str>,
        dialect: Dialect,
    ) -> Result<(&'m str, Script), ApiError> {
        let model = model.filter(|model| !model.is_empty());
        let model = model.ok_or_else(|| ApiError::missing("model").in_dialect(dialect))?;
        let (name, script) = model.split_once('?').unwrap_or((model, ""));
        if name.starts_with("missing-") {
            return Err(ApiError::no_model(name, dialect));
        }
        if let Some(script) = self.script {
            return Ok((name, script.clone()));
        }
        if script.is_empty() {
            return Ok((name, Script::default()));
        }
        let script = Script::parse(script);
        let script = script.map_err(|why| ApiError::invalid("model", why).in_dialect(dialect))?;
        Ok((name, self.state.spend(script)))
    }

    /// The decoded value of a query parameter.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        query(self.parts, name)
    }
}

/// The decoded value of a query parameter.
pub(super) fn query(parts: &Parts, name: &str) -> Option<String> {
    let pairs = url::form_urlencoded::parse(parts.uri.query()?.as_bytes());
    pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
