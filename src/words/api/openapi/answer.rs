//! The result of a tool, made of the response of an API.
//!
//! A response that is no success is a result too, with `isError`: the model can do without, or try otherwise.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

/// The largest body that is in a result, bytes.
const MAX_BODY: usize = 4 << 20;
/// The most of the body of a response that is no success, bytes.
const MAX_ERROR_BODY: usize = 16 << 10;
/// Pictures that models take.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// What media types of texts have in them.
const TEXTS: [&str; 6] = ["json", "xml", "yaml", "javascript", "x-www-form-urlencoded", "graphql"];

/// The head of a response, as far as the result depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiHead {
    pub status: u16,
    /// `Content-Type`; empty for none.
    pub media: String,
    /// Its body is compressed, and cannot be read.
    pub is_encoded: bool,
}

impl ApiHead {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The JSON of the result.
    pub fn result(&self, body: &[u8]) -> String {
        if !self.is_success() {
            return refusal(&self.failure(body));
        }
        let media = self.media_type();
        if body.is_empty() {
            return result(&json!([text(&self.status_text())]), None);
        }
        if body.len() > MAX_BODY {
            let size = body.len();
            return refusal(&format!("The response has {size} bytes, and {MAX_BODY} are passed on."));
        }
        if PICTURES.contains(&media.as_str()) && !self.is_encoded {
            let picture = json!({"type": "image", "data": STANDARD.encode(body), "mimeType": media});
            return result(&json!([picture]), None);
        }
        match self.text(body) {
            Some(found) => {
                let structured = media.contains("json").then(|| serde_json::from_str::<Value>(found).ok());
                let structured = structured.flatten().filter(Value::is_object);
                result(&json!([text(found)]), structured)
            }
            None => result(&json!([text(&self.note(body))]), None),
        }
    }

    /// `image/png`, in small letters and without parameters.
    fn media_type(&self) -> String {
        self.media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The body as text; `None`: it is none.
    fn text<'b>(&self, body: &'b [u8]) -> Option<&'b str> {
        let media = self.media_type();
        let is_text =
            media.is_empty() || media.starts_with("text/") || TEXTS.iter().any(|part| media.contains(part));
        let text = std::str::from_utf8(body).ok().filter(|_| is_text && !self.is_encoded)?;
        Some(text.trim_start_matches('\u{feff}')).filter(|text| !text.contains('\0'))
    }

    /// What stands in the place of a body that is no text.
    fn note(&self, body: &[u8]) -> String {
        let media = self.media_type();
        let media = if media.is_empty() { "an unknown type" } else { &media };
        let compressed = if self.is_encoded { ", compressed" } else { "" };
        format!("The response is {} bytes of {media}{compressed}, which are not passed on.", body.len())
    }

    fn status_text(&self) -> String {
        let reason = StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        format!("HTTP {} {}", self.status, reason.unwrap_or_default()).trim_end().to_owned()
    }

    fn failure(&self, body: &[u8]) -> String {
        let status = self.status_text();
        if (300..400).contains(&self.status) {
            return format!("{status}: redirects are not followed.");
        }
        match self.text(body) {
            _ if body.is_empty() => status,
            Some(text) => {
                let end = text.floor_char_boundary(MAX_ERROR_BODY);
                format!("{status}\n\n{}", text.get(..end).unwrap_or_default())
            }
            None => format!("{status}\n\n{}", self.note(body)),
        }
    }
}

/// The JSON of a result that reports a failure.
pub fn refusal(why: &str) -> String {
    json!({"content": [text(why)], "isError": true}).to_string()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn result(content: &Value, structured: Option<Value>) -> String {
    let mut result = json!({"content": content, "isError": false});
    if let (Some(structured), Some(members)) = (structured, result.as_object_mut()) {
        members.insert("structuredContent".to_owned(), structured);
    }
    result.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, media: &str, body: &[u8]) -> Value {
        let head = ApiHead { status, media: media.to_owned(), is_encoded: false };
        serde_json::from_str(&head.result(body)).unwrap()
    }

    #[test]
    fn a_success_is_its_text_and_an_object_is_structured() {
        let object = of(200, "application/json; charset=utf-8", br#"{"a": 1}"#);
        assert_eq!(object["content"][0]["text"], r#"{"a": 1}"#);
        assert_eq!((&object["structuredContent"], &object["isError"]), (&json!({"a": 1}), &json!(false)));
        let list = of(200, "application/json", b"[1]");
        assert_eq!((&list["content"][0]["text"], list.get("structuredContent")), (&json!("[1]"), None));
        let broken = of(200, "application/problem+json", b"{");
        assert_eq!((&broken["content"][0]["text"], broken.get("structuredContent")), (&json!("{"), None));
        assert_eq!(of(204, "", b"")["content"][0]["text"], "HTTP 204 No Content");
        assert_eq!(of(200, "", "grün".as_bytes())["content"][0]["text"], "grün");
    }

    #[test]
    fn what_is_no_text_is_named_or_a_picture() {
        let picture = of(200, "image/png", b"\x89PNG");
        assert_eq!(
            picture["content"][0],
            json!({"type": "image", "data": "iVBORw==", "mimeType": "image/png"})
        );
        for (media, body) in
            [("application/pdf", &b"%PDF"[..]), ("text/plain", b"\xff"), ("text/plain", b"a\0b")]
        {
            let text = of(200, media, body)["content"][0]["text"].as_str().unwrap().to_owned();
            assert!(text.contains(&format!("{} bytes of {media}", body.len())), "{text}");
        }
        let head = ApiHead { status: 200, media: "application/json".to_owned(), is_encoded: true };
        assert!(head.result(b"{}").contains("2 bytes of application/json, compressed"));
        assert_eq!(of(200, "text/plain", &vec![b'a'; MAX_BODY + 1])["isError"], true);
    }

    #[test]
    fn a_failure_has_its_status_and_a_bounded_body() {
        let failed = of(404, "application/json", br#"{"error":"none"}"#);
        assert_eq!(failed["content"][0]["text"], "HTTP 404 Not Found\n\n{\"error\":\"none\"}");
        assert_eq!((&failed["isError"], failed.get("structuredContent")), (&json!(true), None));
        let long = of(500, "text/plain", &vec![b'a'; MAX_ERROR_BODY * 2]);
        assert!(long["content"][0]["text"].as_str().unwrap().len() < MAX_ERROR_BODY + 100);
        let moved = of(302, "text/html", b"<a href=secret>");
        assert_eq!(moved["content"][0]["text"], "HTTP 302 Found: redirects are not followed.");
    }
}
