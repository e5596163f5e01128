//! Sign-in of persons at the identity provider of `auth.jwt`: sends the browser there, and begins a session when it comes back.
//!
//! Both are places that a browser goes to, and no routes of the API: what they respond is a redirection, or a page that says why not.
//! Between them the browser keeps what the answer must fit, sealed, in a cookie for ten minutes. Not here: what is sent to the provider and
//! what its answer means (`auth::sign_in_code`, `auth::signed_in`).

use super::super::arrival::Arrival;
use super::super::audit;
use super::super::dispatch::{has_tls, refused, trail};
use super::super::field::{Field, Type, nullable, required};
use super::super::origin_guard;
use super::super::routes::Port;
use super::super::services::Services;
use super::files;
use super::person::Person;
use super::seal::Purpose;
use super::session::{ABSOLUTE, Sessions, cookies};
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use memory::auth::KeySearch;
use memory::auth::sign_in_code::SignInCode;
use memory::auth::signed_in::SignedIn;
use memory::auth::signed_token::TokenRefusal;
use memory::state::Shared;
use memory::state::identity_provider::SignInFailure;
use memory::state::snapshot::SettingsSnapshot;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use url::form_urlencoded;
use words::error::Error;
use words::settings::SignInSettings;

/// Where the page sends the browser.
pub(super) const BEGIN: &str = "/console/sign-in";
/// Where the identity provider sends it back: this address is registered there.
pub(super) const END: &str = "/console/signed-in";

pub(super) const REPLY: &[Field] = &[
    required("object", Type::Text(20), "`console-sign-in`."),
    nullable(
        "identity_provider",
        Type::Text(2048),
        "Its issuer; null where persons sign in with keys and tokens alone.",
    ),
];

/// The cookie of a sign-in that has begun. The browser comes back from another site, so it cannot be `SameSite=Strict`.
const NAME: &str = "__Host-turnpike-sign-in";
/// Seconds that a sign-in may take.
const SECONDS: i64 = 600;
/// The longest address of a page that is gone to after it, bytes.
const MAX_PAGE: usize = 1024;

/// Why a provider refuses a person, as its answer says it (RFC 6749, 4.1.2.1; OpenID Connect Core, 3.1.2.6).
const CODES: [&str; 12] = [
    "access_denied",
    "account_selection_required",
    "consent_required",
    "interaction_required",
    "invalid_request",
    "invalid_scope",
    "login_required",
    "request_not_supported",
    "server_error",
    "temporarily_unavailable",
    "unauthorized_client",
    "unsupported_response_type",
];

/// What the cookie carries.
#[derive(Serialize, Deserialize)]
struct Begun {
    code: SignInCode,
    /// Where the person signs in, and as whose client.
    issuer: String,
    client: String,
    /// The page that is gone to.
    page: String,
    /// Seconds since 1970.
    at: i64,
}

/// The issuer of the identity provider, where persons sign in there.
pub(super) fn issuer(snapshot: &SettingsSnapshot) -> Option<String> {
    snapshot.settings.console.sign_in.as_ref()?;
    Some(snapshot.service_keys.tokens()?.settings().issuer.clone())
}

/// Sends the browser to the identity provider.
pub(super) async fn begin(sessions: Arc<Sessions>, services: Services, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match beginning(&sessions, &services.shared, &parts).await {
        Ok(response) => response,
        Err(error) => {
            note(&services.shared, BEGIN, &error);
            files::message("Not signed in", &error)
        }
    }
}

/// Says in the log why no session has begun: for anybody who comes, and so not for each who comes often.
fn note(shared: &Shared, at: &str, error: &Error) {
    // What the provider was asked for had a place among few.
    let is_rare = at == END && error.cause.is_some();
    if is_rare || shared.unknown_clients.allows(Instant::now()) {
        let cause = error.cause.as_deref().unwrap_or(&error.message);
        log::warn!(target: "turnpike", "console: nobody was signed in at {at}: {cause}");
    }
}

