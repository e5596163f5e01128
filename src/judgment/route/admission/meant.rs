//! What a path of the generic endpoint means to servers that read paths less strictly than the gateway, or that have its operations at other
//! places.
//!
//! Routes nothing: the generic endpoint passes such paths on as they are. Guardrails judge requests by it.

use super::endpoint::Endpoint;
use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use words::api::operation::Operation;

/// How often a path is decoded: each server on the way may do it once.
const MAX_DECODINGS: usize = 3;

/// The path of the gateway's own operation that a path means where empty and dot segments, letter case, escapes and a slash at the end do
/// not count. `None`: it means none, or is written so.
pub fn plain_path(method: &Method, path: &str) -> Option<String> {
    let plain = plain(path);
    let is_listed = || Endpoint::find(method, &plain).operation != Operation::Passthrough;
    (plain != path && is_listed()).then(|| plain.into_owned())
}

/// The operation that ends the path: `v2/openai/chat/completions` is a chat.
pub fn operation(method: &Method, path: &str) -> Option<Operation> {
    let plain = plain(path);
    let ends = plain.match_indices('/').filter_map(|(at, _)| plain.get(at + 1..));
    let found = |rest: &str| {
        let google = || Operation::find_gemini(method, rest);
        Some(Operation::find(method, rest)).filter(is_listed).or_else(|| Some(google()).filter(is_listed))
    };
    ends.filter_map(found).next()
}

fn is_listed(operation: &Operation) -> bool {
    *operation != Operation::Passthrough
}

/// The model in a path that the table of operations does not have: behind `deployments`, `engines`, `models` or `model`; else the one in
/// the query.
pub fn model(uri: &Uri) -> Option<String> {
    model_in_path(uri).or_else(|| models_in_query(uri).pop())
}

/// The model in a path that the table of operations does not have.
pub fn model_in_path(uri: &Uri) -> Option<String> {
    let decoded = decoded(uri.path());
    let mut rest = decoded.as_str();
    let segments = std::iter::from_fn(|| {
        let (segment, behind) = rest.split_once('/')?;
        rest = behind;
        Some((segment, behind))
    });
    let of_model = |segment: &str| {
        ["deployments", "engines", "models", "model"].contains(&segment.to_lowercase().as_str())
    };
    let behind = segments.filter(|(segment, _)| of_model(segment)).map(|(_, behind)| behind).last();
    let in_path = behind.map(|behind| {
        let last_colon =
            behind.rfind(':').filter(|colon| !behind.get(*colon..).unwrap_or_default().contains('/'));
        let end = last_colon.or_else(|| behind.find('/')).unwrap_or(behind.len());
        behind.get(..end).unwrap_or_default().trim_matches('/').to_owned()
    });
    in_path.filter(|model| !model.is_empty())
}

/// Each model that the query names: servers differ in which of two they take.
pub fn models_in_query(uri: &Uri) -> Vec<String> {
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let text = |escaped: &str| percent_decode_str(escaped).decode_utf8_lossy().into_owned();
    pairs.filter(|(name, _)| text(name) == "model").map(|(_, value)| text(value)).collect()
}

fn decoded(path: &str) -> String {
    let mut path = path.to_owned();
    for _ in 0..MAX_DECODINGS {
        let next = percent_decode_str(&path).decode_utf8_lossy().into_owned();
        if next == path {
            break;
        }
        path = next;
    }
    path
}

/// The path where empty and dot segments, letter case, escapes and parameters of segments do not count.
pub(super) fn plain_segments(path: &str) -> Cow<'_, str> {
    plain(path)
}

fn plain(path: &str) -> Cow<'_, str> {
    if is_plain(path) {
        return Cow::Borrowed(path);
    }
    let decoded = decoded(path).to_lowercase().replace('\\', "/");
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        // Parameters of a segment (RFC 3986, 3.3) belong to it where a server reads them.
        match segment.split(';').next().unwrap_or_default().trim() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    Cow::Owned(format!("/{}", segments.join("/")))
}

