//! Tells browsers which web pages may read a response (CORS), by the settings' `cors`.
//!
//! Every response of the data port passes through [`write`], those of the control routes there and errors included. A
//! provider's own CORS headers never reach a browser: it allows its pages, not the gateway's.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use words::settings::cors::{Cors, Origins};

/// The headers of a provider's own CORS.
const RESPONSE_HEADERS: [HeaderName; 6] = [
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
];

/// Asked by a browser when a page of the internet calls an address of a private network or of the machine.
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// All methods that the data port passes on.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");

/// The value of `Access-Control-Allow-Origin` for a request; `None` where its page may not read the response, or it is from
/// no page.
pub fn allowed_origin(cors: Option<&Cors>, request: &HeaderMap) -> Option<HeaderValue> {
    let cors = cors?;
    let origin = request.get(ORIGIN)?;
    match &cors.origins {
        Origins::Any => Some(HeaderValue::from_static("*")),
        listed => origin.to_str().is_ok_and(|origin| listed.allow(origin)).then(|| origin.clone()),
    }
}

/// Adds the headers of CORS to a response. `origin`: what [`allowed_origin`] found for its request.
pub fn write(headers: &mut HeaderMap, cors: Option<&Cors>, origin: Option<&HeaderValue>) {
    if cors.is_some() || headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        for name in &RESPONSE_HEADERS {
            headers.remove(name);
        }
    }
    if cors.is_some_and(|cors| cors.origins != Origins::Any) {
        // A cache must not give the response to the page of another origin.
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        // All of them, the provider's limits and request ids as well as the gateway's own.
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    }
}

/// Whether a request is a browser's question what it may send.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Adds what only the answer to a preflight has: every method, and every header that the browser names, because client
/// libraries send many of their own.
pub fn write_preflight(headers: &mut HeaderMap, cors: &Cors, request: &HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    if let Some(names) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    if request.contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, cors.max_age.as_secs().into());
    let varies = "access-control-request-method, access-control-request-headers";
    headers.append(VARY, HeaderValue::from_static(varies));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cors(origins: Origins) -> Cors {
        Cors { origins, max_age: Duration::from_secs(60) }
    }

    fn listed() -> Cors {
        cors(Origins::Listed(vec!["https://a.example".to_owned()]))
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter();
        lines.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_listed_origins_are_allowed() {
        let allowed = |cors: &Cors, origin| {
            let found = allowed_origin(Some(cors), &headers(&[("origin", origin)]));
            found.map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(allowed(&listed(), "https://a.example").as_deref(), Some("https://a.example"));
        assert_eq!(allowed(&listed(), "https://b.example"), None);
        assert_eq!(allowed(&cors(Origins::Any), "https://b.example").as_deref(), Some("*"));
        assert_eq!(allowed_origin(Some(&listed()), &HeaderMap::new()), None);
        assert_eq!(allowed_origin(None, &headers(&[("origin", "https://a.example")])), None);
    }

    #[test]
    fn a_providers_own_headers_are_replaced() {
        let provider = [
            ("access-control-allow-origin", "*"),
            ("access-control-allow-credentials", "true"),
            ("access-control-expose-headers", "x-own"),
            ("vary", "accept-encoding"),
            ("x-kept", "1"),
        ];
        let mut response = headers(&provider);
        write(&mut response, None, None);
        assert_eq!(response.len(), 2, "{response:?}");
        let mut response = headers(&provider);
        write(&mut response, Some(&listed()), None);
        assert!(!response.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "{response:?}");
        assert_eq!(response.get_all(VARY).iter().collect::<Vec<_>>(), ["accept-encoding", "origin"]);
        let mut response = headers(&provider);
        let origin = HeaderValue::from_static("https://a.example");
        write(&mut response, Some(&listed()), Some(&origin));
        assert_eq!(response[ACCESS_CONTROL_ALLOW_ORIGIN], "https://a.example");
        assert_eq!(response[ACCESS_CONTROL_EXPOSE_HEADERS], "*");
        assert!(!response.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));
    }

    #[test]
    fn a_preflight_is_an_options_request_with_both_headers() {
        let both = headers(&[("origin", "https://a.example"), ("access-control-request-method", "POST")]);
        assert!(is_preflight(&Method::OPTIONS, &both) && !is_preflight(&Method::POST, &both));
        assert!(!is_preflight(&Method::OPTIONS, &headers(&[("origin", "https://a.example")])));
    }
}
