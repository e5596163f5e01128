//! Refuses a request that has a service key where it would be kept or passed on: in its path, and in the headers whose values are in logs,
//! spans and metrics.
//!
//! Not here: keys in the query and in other headers, which are removed before anything is sent (`memory::auth::KeySearch`).

use super::RequestHead;
use http::HeaderMap;
use memory::auth::KeySearch;
use words::error::Error;

/// How the names of such headers end, behind a prefix of the gateway's.
const KEPT: [&str; 4] = ["-metadata", "-span-name", "-span-id", "-trace-id"];

/// # Errors
/// 400 that names the place.
pub(super) fn check(head: &RequestHead<'_>) -> Result<(), Error> {
    let search = KeySearch::new(head.headers, head.uri, &head.snapshot.service_keys);
    match place(head.uri.path(), head.headers, &search) {
        None => Ok(()),
        Some(place) => {
            let message = format!(
                "A service key stands in {place}, which is kept in logs. Send keys in x-gateway-api-key alone."
            );
            Err(Error::bad_request(message))
        }
    }
}

/// Where there is a key: the path, or a header.
fn place<'a>(path: &str, headers: &'a HeaderMap, search: &KeySearch<'_>) -> Option<&'a str> {
    if search.is_in_name(path) {
        return Some("the path");
    }
    let mut kept = headers.iter().filter(|(name, _)| KEPT.iter().any(|end| name.as_str().ends_with(end)));
    let found = kept.find(|(_, value)| value.to_str().is_ok_and(|text| search.is_in_name(text)));
    found.map(|(name, _)| name.as_str())
}
