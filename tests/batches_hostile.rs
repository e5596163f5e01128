//! Uploads and input files that nobody means well with: each gets an error that tells what is wrong, none costs memory or leaves
//! anything behind, and nobody gets at another workspace's objects.
//!
//! What a good batch does is in `batches`.

use crate::batches::{CHAT, Client, chats, line};
use crate::support::raw::Raw;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

fn provider() -> Value {
    json!({"provider": "@emulator"})
}

/// A part of a form with the boundary `XX`.
fn field(head: &str, content: &str) -> String {
    format!("--XX\r\ncontent-disposition: form-data; {head}\r\n\r\n{content}\r\n")
}

/// An upload's form up to the content of its file.
fn form_start() -> String {
    let start = field("name=\"purpose\"", "batch") + &field("name=\"file\"; filename=\"in.jsonl\"", "");
    start.strip_suffix("\r\n").unwrap().to_owned()
}

const FORM_END: &str = "\r\n--XX--\r\n";

/// The head of an upload of this length; without one it is chunked.
fn head(length: Option<usize>) -> String {
    let framing = match length {
        Some(length) => format!("content-length: {length}"),
        None => "transfer-encoding: chunked".to_owned(),
    };
    format!(
        "POST /v1/files HTTP/1.1\r\nhost: x\r\nx-gateway-api-key: {KEY}\r\ncontent-type: multipart/form-data; boundary=XX\r\n\
         {framing}\r\n\r\n"
    )
}