/// Whether a path is plain as it stands, by one look at its bytes. It may say no of one that is: that one is only written anew.
fn is_plain(path: &str) -> bool {
    let mut last = b'/';
    let is_usual = path.bytes().skip(1).all(|byte| {
        // A segment that begins with a dot may be one of dots alone.
        let is_usual = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b':' | b'@' => true,
            b'/' | b'.' => last != b'/',
            _ => false,
        };
        last = byte;
        is_usual
    });
    is_usual && path.starts_with('/') && (last != b'/' || path.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_an_operation_are_found() {
        for path in [
            "/v1//chat/completions",
            "//v1/chat/completions",
            "/v1/chat/completions/",
            "/v1/chat/%63ompletions",
            "/v1/chat/%2563ompletions",
            "/v1/chat%2Fcompletions",
            "/v1/CHAT/completions",
            "/V1/chat/completions",
            "/v1/x/../chat/./completions",
            "/v1/chat/completions;a=b",
            "/v1\\chat\\completions",
        ] {
            assert_eq!(plain_path(&Method::POST, path).as_deref(), Some("/v1/chat/completions"), "{path}");
        }
        for path in ["/v1/chat/completions", "/v1/threads//runs", "/v1/Anything", "/v1/chat/completions/x"] {
            assert_eq!(plain_path(&Method::POST, path), None, "{path}");
        }
        assert!(plain_path(&Method::POST, "/v1/proxy//messages").is_some());
        assert!(plain_path(&Method::POST, "/v1beta/models/m:GenerateContent").is_none());
    }

    #[test]
    fn a_path_that_is_plain_is_borrowed() {
        for path in ["/", "/v1/chat/completions", "/v1.0/a.b/c-d_e:f@g/."] {
            let made = plain(path);
            assert_eq!(matches!(made, Cow::Borrowed(_)), !path.ends_with('.'), "{path}");
        }
        for path in
            ["", "v1/a", "/v1/", "//v1", "/v1/./a", "/v1/../a", "/.a", "/A", "/a%62", "/a;b", "/a b", "/ä"]
        {
            assert!(!is_plain(path), "{path}");
        }
        assert_eq!(plain("/.a/..b"), "/.a/..b");
    }

    #[test]
    fn operations_are_found_at_other_places() {
        for (path, wanted) in [
            ("/v1/proxy/v1/chat/completions", Some(Operation::ChatCompletions)),
            ("/v1/deployments/m/Embeddings", Some(Operation::Embeddings)),
            ("/v1/proxy/v1/images/generations", Some(Operation::Images)),
            ("/v1/threads/runs", None),
        ] {
            assert_eq!(operation(&Method::POST, path), wanted, "{path}");
        }
    }

    #[test]
    fn each_model_of_a_query_is_found() {
        let uri = Uri::from_static("/v1/realtime?model=a&mod%65l=b%2D1&models=c&model");
        assert_eq!(models_in_query(&uri), ["a", "b-1"]);
        assert_eq!(model_in_path(&uri), None);
    }

    #[test]
    fn models_in_paths_are_found() {
        for (uri, wanted) in [
            ("/v1/deployments/bad/chat/completions", Some("bad")),
            ("/v1/proxy/v1beta/models/bad:generateContent", Some("bad")),
            ("/v1/proxy/v1beta/models/a%2Fb:1:batchGenerateContent", Some("a/b:1")),
            ("/v1/proxy/model/bad/converse", Some("bad")),
            ("/v1/engines/bad/completions", Some("bad")),
            ("/v1/proxy/v1/projects/p/locations/l/publishers/google/models/bad:rawPredict", Some("bad")),
            ("/v1/realtime?model=bad%2D1", Some("bad-1")),
            ("/v1/threads/runs", None),
            ("/v1/models", None),
        ] {
            assert_eq!(model(&Uri::from_static(uri)).as_deref(), wanted, "{uri}");
        }
    }
}
