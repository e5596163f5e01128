//! Table tests of how a body is read and which requests are rejected.

use super::{BodyContent, BodyReading, Plane, RequestHead};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use memory::net::inbound::control_paths::ControlPaths;
use memory::state::snapshot::SettingsSnapshot;
use uuid::Uuid;
use words::api::own_ids::{batch_id, file_id};
use words::config::Checks;
use words::error::Error;
use words::settings::{SecretSources, Settings};

const LIMIT: usize = 2000;

fn control_paths() -> ControlPaths {
    ControlPaths { names: vec!["logs"], unversioned: vec![], open: vec!["/livez"] }
}

fn snapshot() -> SettingsSnapshot {
    snapshot_with("")
}

fn snapshot_with(more: &str) -> SettingsSnapshot {
    let checks = Checks::NONE;
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let yaml = format!(
        "auth: {{keys: [{{name: tests, key: tp-tests-0123456789}}]}}\nlimits: {{max_body_bytes: {LIMIT}}}\n{more}"
    );
    SettingsSnapshot::new(Settings::parse(&yaml, &sources, &checks).unwrap(), 0)
}

fn headers(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.lines() {
        let (name, value) = line.trim().split_once(": ").unwrap();
        headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
    }
    headers
}

/// The results for a request with the service key and for one with other credentials.
fn judged(request: &str, header_lines: &str) -> Result<Plane, Error> {
    let (method, path) = request.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let uri: Uri = path.parse().unwrap();
    let headers = headers(header_lines);
    let snapshot = snapshot();
    let client = snapshot.service_keys.anonymous();
    RequestHead::new(&method, &uri, &headers, &snapshot, &control_paths()).plane(&client)
}

#[test]
fn bodies_are_read_where_they_may_choose_the_target() {
    let read = |length, content| Some(BodyReading { limit: LIMIT, length, content });
    let json = "content-type: application/json; charset=utf-8";
    for (request, headers, wanted) in [
        ("POST /v1/chat/completions", "content-length: 7", read(Some(7), BodyContent::JsonObject)),
        ("POST /v1/chat/completions", "transfer-encoding: chunked", read(None, BodyContent::JsonObject)),
        ("POST /v1/chat/completions", "content-length: 2000", read(Some(2000), BodyContent::JsonObject)),
        ("GET /v1/models", "content-length: 7", None),
        ("POST /v1/files", &format!("{json}\ncontent-length: 7\nx-gateway-provider: openai"), None),
        ("POST /v1/x", &format!("{json}\ncontent-length: 7"), read(Some(7), BodyContent::AnyJson)),
        (
            "POST /v1/proxy/messages",
            &format!("{json}\ncontent-length: 7"),
            read(Some(7), BodyContent::AnyJson),
        ),
        ("POST /v1/proxy/files", &format!("{json}\ncontent-length: 7"), read(Some(7), BodyContent::AnyJson)),
        ("POST /v1/x", "content-type: text/plain\ncontent-length: 7", None),
        ("POST /v1/x", "content-length: 7", None),
        ("POST /v1/x", &format!("{json}\ncontent-length: 0"), None),
        ("POST /v1/x", &format!("{json}\ncontent-length: 2001"), None),
        ("POST /v1/x", &format!("{json}\ntransfer-encoding: chunked"), None),
        ("POST /v1/x", &format!("{json}\ncontent-length: 7\ncontent-encoding: gzip"), None),
    ] {
        let wanted = Plane::Data { body: wanted };
        assert_eq!(judged(request, headers).unwrap(), wanted, "{request} {headers}");
    }
}

