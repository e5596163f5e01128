//! `default.inlineImageUrls`: fetches the images that a request refers to, and puts them into it.
//!
//! For providers that fetch nothing themselves. In chats these are parts `image_url`, in messages images whose source is a URL.

use super::BEFORE;
use super::outgoing::reason;
use crate::guard::check::{CheckKind, Prepared, RemoteCheck};
use crate::guard::finding::{Change, CheckError, Finding};
use crate::guard::outside::{Outside, OutsideCall, OutsideResponse};
use crate::guard::parameters::{Parameters, Type, Unusable, optional};
use crate::guard::subject::Subject;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;
use url::Url;
use words::api::operation::Operation;

pub(crate) const INLINE_IMAGE_URLS: CheckKind = CheckKind {
    id: "default.inlineImageUrls",
    aliases: &[],
    phases: BEFORE,
    about: "Fetches images that a chat or message refers to by `http(s)://` URLs, under the rules for custom hosts, and puts them \
            into the request in base64; `data:` and `gs://` stay. An image that cannot be fetched stays a URL and is listed in \
            `data.errors`. At most 20 images, together at most twice `maxSizeBytes`.",
    source: "",
    parameters: &[
        optional("providers", Type::List, "[]", "The providers for which it is done; none: all."),
        optional("maxSizeBytes", Type::Number, "20971520", "The largest image, bytes."),
        optional("timeoutMs", Type::Number, "30000", "How long an image may take, milliseconds."),
    ],
    prepare,
};

const MAX_IMAGES: usize = 20;
/// How many are fetched at once.
const AT_ONCE: usize = 4;
const MAX_REDIRECTS: usize = 3;
const DEFAULT_SIZE: usize = 20 << 20;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The most that `maxSizeBytes` may be.
const MAX_SIZE: f64 = 104_857_600.0;

#[derive(Debug)]
struct InlineImages {
    providers: Vec<String>,
    max_bytes: usize,
    timeout: Duration,
    fails_on_error: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let number = |name: &'static str, max: f64| match parameters.number(name) {
        Some(number) if !(1.0..=max).contains(&number) => {
            Err(Unusable::new(name, format!("{name} must be from 1 to {max}")))
        }
        number => Ok(number),
    };
    let max_bytes = number("maxSizeBytes", MAX_SIZE)?.map_or(DEFAULT_SIZE, |bytes| bytes as usize);
    let timeout = number("timeoutMs", 300_000.0)?;
    Ok(Prepared::Remote(Box::new(InlineImages {
        providers: parameters.texts("providers").unwrap_or_default().into_iter().map(str::to_owned).collect(),
        max_bytes,
        timeout: timeout.map_or(DEFAULT_TIMEOUT, |time| Duration::from_millis(time as u64)),
        fails_on_error: parameters.flag("failOnError") || parameters.flag("fail_on_error"),
    })))
}

/// An image that was fetched.
struct Image {
    mime: String,
    bytes: Bytes,
}

/// Calls `visit` with every part of the messages that refers to an image by a URL, and that URL.
fn for_each_image(body: &mut Value, visit: &mut dyn FnMut(&str, &mut Value)) {
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for content in messages.into_iter().flatten().filter_map(|message| message.get_mut("content")) {
        for part in content.as_array_mut().into_iter().flatten() {
            visit_part(part, visit);
            // The results of tools have parts of their own.
            for part in part.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
                visit_part(part, visit);
            }
        }
    }
}

fn visit_part(part: &mut Value, visit: &mut dyn FnMut(&str, &mut Value)) {
    let url = match part.get("type").and_then(Value::as_str) {
        Some("image_url") => part.pointer("/image_url/url").or_else(|| part.get("image_url")),
        Some("image") => part.pointer("/source/url"),
        _ => None,
    };
    let is_fetched = |url: &&str| url.starts_with("http://") || url.starts_with("https://");
    if let Some(url) = url.and_then(Value::as_str).filter(is_fetched).map(str::to_owned) {
        visit(&url, part);
    }
}

/// Puts an image in place of its URL.
fn put(part: &mut Value, image: &Image) {
    let data = STANDARD.encode(&image.bytes);
    if part.get("type").and_then(Value::as_str) == Some("image") {
        if let Some(source) = part.get_mut("source") {
            *source = json!({"type": "base64", "media_type": image.mime, "data": data});
        }
        return;
    }
    let inline = Value::String(format!("data:{};base64,{data}", image.mime));
    match part.get_mut("image_url") {
        Some(Value::Object(members)) => {
            members.insert("url".to_owned(), inline);
        }
        Some(url) => *url = inline,
        None => {}
    }
}