async fn beginning(sessions: &Sessions, shared: &Shared, parts: &Parts) -> Result<Response, Error> {
    let snapshot = shared.settings_arc();
    let client = client(&snapshot)?;
    origin_guard::check(parts, &snapshot.settings.listen.control_names)?;
    // A page of another site begins nothing: whoever clicked there would be signed in here unasked.
    let sites = parts.headers.get_all("sec-fetch-site");
    if sites.iter().any(|site| site != "same-origin" && site != "none") {
        return Err(Error::forbidden("A sign-in begins at the console's own page."));
    }
    let issuer = issuer(&snapshot).unwrap_or_default();
    let provider = shared.identity_provider.document(&issuer, shared).await.map_err(|why| failed(&why))?;
    let base = Arrival::of(&parts.headers, &parts.uri, has_tls(Port::Control, shared)).base;
    if base.is_empty() {
        return Err(Error::bad_request(
            "The request does not tell by which address the browser reached this port: it has no Host.",
        ));
    }
    let no_random = || Error::internal("the system has no random numbers");
    let code = SignInCode::new(format!("{base}{END}")).ok_or_else(no_random)?;
    let location = code.address(&provider, client);
    let begun = Begun {
        code,
        issuer,
        client: client.client_id.clone(),
        page: page(parts),
        at: Timestamp::now().as_second(),
    };
    let plain = serde_json::to_vec(&begun).map_err(|why| Error::internal(why.to_string()))?;
    let text = sessions.seal(Purpose::SignIn, &plain).ok_or_else(no_random)?;
    redirect(&location, &[cookie(&text, SECONDS)])
}

/// Begins a session for the browser that comes back.
pub(super) async fn end(sessions: Arc<Sessions>, services: Services, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if parts.method != Method::GET {
        // A code is good for once.
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let shared = &services.shared;
    let now = Timestamp::now();
    let snapshot = shared.settings_arc();
    let search = KeySearch::new(&parts.headers, &parts.uri, &snapshot.service_keys);
    let change = Some(("console-sessions", "create"));
    let mut trail = trail(change, &parts, &search, &snapshot.settings.listen.trusted_proxies);
    // It has the code.
    trail.query.clear();
    let ended = Box::pin(ending(&sessions, shared, &parts, now)).await;
    let begun = ended.and_then(|(claims, page)| {
        let (person, client) = Person::new(claims, &snapshot, now)?;
        let session = sessions.begin_of(person, now.as_second()).ok_or_else(|| {
            Error::forbidden("What the identity provider says of you is too long for a cookie. Sign in with a service key.")
        })?;
        Ok((client, redirect(&page, &[session, cookie("", 0)])?))
    });
    match begun {
        Ok((client, response)) => {
            trail.workspace = client.workspace;
            if let Some(entry) = trail.entry(Some(&client), response.status().as_u16(), now) {
                audit::append(shared, entry).await;
            }
            response
        }
        Err(error) => {
            note(shared, END, &error);
            let error = refused(shared, trail, None, error, now).await;
            files::message("Not signed in", &error)
        }
    }
}

/// Who comes back, and the page that is gone to.
async fn ending(
    sessions: &Sessions,
    shared: &Shared,
    parts: &Parts,
    now: Timestamp,
) -> Result<(SignedIn, String), Error> {
    let snapshot = shared.settings_arc();
    let client = client(&snapshot)?;
    origin_guard::check(parts, &snapshot.settings.listen.control_names)?;
    let begun = begun(sessions, &parts.headers, now).ok_or_else(|| {
        Error::bad_request(
            "This sign-in took longer than ten minutes, was begun in another browser or another tab, or is over. Begin it again.",
        )
    })?;
    let issuer = issuer(&snapshot).unwrap_or_default();
    if begun.issuer != issuer || begun.client != client.client_id {
        return Err(Error::bad_request(
            "The settings have another identity provider now. Begin the sign-in again.",
        ));
    }
    let answer = Answer::read(parts.uri.query().unwrap_or_default())?;
    if answer.state.as_deref() != Some(&*begun.code.state) {
        return Err(Error::bad_request("This is the answer to another sign-in. Begin it again."));
    }
    let provider = shared.identity_provider.document(&issuer, shared).await.map_err(|why| failed(&why))?;
    if !provider.has_answered(answer.issuer.as_deref(), &issuer) {
        return Err(Error::bad_request(
            "This is the answer of another identity provider. Begin the sign-in again.",
        ));
    }
    let code = answer.code()?;
    if !sessions.is_first(&begun.code.state, now.as_second()) {
        return Err(Error::bad_request("This sign-in is over. Begin it again."));
    }
    let until = now.as_second() + ABSOLUTE;
    let person = shared.identity_provider.person(&code, &begun.code, client, shared, until).await;
    Ok((person.map_err(|why| failed(&why))?, begun.page))
}

/// What the provider has the browser bring back.
struct Answer {
    state: Option<String>,
    issuer: Option<String>,
    error: Option<String>,
    code: Option<String>,
}

impl Answer {
    /// # Errors
    /// 400 for something that is there twice, which is no answer (RFC 6749, 3.1).
    fn read(query: &str) -> Result<Self, Error> {
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        let one = |wanted: &str| {
            let mut found = pairs.iter().filter(|(name, _)| name == wanted);
            let first = found.next().map(|(_, value)| value.to_string()).filter(|value| !value.is_empty());
            match found.next() {
                Some(_) => Err(Error::bad_request(format!(
                    "The answer of the identity provider has {wanted} twice. Begin the sign-in again."
                ))),
                None => Ok(first),
            }
        };
        Ok(Self { state: one("state")?, issuer: one("iss")?, error: one("error")?, code: one("code")? })
    }

    /// # Errors
    /// 403 where the provider has refused the person; 400 without a code.
    fn code(self) -> Result<String, Error> {
        if let Some(error) = &self.error {
            let listed = CODES.iter().find(|code| *code == error);
            let code = listed.copied().unwrap_or("an error of its own");
            return Err(Error::forbidden(format!("The identity provider did not sign you in ({code}).")));
        }
        self.code.ok_or_else(|| Error::bad_request("The answer of the identity provider has no code."))
    }
}

/// What the gateway is at the identity provider.
fn client(snapshot: &SettingsSnapshot) -> Result<&SignInSettings, Error> {
    snapshot.settings.console.sign_in.as_ref().ok_or_else(|| {
        Error::not_found("Persons sign in with a service key here: console.sign_in is not in the settings.")
    })
}

/// The sign-in that this browser has begun, and whose time is not over.
fn begun(sessions: &Sessions, headers: &HeaderMap, now: Timestamp) -> Option<Begun> {
    let plain = cookies(headers, NAME).find_map(|text| sessions.open(Purpose::SignIn, text))?;
    let begun: Begun = serde_json::from_slice(&plain).ok()?;
    let age = now.as_second() - begun.at;
    // The clocks of two gateways may differ by a minute.
    (-60..SECONDS).contains(&age).then_some(begun)
}

/// The page of the console that the browser comes from; no other place.
fn page(parts: &Parts) -> String {
    let query = parts.uri.query().unwrap_or_default();
    let found = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "to");
    let found = found.map(|(_, page)| page.into_owned()).filter(|page| is_page(page));
    found.unwrap_or_else(|| super::BELOW.to_owned())
}

