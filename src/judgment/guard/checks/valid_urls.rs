//! `default.validUrls`: whether all URLs in the text lead somewhere.

use super::outgoing::TIMEOUT;
use super::{BOTH, NOT, excerpt};
use crate::guard::check::{CheckKind, Prepared, RemoteCheck};
use crate::guard::finding::Finding;
use crate::guard::outside::{Outside, OutsideCall};
use crate::guard::parameters::{Parameters, Type, Unusable, optional};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use std::time::Duration;
use url::Url;

pub(crate) const VALID_URLS: CheckKind = CheckKind {
    id: "default.validUrls",
    aliases: &[],
    phases: BOTH,
    about: "Passes where every `http(s)://` URL in the text responds to HEAD with a status of 200 to 299 within 3 seconds, or has \
            a name that DNS resolves. Text without URLs fails. At most 20 different URLs are called, under the rules for custom \
            hosts; more are an error.",
    source: "",
    parameters: &[
        optional(
            "onlyDNS",
            Type::Flag,
            "false",
            "Whether it is enough that the names resolve (by DNS over HTTPS at 1.1.1.1).",
        ),
        NOT,
    ],
    prepare,
};

/// Maximum number of URLs that are called.
const MAX_URLS: usize = 20;
/// How many of them at once.
const AT_ONCE: usize = 8;
/// For all of them.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const RESOLVER: &str = "https://1.1.1.1/dns-query";

#[derive(Debug)]
struct ValidUrls {
    only_dns: bool,
    not: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "what prepares a check may fail")]
fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let check = ValidUrls { only_dns: parameters.flag("onlyDNS"), not: parameters.flag("not") };
    Ok(Prepared::Remote(Box::new(check)))
}

/// The different URLs of a text, in their order.
fn urls(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("http") {
        let here = rest.get(at..).unwrap_or_default();
        if here.starts_with("http://") || here.starts_with("https://") {
            let is_end = |c: char| c.is_whitespace() || r#"<>"'`{}[]|\^,"#.contains(c);
            let url = here.get(..here.find(is_end).unwrap_or(here.len())).unwrap_or_default();
            let url = url.trim_end_matches(['.', ';', ':', '!', '?']);
            // A bracket that closes one around the URL is not part of it.
            let url = if url.contains('(') { url } else { url.trim_end_matches([')', '.']) };
            if !found.contains(&url) && found.len() <= MAX_URLS {
                found.push(url);
            }
            rest = here.get(url.len().max(4)..).unwrap_or_default();
        } else {
            rest = here.get(4..).unwrap_or_default();
        }
    }
    found
}

impl ValidUrls {
    async fn is_valid(&self, url: &str, outside: &dyn Outside) -> bool {
        let Some(parsed) = Url::parse(url).ok() else { return false };
        let Some(host) = parsed.host_str() else { return false };
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static("URLValidator/1.0"));
        if !self.only_dns {
            return self.call(Method::HEAD, url, headers, outside).await.is_some();
        }
        if !matches!(parsed.host(), Some(url::Host::Domain(_))) {
            // An address is no name that could be missing.
            return true;
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/dns-json"));
        for kind in ["A", "AAAA"] {
            let query = format!("{RESOLVER}?name={host}&type={kind}");
            let reply = self.call(Method::GET, &query, headers.clone(), outside).await;
            let answers =
                reply.as_ref().and_then(|reply| reply.get("Answer")).and_then(|list| list.as_array());
            if answers.is_some_and(|answers| !answers.is_empty()) {
                return true;
            }
        }
        false
    }

    /// The JSON of a good response.
    async fn call(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        outside: &dyn Outside,
    ) -> Option<serde_json::Value> {
        let body = Bytes::new();
        let call = OutsideCall { method, url, headers, body, max_bytes: 64 << 10, timeout: TIMEOUT };
        let response = outside.call(call).await.ok()?;
        response.status.is_success().then(|| response.json())
    }