/// The type of an image: the response's, or that of the path's ending.
fn mime(headers: &HeaderMap, url: &str) -> String {
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let header =
        header.and_then(|value| value.split(';').next()).map(|value| value.trim().to_ascii_lowercase());
    if let Some(mime) = header.filter(|mime| mime.starts_with("image/")) {
        return mime;
    }
    let path = Url::parse(url).map(|url| url.path().to_ascii_lowercase()).unwrap_or_default();
    let endings = [
        (".png", "png"),
        (".gif", "gif"),
        (".webp", "webp"),
        (".svg", "svg+xml"),
        (".bmp", "bmp"),
        (".avif", "avif"),
    ];
    let listed = endings.iter().find(|(ending, _)| path.ends_with(ending));
    format!("image/{}", listed.map_or("jpeg", |(_, kind)| kind))
}

impl InlineImages {
    async fn fetch(&self, url: &str, outside: &dyn Outside) -> Result<Image, String> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.call(&url, outside).await?;
            if response.status.is_redirection() {
                let location = response.headers.get(LOCATION).and_then(|value| value.to_str().ok());
                let next = location.and_then(|location| Url::parse(&url).ok()?.join(location).ok());
                url = next.ok_or("it was moved, and not said where to")?.into();
                continue;
            }
            if !response.status.is_success() {
                return Err(format!("status {}", response.status.as_u16()));
            }
            if response.body.is_empty() {
                return Err("it is empty".to_owned());
            }
            return Ok(Image { mime: mime(&response.headers, &url), bytes: response.body });
        }
        Err(format!("it was moved more than {MAX_REDIRECTS} times"))
    }

    async fn call(&self, url: &str, outside: &dyn Outside) -> Result<OutsideResponse, String> {
        let headers = [
            (ACCEPT, HeaderValue::from_static("image/*")),
            (USER_AGENT, HeaderValue::from_static("turnpike")),
        ];
        let call = OutsideCall {
            method: Method::GET,
            url,
            headers: headers.into_iter().collect(),
            body: Bytes::new(),
            max_bytes: self.max_bytes,
            timeout: self.timeout,
        };
        outside.call(call).await.map_err(|error| reason(&error))
    }

    async fn convert(&self, subject: &Subject, outside: &dyn Outside) -> Finding {
        let mut body = subject.request.get().clone();
        let mut urls: Vec<String> = Vec::new();
        for_each_image(&mut body, &mut |url, _| {
            if !urls.iter().any(|listed| listed == url) {
                urls.push(url.to_owned());
            }
        });
        let too_many = urls.split_off(urls.len().min(MAX_IMAGES));
        let mut fetches = Vec::with_capacity(urls.len());
        for url in &urls {
            fetches.push(async move { (url, self.fetch(url, outside).await) });
        }
        let mut fetched = futures_util::stream::iter(fetches).buffered(AT_ONCE);
        let mut images = HashMap::new();
        let mut errors = Vec::new();
        let mut total = 0;
        while let Some((url, outcome)) = fetched.next().await {
            match outcome {
                Ok(image) if total + image.bytes.len() <= 2 * self.max_bytes => {
                    total += image.bytes.len();
                    images.insert(url.as_str(), image);
                }
                Ok(_) => errors.push(json!({"url": url, "error": "the images are too large together"})),
                Err(why) => errors.push(json!({"url": url, "error": why})),
            }
        }
        let many = |url| json!({"url": url, "error": format!("only {MAX_IMAGES} images are fetched")});
        errors.extend(too_many.iter().map(many));
        let mut converted = 0;
        for_each_image(&mut body, &mut |url, part| {
            if let Some(image) = images.get(url) {
                put(part, image);
                converted += 1;
            }
        });
        let explanation =
            format!("{converted} images were put into the request; {} could not be.", errors.len());
        let is_failed = self.fails_on_error && !errors.is_empty();
        let data = json!({"explanation": explanation, "imagesConverted": converted, "errors": errors});
        let mut finding = Finding::of(!is_failed, data);
        if is_failed {
            let message = "Some images could not be fetched; data.errors lists them".to_owned();
            finding.error = Some(CheckError { name: "Error".to_owned(), message });
        } else if converted > 0 {
            finding.change = Change::Body(body);
        }
        finding
    }
}