#[test]
fn files_and_batches_that_are_no_providers_are_the_gateways() {
    let file = file_id(Uuid::nil(), None);
    let batch = batch_id(Uuid::nil(), None);
    for (request, header, is_own) in [
        ("POST /v1/files".to_owned(), "accept: a", true),
        ("POST /v1/files".to_owned(), "x-gateway-provider: turnpike", true),
        ("POST /v1/files".to_owned(), "x-gateway-provider: openai", false),
        ("POST /v1/files".to_owned(), "x-gateway-config: cf", false),
        ("POST /v1/proxy/files".to_owned(), "accept: a", false),
        ("GET /v1/batches".to_owned(), "x-gateway-custom-host: https://a", false),
        ("GET /v1/batches".to_owned(), "accept: a", true),
        // Anthropic's Files API has the same paths.
        ("POST /v1/files".to_owned(), "anthropic-version: 2023-06-01", false),
        ("GET /v1/files?beta=true".to_owned(), "accept: a", false),
        (format!("GET /v1/files/{file}"), "x-gateway-provider: openai", true),
        (format!("GET /v1/files/{file}/content"), "accept: a", true),
        (format!("DELETE /v1/files/{file}"), "accept: a", true),
        ("GET /v1/files/file-abc".to_owned(), "accept: a", false),
        (format!("GET /v1/files/{batch}"), "accept: a", false),
        (format!("POST /v1/batches/{batch}/cancel"), "x-gateway-config: cf", true),
        (format!("GET /v1/batches/{batch}/output"), "accept: a", true),
        ("GET /v1/batches/batch_abc".to_owned(), "accept: a", false),
        // Who runs it is in the body.
        ("POST /v1/batches".to_owned(), "accept: a", false),
    ] {
        let plane = judged(&request, &format!("content-type: application/json\n{header}")).unwrap();
        assert_eq!(plane == Plane::Files, is_own, "{request} {header}");
    }
}

#[test]
fn a_websocket_for_responses_ends_here() {
    let upgrade = "connection: upgrade\nupgrade: websocket";
    for (request, headers, ends) in [
        ("GET /v1/responses", upgrade, true),
        ("GET /v1/proxy/responses", upgrade, true),
        // Whatever protocol it names: a tunnel is under no limit.
        ("GET /v1/responses", "connection: upgrade\nupgrade: other", true),
        ("GET /v1/responses", "accept: a", false),
        ("GET /v1/realtime", upgrade, false),
        ("POST /v1/responses", upgrade, false),
    ] {
        assert_eq!(judged(request, headers).unwrap() == Plane::ResponsesSocket, ends, "{request} {headers}");
    }
}

#[test]
fn refusals_come_in_order() {
    let compressed = "content-encoding: compress\ncontent-length: 2001";
    for (request, headers, status, part) in [
        ("PATCH /v2/x", "connection: host", 404, "/v2/x"),
        ("PATCH /v1/chat/completions", "connection: host", 405, "PATCH"),
        ("POST /v1/chat/completions", &format!("connection: host\n{compressed}"), 400, "proper HTTP"),
        ("POST /v1/chat/completions", compressed, 400, "Content-Encoding"),
        ("POST /v1/chat/completions", "content-length: 2001", 413, "2000 bytes"),
    ] {
        let error = judged(request, headers).unwrap_err();
        assert_eq!(error.status(), status, "{request} {headers}");
        assert!(error.message.contains(part), "{request} {headers}: {}", error.message);
    }
    for path in ["PATCH /v1/logs/x", "GET /livez"] {
        assert_eq!(judged(path, "connection: host").unwrap(), Plane::Control, "{path}");
    }
}

#[test]
fn only_open_paths_need_no_key() {
    let snapshot = snapshot();
    let post = Method::POST;
    let client = |path: &'static str, lines: &str| {
        let headers = headers(lines);
        RequestHead::new(&post, &Uri::from_static(path), &headers, &snapshot, &control_paths())
            .client(jiff::Timestamp::UNIX_EPOCH)
    };
    for path in ["/livez", "/v1/logs"] {
        assert_eq!(client(path, "").unwrap().name, None, "the control plane judges its clients: {path}");
    }
    for path in ["/v1/models", "/nothing", "/livez/x"] {
        assert_eq!(client(path, "").unwrap_err().status(), 401, "{path}");
        let name = client(path, "x-gateway-api-key: tp-tests-0123456789").unwrap().name.clone();
        assert_eq!(name.as_deref(), Some("tests"), "{path}");
    }
}