    async fn judge(&self, subject: &Subject, outside: &dyn Outside) -> Result<Finding, String> {
        let text = subject.text().ok_or_else(|| "Missing text to analyze".to_owned())?;
        let urls = urls(text);
        if urls.len() > MAX_URLS {
            return Err(format!("The text has more than {MAX_URLS} URLs"));
        }
        let mut calls = Vec::with_capacity(urls.len());
        for url in &urls {
            calls.push(async { (*url, self.is_valid(url, outside).await) });
        }
        let outcomes: Vec<(&str, bool)> = futures_util::stream::iter(calls).buffered(AT_ONCE).collect().await;
        let of = |wanted: bool| -> Vec<&str> {
            outcomes.iter().filter(|(_, is_valid)| *is_valid == wanted).map(|(url, _)| *url).collect()
        };
        let valid = of(true);
        let invalid = of(false);
        let (verdict, explanation) = match (urls.is_empty(), invalid.is_empty()) {
            (true, _) => (false, "No URLs found in the text.".to_owned()),
            (false, true) => (!self.not, "All URLs are valid.".to_owned()),
            (false, false) => (self.not, format!("{} of {} URLs are not valid.", invalid.len(), urls.len())),
        };
        Ok(Finding::of(
            verdict,
            json!({
                "explanation": explanation,
                "urls": urls,
                "validUrls": valid,
                "invalidUrls": invalid,
                "validationMethod": if self.only_dns { "DNS lookup" } else { "HTTP request" },
                "not": self.not,
                "verdict": verdict,
                "textExcerpt": excerpt(text),
            }),
        ))
    }
}

impl RemoteCheck for ValidUrls {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        Box::pin(async move {
            self.judge(subject, outside).await.unwrap_or_else(|message| {
                let data =
                    json!({"explanation": format!("An error occurred while validating URLs: {message}")});
                Finding::failed("Error", message).with_data(data)
            })
        })
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIME_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{TestOutside, data, error, outside_response, response, run_remote};
    use crate::guard::outside::OutsideError;

    fn reachable() -> TestOutside {
        TestOutside::new(|call| match call.url {
            url if url.starts_with("https://good.example") => Ok(outside_response(204, &[], "")),
            url if url.starts_with("https://moved.example") => Ok(outside_response(301, &[], "")),
            url if url.contains("name=good.example&type=AAAA") => {
                Ok(outside_response(200, &[], r#"{"Status":0,"Answer":[{"data":"::1"}]}"#))
            }
            url if url.starts_with(RESOLVER) => Ok(outside_response(200, &[], r#"{"Status":3}"#)),
            _ => Err(OutsideError::Failed("no such host".to_owned())),
        })
    }

    #[test]
    fn all_urls_must_be_valid() {
        for (text, verdict, invalid) in [
            ("see https://good.example/a?b=1, and (https://good.example).", true, json!([])),
            ("https://good.example and http://bad.example/x!", false, json!(["http://bad.example/x"])),
            ("https://moved.example", false, json!(["https://moved.example"])),
            ("no URL, http only", false, json!([])),
        ] {
            let finding = run_remote(&VALID_URLS, json!({}), &response(text), &reachable());
            assert_eq!((finding.verdict, &data(&finding)["invalidUrls"]), (verdict, &invalid), "{text}");
        }
        let outside = reachable();
        let finding =
            run_remote(&VALID_URLS, json!({"not": true}), &response("http://bad.example"), &outside);
        assert!(finding.verdict);
        let call = &outside.calls()[0];
        assert_eq!(
            (call.method.as_str(), &call.headers["user-agent"], call.timeout),
            ("HEAD", &HeaderValue::from_static("URLValidator/1.0"), TIMEOUT)
        );
        let finding = run_remote(&VALID_URLS, json!({"not": true}), &response("none"), &outside);
        assert!(!finding.verdict, "no URL fails in any case");
    }

    #[test]
    fn names_may_be_enough() {
        let only_dns = json!({"onlyDNS": true});
        for (text, verdict) in
            [("http://good.example/404", true), ("https://bad.example", false), ("http://192.0.2.1/", true)]
        {
            let finding = run_remote(&VALID_URLS, only_dns.clone(), &response(text), &reachable());
            assert_eq!(
                (finding.verdict, &data(&finding)["validationMethod"]),
                (verdict, &json!("DNS lookup")),
                "{text}"
            );
        }
    }

    #[test]
    fn calls_are_bounded() {
        let text: String = (0..21).map(|n| format!("https://good.example/{n} ")).collect();
        let outside = reachable();
        let finding = run_remote(&VALID_URLS, json!({}), &response(&text), &outside);
        assert_eq!((error(&finding), outside.calls().len()), ("The text has more than 20 URLs", 0));
        let text = "https://good.example ".repeat(1000);
        let finding = run_remote(&VALID_URLS, json!({}), &response(&text), &outside);
        assert_eq!((finding.verdict, outside.calls().len()), (true, 1));
        assert_eq!(
            error(&run_remote(&VALID_URLS, json!({}), &response(""), &outside)),
            "Missing text to analyze"
        );
    }

    #[test]
    fn urls_end_where_a_reader_ends_them() {
        let text =
            "[a](https://a.example/x_(y)) <http://b.example>; httphttp://c.example. https://a.example/x_(y)";
        assert_eq!(
            urls(text),
            ["https://a.example/x_(y))", "http://b.example", "http://c.example", "https://a.example/x_(y)"]
        );
    }
}
