//! The files of the console as they were built, with the headers that keep other pages and other scripts away.
//!
//! They are the same for every client and show nothing, so they need no key.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Redirect, Response};
use flate2::read::GzDecoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, StatusCode};
use std::io::Read as _;
use words::error::Error;

const INDEX: &[u8] = include_bytes!("../../../console/built/index.html");
const SCRIPT: &[u8] = include_bytes!("../../../console/built/app.js.gz");
const STYLE: &[u8] = include_bytes!("../../../console/built/app.css.gz");
/// A hash of script and style, which stands in their names.
const VERSION: &str = include_str!("../../../console/built/version.txt");

/// Bytes of a file that is unpacked for a client that reads no gzip, at most.
const MAX_UNPACKED: u64 = 1 << 20;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

pub(super) async fn redirect() -> Redirect {
    Redirect::permanent(super::BELOW)
}

/// The page. It is small, and read anew each time, so that it names the newest files.
pub(super) async fn index() -> Response {
    respond("text/html; charset=utf-8", "no-store", INDEX.into())
}

/// A file by its name; the page for every other path, which it reads itself.
pub(super) async fn file(request: Request) -> Response {
    let name = request.uri().path().strip_prefix(super::BELOW).unwrap_or_default();
    let Some(hashed) = name.strip_prefix("app-") else { return index().await };
    match hashed.strip_prefix(VERSION) {
        Some(".js") => packed("text/javascript; charset=utf-8", SCRIPT, request.headers()),
        Some(".css") => packed("text/css; charset=utf-8", STYLE, request.headers()),
        // Of another version: the page that names it is old.
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A page without a script that says what went wrong, and leads back to the console.
pub(super) fn message(title: &str, error: &Error) -> Response {
    let text = escaped(&error.message);
    let body = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"/console/app-{VERSION}.css\">\n</head>\n<body>\n\
         <main class=\"sign-in\"><div class=\"card\">\n<h1>{title}</h1>\n<p>{text}</p>\n\
         <p><a href=\"/console/\">Back to the console</a></p>\n</div></main>\n</body>\n</html>\n"
    );
    let mut response = respond("text/html; charset=utf-8", "no-store", body.into_bytes());
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// A text as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn packed(content_type: &'static str, gzip: &'static [u8], headers: &HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_packed = accepted.contains("gzip");
    let mut plain = Vec::new();
    if !is_packed && GzDecoder::new(gzip).take(MAX_UNPACKED).read_to_end(&mut plain).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let body = if is_packed { gzip.into() } else { plain };
    let mut response = respond(content_type, "public, max-age=31536000, immutable", body);
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_packed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn respond(content_type: &'static str, caching: &'static str, body: Vec<u8>) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, caching),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    (headers, [("cross-origin-opener-policy", "same-origin")], body).into_response()
}