#[tokio::test]
async fn wrong_lines_are_named_by_their_number() {
    let gateway = gateway();
    let client = Client::new(&gateway);
    let good = |id: &str| line(id, CHAT, &json!({"model": "gpt-4o-mini?tokens=1", "messages": []}));
    let deep = |depth: usize| {
        let body = format!("{{\"messages\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        good("deep").replace(r#"{"messages":[],"model":"gpt-4o-mini?tokens=1"}"#, &body)
    };
    assert_ne!(deep(1), good("deep"));
    let cases: [(Vec<u8>, Value); 8] = [
        ([good("a").as_bytes(), b"\n\xff\xfe\n"].concat(), json!([[2, "invalid_json_line"]])),
        (
            [good("a").as_bytes(), b"\n\0\0\n\n{}"].concat(),
            json!([[2, "invalid_json_line"], [4, "missing_required_parameter"]]),
        ),
        ("[".repeat(100_000).into(), json!([[1, "invalid_json_line"]])),
        (deep(300).into(), json!([[1, "invalid_request"]])),
        (
            good("a").replace(CHAT, "https://example.com/v1/chat/completions").into(),
            json!([[1, "invalid_url"]]),
        ),
        (good("a").replace("POST", "GET").into(), json!([[1, "invalid_request"]])),
        (
            format!("\u{feff}{}\r\n\r\n{}\r\n", good("a"), good("a")).into(),
            json!([[3, "duplicate_custom_id"]]),
        ),
        ("x\n".repeat(500).into(), Value::Null),
    ];
    for (content, wanted) in cases {
        let shown = String::from_utf8_lossy(&content[..content.len().min(60)]).into_owned();
        let file = client.upload(content).await;
        let batch = client.create(&file, CHAT, &provider()).await;
        let batch = client.finished(&batch["id"]).await;
        assert_eq!(
            (&batch["status"], &batch["request_counts"]["completed"]),
            (&json!("failed"), &json!(0)),
            "{shown}"
        );
        let errors = batch["errors"]["data"].as_array().unwrap();
        let found: Vec<Value> = errors.iter().map(|error| json!([error["line"], error["code"]])).collect();
        match wanted {
            // A hundred, and how many more there are.
            Value::Null => assert_eq!((found.len(), &found[100][0]), (101, &Value::Null), "{shown}"),
            wanted => assert_eq!(json!(found), wanted, "{shown}"),
        }
    }
}

/// 1 GiB takes as little memory (tried by hand); a tenth of it shows it as well.
#[tokio::test]
async fn a_line_of_any_length_takes_no_memory() {
    const PIECES: usize = 100;
    let gateway = Gateway::start(&format!("{STANDARD}batches: {{max_line_bytes: 1000000}}\n"));
    let client = Client::new(&gateway);
    // Whatever the first request of a kind allocates.
    client.upload(chats(1)).await;
    let (_, before) = gateway.memory();
    let mut raw = Raw::connect(gateway.ports.data).await;
    raw.write(head(None).as_bytes()).await.unwrap();
    let piece = "x".repeat(1 << 20);
    for text in
        [form_start()].into_iter().chain((0..PIECES).map(|_| piece.clone())).chain([FORM_END.to_owned()])
    {
        raw.write(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.unwrap();
    }
    raw.write(b"0\r\n\r\n").await.unwrap();
    let response = raw.read_response().await;
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let file: Value = serde_json::from_str(body).unwrap();
    assert_eq!(file["bytes"], PIECES << 20, "{response}");
    let batch = client.create(&file, CHAT, &provider()).await;
    let batch = client.finished(&batch["id"]).await;
    let error = &batch["errors"]["data"][0];
    assert_eq!((&error["code"], &error["line"]), (&json!("line_too_long"), &json!(1)), "{batch}");
    let (_, peak) = gateway.memory();
    assert!(peak < before + (48 << 10), "{before} KiB before, at most {peak}");
}

#[tokio::test]
async fn an_upload_that_ends_in_the_middle_leaves_nothing() {
    let gateway = Gateway::start(STANDARD);
    let files = gateway.folder().join("data/blobs/files");
    let count = || std::fs::read_dir(&files).map_or(0, Iterator::count);
    let body = form_start() + &"x".repeat(3 << 20);
    // With a length and chunked; the second one's length is that of what is sent, so that its form has no end.
    for (length, is_whole) in [(Some(body.len() + 100), false), (None, false), (Some(body.len()), true)] {
        let mut raw = Raw::connect(gateway.ports.data).await;
        raw.write(head(length).as_bytes()).await.unwrap();
        let sent = match length {
            Some(_) => body.clone(),
            None => format!("{:x}\r\n{body}", body.len() + 1),
        };
        raw.write(sent.as_bytes()).await.unwrap();
        if is_whole {
            let response = raw.read_response().await;
            assert!(response.starts_with("HTTP/1.1 400 ") && response.contains("boundary"), "{response}");
        } else {
            until("a file that is being written", async || (count() > 0).then_some(())).await;
        }
        drop(raw);
        until("nothing to be left", async || (count() == 0).then_some(())).await;
    }
    assert_eq!(Client::new(&gateway).get("/files").await.1["data"], json!([]));
}

#[tokio::test]
async fn forms_that_are_none_are_refused_with_what_is_wrong() {
    let gateway = gateway();
    let client = Client::new(&gateway);
    let purpose = field("name=\"purpose\"", "batch");
    let file = field("name=\"file\"; filename=\"a\"", "x");
    let fields: String = (0..2000).map(|n| field(&format!("name=\"f{n}\""), "x")).collect();
    let end = "--XX--\r\n";
    let cases = [
        (format!("{fields}{purpose}{file}{end}"), "multipart/form-data; boundary=XX", "f0"),
        (format!("{purpose}{purpose}{file}{end}"), "multipart/form-data; boundary=XX", "twice"),
        (format!("{purpose}{file}{file}{end}"), "multipart/form-data; boundary=XX", "twice"),
        (
            format!("{purpose}{}{end}", field("name=\"file\"", "x")),
            "multipart/form-data; boundary=XX",
            "filename",
        ),
        (
            format!("{}{file}{end}", field("name=\"purpose\"", &"b".repeat(100_000))),
            "multipart/form-data; boundary=XX",
            "1024 bytes",
        ),
        (format!("{purpose}{file}{end}"), "multipart/form-data; boundary=YY", "boundary"),
        (format!("{purpose}{file}{end}"), "multipart/form-data", "boundary"),
        ("{}".to_owned(), "application/json", "multipart/form-data"),
        (String::new(), "multipart/form-data; boundary=XX", "boundary"),
    ];
    for (body, content_type, wanted) in cases {
        let call = client.call(Method::POST, "/files").header(CONTENT_TYPE, content_type).body(body);
        let (status, error) = client.read(call).await;
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(wanted), "{wanted}: {status} {error}");
    }
    // Folders in a name are not kept.
    for name in ["../../etc/passwd", "/etc/passwd", "C:\\\\windows\\\\passwd"] {
        let body = format!("{purpose}{}{end}", field(&format!("name=\"file\"; filename=\"{name}\""), "x"));
        let content_type = "multipart/form-data; boundary=XX";
        let call = client.call(Method::POST, "/files").header(CONTENT_TYPE, content_type).body(body);
        let (status, made) = client.read(call).await;
        assert_eq!((status.as_u16(), &made["filename"]), (200, &json!("passwd")), "{name}: {made}");
    }
}

#[tokio::test]
async fn no_other_workspace_gets_at_files_and_batches() {
    let gateway = Gateway::start(STANDARD);
    let mut keys = Vec::new();
    for slug in ["one", "two"] {
        let workspace = json!({"name": slug, "slug": slug});
        let made =
            gateway.control(Method::POST, "/v1/admin/workspaces").json(&workspace).send().await.unwrap();
        assert_eq!(made.status(), 200);
        let key = json!({"name": slug, "workspace_id": slug, "scopes": ["completions.write"]});
        let made =
            gateway.control(Method::POST, "/v1/api-keys/workspace/service").json(&key).send().await.unwrap();
        keys.push(made.json::<Value>().await.unwrap()["key"].as_str().unwrap().to_owned());
    }
    let owner = Client { gateway: &gateway, key: &keys[0] };
    let file = owner.upload(chats(2)).await;
    let batch = owner.create(&file, CHAT, &provider()).await;
    let batch = owner.finished(&batch["id"]).await;
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let (file, batch, output) = (id(&file["id"]), id(&batch["id"]), id(&batch["output_file_id"]));
    for key in [&keys[1], KEY] {
        let other = Client { gateway: &gateway, key };
        let requests = [
            (Method::GET, format!("/files/{file}")),
            (Method::GET, format!("/files/{output}/content")),
            (Method::DELETE, format!("/files/{file}")),
            (Method::GET, format!("/batches/{batch}")),
            (Method::GET, format!("/batches/{batch}/output")),
            (Method::POST, format!("/batches/{batch}/cancel")),
        ];
        for (method, path) in requests {
            let (status, error) = other.read(other.call(method.clone(), &path)).await;
            assert_eq!(status, 404, "{method} {path}: {error}");
        }
        let body = json!({"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"});
        let call = other.call(Method::POST, "/batches").header("x-gateway-provider", "@emulator").json(&body);
        assert_eq!(other.read(call).await.0, 404);
        for path in ["/files", "/batches"] {
            let (status, list) = other.get(path).await;
            assert_eq!((status.as_u16(), &list["data"]), (200, &json!([])), "{path}");
        }
    }
    assert_eq!(owner.get(&format!("/files/{file}")).await.0, 200);
    assert_eq!(owner.get("/files").await.1["data"].as_array().unwrap().len(), 2);
}