impl RemoteCheck for InlineImages {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        Box::pin(async move {
            let skipped = match subject.operation {
                Operation::ChatCompletions | Operation::Messages => {
                    let is_listed = |name: &String| name.eq_ignore_ascii_case(subject.provider);
                    let is_meant = self.providers.is_empty() || self.providers.iter().any(is_listed);
                    (!is_meant).then(|| format!("The provider {} is not in the list.", subject.provider))
                }
                other => Some(format!("Requests of type {} have no images.", other.reference_name())),
            };
            match skipped {
                Some(why) => {
                    Finding::of(true, json!({"explanation": why, "skipped": true, "imagesConverted": 0}))
                }
                None => self.convert(subject, outside).await,
            }
        })
    }

    fn may_change(&self) -> bool {
        true
    }

    fn time_limit(&self) -> Option<Duration> {
        // Images of which one is slow do not make all of them late: the limit of each is its own.
        Some(self.timeout * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{
        TestOutside, data, error, of_operation, outside_response, prepare, request_with, run_remote,
    };
    use crate::guard::outside::OutsideError;

    fn outside() -> TestOutside {
        TestOutside::new(|call| match call.url {
            "https://a.example/x" => Ok(outside_response(200, &[("content-type", "image/png; a=b")], "PNG")),
            "https://a.example/moved" => Ok(outside_response(302, &[("location", "/y.webp")], "")),
            "https://a.example/y.webp" => {
                Ok(outside_response(200, &[("content-type", "text/plain")], "WEBP"))
            }
            "https://a.example/loop" => Ok(outside_response(302, &[("location", "/loop")], "")),
            "https://a.example/404" => Ok(outside_response(404, &[], "no")),
            "https://a.example/large" => {
                Err(OutsideError::Failed("the response is over 20971520 bytes".to_owned()))
            }
            url => Err(OutsideError::Refused(format!("{url} may not be called"))),
        })
    }

    fn chat(urls: &[&str]) -> Value {
        let parts: Vec<_> = urls
            .iter()
            .map(|url| json!({"type": "image_url", "image_url": {"url": url, "detail": "low"}}))
            .collect();
        json!({"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": parts}]})
    }

    #[test]
    fn images_are_put_into_a_chat() {
        let urls = [
            "https://a.example/x",
            "https://a.example/moved",
            "data:image/png;base64,AA==",
            "gs://b/c",
            "https://a.example/404",
        ];
        let outside = outside();
        let finding = run_remote(&INLINE_IMAGE_URLS, json!({}), &request_with(&chat(&urls)), &outside);
        let found = data(&finding);
        assert!(finding.verdict);
        assert_eq!(found["imagesConverted"], 2);
        assert_eq!(found["errors"], json!([{"url": "https://a.example/404", "error": "status 404"}]));
        let wanted = chat(&[
            "data:image/png;base64,UE5H",
            "data:image/webp;base64,V0VCUA==",
            urls[2],
            urls[3],
            urls[4],
        ]);
        assert_eq!(finding.change, Change::Body(wanted));
        assert_eq!(outside.calls()[0].timeout, DEFAULT_TIMEOUT);
    }

    #[test]
    fn images_are_put_into_messages() {
        let image = json!({"type": "image", "source": {"type": "url", "url": "https://a.example/x"}});
        let body = |image: Value| {
            let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [image]});
            json!({"model": "m", "messages": [{"role": "user", "content": [image, result]}]})
        };
        let subject = of_operation(Operation::Messages, &body(image));
        let finding = run_remote(&INLINE_IMAGE_URLS, json!({}), &subject, &outside());
        let wanted =
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "UE5H"}});
        assert_eq!(finding.change, Change::Body(body(wanted)));
    }

    #[test]
    fn what_cannot_be_fetched_is_listed_or_fails() {
        let urls = ["https://a.example/large", "http://10.0.0.1/x", "https://a.example/loop"];
        let subject = request_with(&chat(&urls));
        let finding = run_remote(&INLINE_IMAGE_URLS, json!({}), &subject, &outside());
        assert!(finding.verdict && !finding.is_transformed());
        let listed: Vec<_> = data(&finding)["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| error["error"].as_str().unwrap())
            .collect();
        assert_eq!(
            listed,
            [
                "the response is over 20971520 bytes",
                "http://10.0.0.1/x may not be called",
                "it was moved more than 3 times"
            ]
        );
        let finding = run_remote(&INLINE_IMAGE_URLS, json!({"failOnError": true}), &subject, &outside());
        assert!(!finding.verdict && error(&finding).starts_with("Some images could not be fetched"));
        let many: Vec<String> = (0..22).map(|n| format!("https://b.example/{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let outside = outside();
        let finding = run_remote(&INLINE_IMAGE_URLS, json!({}), &request_with(&chat(&many)), &outside);
        assert_eq!(
            (data(&finding)["errors"].as_array().unwrap().len(), outside.calls().len()),
            (22, MAX_IMAGES)
        );
    }

    #[test]
    fn it_is_skipped_where_it_is_not_meant() {
        let outside = outside();
        let subject = request_with(&chat(&["https://a.example/x"]));
        for (parameters, subject) in [
            (json!({"providers": ["vertex-ai"]}), subject.clone()),
            (json!({}), of_operation(Operation::Embeddings, &json!({"input": "a"}))),
        ] {
            let finding = run_remote(&INLINE_IMAGE_URLS, parameters, &subject, &outside);
            assert!(finding.verdict && data(&finding)["skipped"] == true && !finding.is_transformed());
        }
        assert!(outside.calls().is_empty());
        assert!(
            run_remote(&INLINE_IMAGE_URLS, json!({"providers": ["openai"]}), &subject, &outside)
                .is_transformed()
        );
        for parameters in [json!({"maxSizeBytes": 0}), json!({"timeoutMs": 1e9})] {
            assert!(
                prepare(&INLINE_IMAGE_URLS, parameters)
                    .unwrap_err()
                    .error
                    .message
                    .contains("must be from 1 to")
            );
        }
    }
}