#[test]
fn bodies_are_objects_where_they_must_be() {
    let reading = |content| BodyReading { limit: LIMIT, length: None, content };
    let parse = |content, text: &'static str| reading(content).parse(Bytes::from_static(text.as_bytes()));
    for (text, part) in [("", "it is empty"), ("[1]", "JSON object: "), ("{", "JSON object: ")] {
        let message = parse(BodyContent::JsonObject, text).unwrap_err().message;
        assert!(message.contains(part), "{text}: {message}");
        assert_eq!(parse(BodyContent::AnyJson, text).unwrap().bytes(), text.as_bytes());
    }
    assert_eq!(parse(BodyContent::AnyJson, r#"{"model":"m"}"#).unwrap().text("model").as_deref(), Some("m"));
    assert!(parse(BodyContent::Opaque, r#"{"model":"m"}"#).unwrap().text("model").is_none());
    let long = Bytes::from(vec![b' '; LIMIT + 1]);
    assert_eq!(reading(BodyContent::JsonObject).parse(long).unwrap_err().status(), 413);
}

/// In HTTP/2 a body needs no header that shows it.
#[test]
fn a_body_is_read_late_whatever_its_header_shows() {
    let reading = |length| Some(BodyReading { limit: LIMIT, length, content: BodyContent::AnyJson });
    for (text, has_body, wanted) in [
        ("", true, reading(None)),
        ("", false, None),
        ("content-length: 2000", true, reading(Some(2000))),
        ("content-length: 2001", true, None),
        ("content-type: multipart/form-data", true, None),
        ("content-encoding: gzip", true, None),
    ] {
        assert_eq!(BodyReading::late(&headers(text), LIMIT, has_body), wanted, "{text} {has_body}");
    }
}

#[test]
fn a_form_is_read_where_a_provider_has_a_list_of_models() {
    let form = "content-type: multipart/form-data; boundary=b\ncontent-length: 7\nx-gateway-provider: @a";
    let uri = Uri::from_static("/v1/audio/transcriptions");
    for (list, is_read) in [("", false), (", allowed_models: [whisper-1]", true)] {
        let snapshot = snapshot_with(&format!("providers: {{a: {{provider: openai, api_key: k{list}}}}}\n"));
        let client = snapshot.service_keys.anonymous();
        let headers = headers(form);
        let plane =
            RequestHead::new(&Method::POST, &uri, &headers, &snapshot, &control_paths()).plane(&client);
        let content = BodyContent::Form;
        let body = is_read.then_some(BodyReading { limit: LIMIT, length: Some(7), content });
        assert_eq!(plane.unwrap(), Plane::Data { body }, "{list}");
    }
}

/// Neither what is passed on nor what is kept has the client's key in it.
#[test]
fn a_key_where_it_would_be_kept_is_refused() {
    const CHAT: &str = "POST /v1/chat/completions";
    const KEY: &str = "tp-tests-0123456789";
    for (request, header, wanted) in [
        (CHAT, r#"x-gateway-metadata: {"_user":"ann"}"#, None),
        (CHAT, "x-gateway-trace-id: tp-tests", None),
        ("GET /v1/proxy/KEY/x", "accept: a", Some("the path")),
        ("GET /v1/proxy/x%2FKEY", "accept: a", Some("the path")),
        (CHAT, r#"x-gateway-metadata: {"_user":"KEY"}"#, Some("x-gateway-metadata")),
        (CHAT, r#"x-portkey-metadata: {"a":"b KEY"}"#, Some("x-portkey-metadata")),
        (CHAT, "x-gateway-span-name: KEY", Some("x-gateway-span-name")),
        (CHAT, "x-gateway-parent-span-id: KEY", Some("x-gateway-parent-span-id")),
        (CHAT, "x-gateway-trace-id: a-KEY", Some("x-gateway-trace-id")),
    ] {
        let lines = format!("x-gateway-api-key: {KEY}\n{}", header.replace("KEY", KEY));
        let refusal = judged(&request.replace("KEY", KEY), &lines).err();
        let message = refusal.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
        assert_eq!(refusal.as_ref().map(Error::status), wanted.map(|_| 400), "{request} {header}");
        assert!(message.contains(wanted.unwrap_or_default()) && !message.contains(KEY), "{message}");
    }
}
