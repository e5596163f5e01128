//! The paths of the realtime API besides its websocket: those that hand out tokens, which the gateway makes itself, and those whose media
//! flow beside it.
//!
//! Found in every spelling, at every place: a provider's own token would open sessions that no limit counts.

use super::endpoint::{Endpoint, PathForm};
use super::meant;
use crate::route::request_mode::RequestMode;
use http::Method;
use words::api::operation::Operation;

/// What a request below `realtime/` is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RealtimePath {
    /// It asks for a token of the gateway.
    Token(TokenShape),
    /// It asks for a token of a provider, at a place where the gateway makes none.
    ProviderToken,
    /// WebRTC, SIP, and whatever else is there.
    Media,
    /// The websocket itself at a place where its turns would pass as any bytes.
    OtherSocket,
}

/// Whose words the response to a request for a token has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenShape {
    /// `POST /v1/realtime/client_secrets`.
    ClientSecret,
    /// `POST /v1/realtime/sessions`, the beta.
    Session,
}

/// The last segments of the paths at which providers hand out tokens.
const TOKENS: [&str; 3] = ["client_secrets", "sessions", "transcription_sessions"];

impl RealtimePath {
    /// `None`: it is the websocket at its own path, or not below `realtime/`, nor below `realtimeapi/` as with Azure.
    pub fn find(method: &Method, path: &str, endpoint: &Endpoint) -> Option<Self> {
        let plain = meant::plain_segments(path);
        if plain.ends_with("/realtime") && endpoint.operation != Operation::Realtime {
            return Some(Self::OtherSocket);
        }
        let below = plain.split_once("/realtime/").or_else(|| plain.split_once("/realtimeapi/"))?.1;
        let is_own = *method == Method::POST
            && endpoint.mode == RequestMode::Passthrough
            && matches!(endpoint.form, PathForm::Plain | PathForm::Azure)
            && !plain.contains("/proxy/");
        match below {
            "client_secrets" if is_own => Some(Self::Token(TokenShape::ClientSecret)),
            "sessions" if is_own => Some(Self::Token(TokenShape::Session)),
            _ if below.rsplit('/').next().is_some_and(|last| TOKENS.contains(&last)) => {
                Some(Self::ProviderToken)
            }
            _ => Some(Self::Media),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_reaches_a_token_or_media() {
        let found =
            |method: Method, path: &str| RealtimePath::find(&method, path, &Endpoint::find(&method, path));
        use RealtimePath::{Media, OtherSocket, ProviderToken, Token};
        for (path, wanted) in [
            ("/v1/realtime/client_secrets", Some(Token(TokenShape::ClientSecret))),
            ("/openai/v1/realtime/client_secrets", Some(Token(TokenShape::ClientSecret))),
            ("/v1/realtime/sessions", Some(Token(TokenShape::Session))),
            ("/v1/realtime/transcription_sessions", Some(ProviderToken)),
            ("/v1/realtime/translations/client_secrets", Some(ProviderToken)),
            ("/v1/proxy/v1/realtime/client_secrets", Some(ProviderToken)),
            ("/v1/proxy//Realtime/Sessions/", Some(ProviderToken)),
            ("/v1/x/../realtime%2Fsessions", Some(Token(TokenShape::Session))),
            ("/openai/realtimeapi/sessions", Some(Token(TokenShape::Session))),
            ("/v1/realtime/calls", Some(Media)),
            ("/v1/realtime/calls/rtc_1/accept", Some(Media)),
            ("/v1/proxy/realtime/calls", Some(Media)),
            ("/v1/proxy/v1/REALTIME/calls", Some(Media)),
            ("/v1/realtime", Some(OtherSocket)),
            ("/v1/proxy/v1/Realtime", Some(OtherSocket)),
            ("/v1/chat/completions", None),
            ("/v1/realtimes/calls", None),
        ] {
            assert_eq!(found(Method::POST, path), wanted, "{path}");
        }
        assert_eq!(found(Method::GET, "/v1/realtime/sessions"), Some(ProviderToken));
        for path in ["/v1/realtime", "/v1/proxy/realtime", "/openai/v1/realtime"] {
            assert_eq!(found(Method::GET, path), None, "{path}");
        }
    }
}
