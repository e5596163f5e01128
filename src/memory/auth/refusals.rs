//! Why a client is no one that the gateway serves, as it reads it. Not who it is (`mod`), nor what it may do.

use super::jwt::TokenRefusal;
use super::service_keys::IdentityRefusal;
use super::stored_keys::KeyRefusal;
use words::error::Error;

/// Its signature is good: what it says of its holder is no secret to whoever sends it.
const BAD_ROLE: &str = "The role of the token is no text. The roles are owner, admin, manager and member; another text counts as member.";

pub(super) fn no_key() -> Error {
    let message = "No service key. Send it in x-gateway-api-key, as the bearer in Authorization, or where your client \
                   library puts its key (x-api-key, api-key, x-goog-api-key). Error Code: 03";
    Error::unauthorized(message).with_param("x-gateway-api-key")
}

pub(super) fn key_in_query() -> Error {
    let message = "A key in the query is not read here: send it in x-gateway-api-key, or as the bearer in Authorization. Error Code: 03";
    Error::unauthorized(message).with_param("x-gateway-api-key")
}

pub(super) fn refused(refusal: &IdentityRefusal, place: &str) -> Error {
    match refusal {
        IdentityRefusal::Key(KeyRefusal::Unknown) => unknown_key(place),
        IdentityRefusal::Key(KeyRefusal::Expired(end)) => {
            Error::key_expired(&end.to_string()).with_param(place)
        }
        IdentityRefusal::Token(TokenRefusal::Expired) => {
            Error::token_expired(TokenRefusal::Expired.code()).with_param(place)
        }
        IdentityRefusal::Token(TokenRefusal::Role) => {
            Error { message: BAD_ROLE.into(), ..Error::bad_token(TokenRefusal::Role.code()) }
                .with_param(place)
        }
        IdentityRefusal::Token(refusal) => Error::bad_token(refusal.code()).with_param(place),
    }
}

pub(super) fn unknown_key(place: &str) -> Error {
    // LiteLLM recognizes an authentication error by OpenAI's words, not by status or code.
    let message = format!(
        "Unknown service key in {place}. Incorrect API key provided: send one of the keys the operator gave out. Error Code: 03"
    );
    Error::unauthorized(message).with_param(place)
}
