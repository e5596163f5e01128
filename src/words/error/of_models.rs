//! The errors about the model, or the earlier response, that a request names.

use super::{Error, Kind};

/// How much of a name that nobody knows is repeated, in bytes: a client may send one of megabytes.
const MAX_SHOWN: usize = 256;

impl Error {
    /// 412: the operator has not allowed this model for the integration that `slug` uses.
    pub fn model_not_allowed(model: &str, slug: &str) -> Self {
        let message = format!(
            "Model {model} is not allowed for this integration (@{slug}). Ask the operator to enable it, or use another model."
        );
        Self::new(Kind::ModelNotAllowed, message).with_param("model")
    }

    /// 403: the client may not use this model. `why`: a sentence.
    pub fn model_forbidden(why: impl Into<String>) -> Self {
        Self::new(Kind::ModelForbidden, why).with_param("model")
    }

    /// 404: the name means no model here. `near`: names that the client may use and might have meant.
    pub fn model_not_found(name: &str, near: &[String]) -> Self {
        let hint = match near {
            [] => String::new(),
            [one] => format!(" Did you mean {one}?"),
            [before @ .., last] => format!(" Did you mean {} or {last}?", before.join(", ")),
        };
        let clipped = name.get(..name.floor_char_boundary(MAX_SHOWN)).unwrap_or_default();
        let message = format!(
            "There is no model {clipped:?} here.{hint} GET /v1/models lists the names that work; @slug/model names a model of a stored \
             provider, and x-gateway-provider or x-gateway-config a provider for any model."
        );
        Self::new(Kind::ModelNotFound, message).with_param("model").with_unknown_name(clipped)
    }

    /// 400: neither the connection nor the provider has the response that the request goes on from.
    pub fn previous_response_not_found(id: &str) -> Self {
        let clipped = id.get(..id.floor_char_boundary(MAX_SHOWN)).unwrap_or_default();
        let message = format!(
            "Previous response with id '{clipped}' not found. Send the whole conversation in input, without previous_response_id."
        );
        Self::new(Kind::PreviousResponseNotFound, message).with_param("previous_response_id")
    }
}