fn is_page(page: &str) -> bool {
    page.starts_with(super::BELOW)
        && page.len() <= MAX_PAGE
        && page.bytes().all(|byte| byte.is_ascii_graphic())
}

fn failed(why: &SignInFailure) -> Error {
    match why {
        SignInFailure::Provider(cause) => Error::unreachable(
            "The identity provider does not respond as it must. The gateway's log says how. Try again, or sign in with a service key.",
            cause,
        ),
        SignInFailure::Token(TokenRefusal::Nonce) => {
            Error::bad_request("The identity provider answers another sign-in. Begin it again.")
                .with_cause(TokenRefusal::Nonce.code())
        }
        SignInFailure::Token(refusal) => Error::forbidden(
            "The identity provider knows you, and what it says of you counts for nothing here. The gateway's log says why: ask its operator.",
        )
        .with_cause(refusal.code()),
        SignInFailure::Busy => Error::store_unavailable("As many sign in at once as may. Try again in a moment."),
    }
}

fn cookie(text: &str, seconds: i64) -> HeaderValue {
    let value = format!("{NAME}={text}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax");
    HeaderValue::try_from(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// `location`: an address of the provider, or a page of the console.
fn redirect(location: &str, cookies: &[HeaderValue]) -> Result<Response, Error> {
    let location = HeaderValue::try_from(location).map_err(|why| Error::internal(why.to_string()))?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The address that the browser comes from has the code.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.extend(cookies.iter().map(|cookie| (SET_COOKIE, cookie.clone())));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_the_console_are_gone_to() {
        let found = |query: &str| {
            let uri = format!("{BEGIN}?{query}");
            page(&http::Request::get(uri).body(()).unwrap().into_parts().0)
        };
        assert_eq!(found("to=%2Fconsole%2Frequests%3Fstatus%3D500"), "/console/requests?status=500");
        for query in [
            "",
            "to=",
            "to=https%3A%2F%2Fevil.test%2Fconsole%2F",
            "to=%2F%2Fevil.test%2Fconsole%2F",
            "to=%2Fconsole",
            "to=%2Fconsole.evil",
            "to=%2Fconsole%2F%0d%0aset-cookie:%20a=b",
            "to=%2Fconsole%2F%20a",
        ] {
            assert_eq!(found(query), "/console/", "{query}");
        }
        assert_eq!(found(&format!("to=/console/{}", "a".repeat(MAX_PAGE))), "/console/");
    }
}
