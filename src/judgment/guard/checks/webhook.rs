//! `default.webhook` and `default.log`: send the request or response, with its circumstances, to a server of the operator's.
//!
//! Headers are not sent: they hold the client's keys.

use super::BOTH;
use super::outgoing::{TIMEOUT, headers, reason, timeout, url};
use crate::guard::check::{CheckKind, Prepared, RemoteCheck};
use crate::guard::finding::{Change, Finding};
use crate::guard::outside::{Outside, OutsideCall, OutsideResponse};
use crate::guard::parameters::{Parameters, Type, Unusable, optional, required};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use std::time::Duration;
use words::config::hooks::HookPhase;

pub(crate) const WEBHOOK: CheckKind = CheckKind {
    id: "default.webhook",
    aliases: &[],
    phases: BOTH,
    about: "Posts `{eventType, provider, requestType, metadata, request: {json, text, isStreamingRequest}, response: {json, text}}` \
            to a server and passes where its JSON has `\"verdict\": true`. `transformedData.request.json` (before) or \
            `transformedData.response.json` (after) in it replaces the body. Waits 3000 ms unless `timeout` says otherwise; a call \
            that fails passes.",
    source: "",
    parameters: &[
        required("webhookURL", Type::Text, "The server's address, under the rules for custom hosts."),
        optional("headers", Type::Headers, "", "Headers of the call."),
    ],
    prepare: prepare_webhook,
};

pub const LOG: CheckKind = CheckKind {
    id: "default.log",
    aliases: &[],
    phases: BOTH,
    about: "Posts what `default.webhook` posts, and passes where the server responds with a status of 200 to 299. Waits 3000 ms \
            unless `timeout` says otherwise.",
    source: "",
    parameters: &[
        required("logURL", Type::Text, "The server's address, under the rules for custom hosts."),
        optional("headers", Type::Headers, "", "Headers of the call."),
    ],
    prepare: prepare_log,
};

/// Maximum bytes of a webhook's response, which may have a whole body in it, and of a log's.
const MAX_WEBHOOK_RESPONSE: usize = 16 << 20;
const MAX_LOG_RESPONSE: usize = 64 << 10;

/// A server that is called.
#[derive(Debug)]
struct Receiver {
    url: String,
    /// As results show it.
    shown: String,
    headers: HeaderMap,
    timeout: Duration,
}

#[derive(Debug)]
struct Webhook(Receiver);

#[derive(Debug)]
struct Log(Receiver);

fn prepare_webhook(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    Receiver::read(parameters, "webhookURL", "webhook").map(|to| Prepared::Remote(Box::new(Webhook(to))))
}

fn prepare_log(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    Receiver::read(parameters, "logURL", "log").map(|to| Prepared::Remote(Box::new(Log(to))))
}

/// Everything a check is given, except headers.
fn context(subject: &Subject) -> Value {
    let is_before = subject.phase == HookPhase::Before;
    let text = |is_its: bool| if is_its { subject.text.as_deref().unwrap_or_default() } else { "" };
    let mut context = json!({
        "eventType": if is_before { "beforeRequestHook" } else { "afterRequestHook" },
        "provider": subject.provider,
        "requestType": subject.operation.reference_name(),
        "metadata": subject.metadata,
        "request": {
            "json": subject.request.get(),
            "text": text(is_before),
            "isStreamingRequest": subject.streamed,
        },
        "response": {"json": subject.response.get(), "text": text(!is_before)},
    });
    if let (Some(judged), Some(members)) = (&subject.withheld, context.as_object_mut()) {
        members.insert("withheld".to_owned(), json!(judged));
    }
    context
}

impl Receiver {
    fn read(parameters: &Parameters<'_>, name: &'static str, what: &str) -> Result<Self, Unusable> {
        let explained = |unusable: Unusable| {
            let message = &unusable.error.message;
            let data = json!({"explanation": format!("{what} error: {message}")});
            Unusable { data: Some(data), ..unusable }
        };
        let (url, shown) = url(parameters, name, what).map_err(explained)?;
        let headers = headers(parameters, "headers").map_err(explained)?;
        Ok(Self { url, shown, headers, timeout: timeout(parameters, TIMEOUT) })
    }

    /// Sends the subject. `Err`: why there is no good response.
    async fn post(
        &self,
        subject: &Subject,
        outside: &dyn Outside,
        max: usize,
    ) -> Result<OutsideResponse, String> {
        let call = OutsideCall {
            method: Method::POST,
            url: &self.url,
            headers: self.headers.clone(),
            body: Bytes::from(context(subject).to_string()),
            max_bytes: max,
            timeout: self.timeout,
        };
        let response = outside.call(call).await.map_err(|error| reason(&error))?;
        if response.status.is_success() {
            Ok(response)
        } else {
            Err(format!("it responded with status {}", response.status.as_u16()))
        }
    }
}

impl Webhook {
    fn failed(&self, why: &str) -> Finding {
        let data = json!({"explanation": format!("Webhook error: {why}"), "webhookUrl": self.0.shown});
        Finding::failed("Error", format!("The webhook failed: {why}")).with_data(data)
    }

    fn judge(&self, subject: &Subject, response: &OutsideResponse) -> Finding {
        let reply = response.json();
        if !reply.is_object() {
            // Not what it is: it may repeat what was sent.
            let bytes = response.body.len();
            return self.failed(&format!("its response, of {bytes} bytes, is no JSON object"));
        }
        let verdict = reply.get("verdict").and_then(Value::as_bool).unwrap_or_default();
        let place = match subject.phase {
            HookPhase::Before => ["transformedData", "request", "json"],
            HookPhase::After => ["transformedData", "response", "json"],
        };
        let new =
            place.iter().try_fold(&reply, |value, name| value.get(*name)).filter(|body| body.is_object());
        let data = json!({
            "verdict": verdict,
            "explanation": if verdict { "Webhook request succeeded" } else { "Webhook request failed" },
            "webhookUrl": self.0.shown,
            "responseData": reply.get("data"),
        });
        Finding::of(verdict, data).with_change(new.map_or(Change::None, |body| Change::Body(body.clone())))
    }
}

impl RemoteCheck for Webhook {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        Box::pin(async move {
            match self.0.post(subject, outside, MAX_WEBHOOK_RESPONSE).await {
                Ok(response) => self.judge(subject, &response),
                Err(why) => self.failed(&why),
            }
        })
    }

    fn may_change(&self) -> bool {
        true
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.0.timeout)
    }
}

impl RemoteCheck for Log {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        Box::pin(async move {
            match self.0.post(subject, outside, MAX_LOG_RESPONSE).await {
                Ok(_) => {
                    Finding::of(true, json!({"explanation": "Log request succeeded", "logUrl": self.0.shown}))
                }
                Err(why) => {
                    let data = json!({"explanation": format!("Log error: {why}"), "logUrl": self.0.shown});
                    Finding::failed("Error", format!("The log failed: {why}")).with_data(data)
                }
            }
        })
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.0.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{
        TestOutside, data, error, prepare, request, response, run_remote, with_metadata,
    };
    use crate::guard::outside::OutsideError;

    const URL: &str = "https://user:pw@hooks.example/guard?key=secret";

    #[test]
    fn the_whole_context_is_posted_without_headers() {
        let outside = TestOutside::responding(200, r#"{"verdict": true, "data": {"score": 1}}"#);
        let mut subject = with_metadata(request("hi"), json!({"team": "a"}));
        std::sync::Arc::make_mut(&mut subject.headers).insert("authorization", "Bearer key".parse().unwrap());
        let parameters = json!({"webhookURL": URL, "headers": {"x-token": "t"}, "timeout": 500});
        let finding = run_remote(&WEBHOOK, parameters, &subject, &outside);
        assert!(finding.verdict && data(&finding)["responseData"] == json!({"score": 1}));
        assert_eq!(data(&finding)["webhookUrl"], "https://hooks.example/guard");
        let call = &outside.calls()[0];
        assert_eq!(
            (call.method.as_str(), call.url.as_str(), call.timeout),
            ("POST", URL, Duration::from_millis(500))
        );
        assert!(call.headers["x-token"] == "t" && call.headers["content-type"] == "application/json");
        let wanted = json!({
            "eventType": "beforeRequestHook", "provider": "openai", "requestType": "chatComplete", "metadata": {"team": "a"},
            "request": {"json": subject.request.get(), "text": "hi", "isStreamingRequest": false},
            "response": {"json": null, "text": ""},
        });
        assert_eq!(serde_json::from_slice::<Value>(&call.body).unwrap(), wanted);
        run_remote(
            &WEBHOOK,
            json!({"webhookURL": URL, "headers": "{\"a\": \"b\"}"}),
            &response("ho"),
            &outside,
        );
        let call = &outside.calls()[1];
        let sent: Value = serde_json::from_slice(&call.body).unwrap();
        assert_eq!(
            (&sent["eventType"], &sent["response"]["text"]),
            (&json!("afterRequestHook"), &json!("ho"))
        );
        assert!(call.timeout == TIMEOUT && call.headers["a"] == "b");
    }

    #[test]
    fn the_body_of_the_phase_is_replaced() {
        let reply = json!({"verdict": false, "transformedData": {"request": {"json": {"a": 1}}, "response": {"json": {"b": 2}}}});
        let outside = TestOutside::responding(200, &reply.to_string());
        for (subject, body) in [(request("a"), json!({"a": 1})), (response("a"), json!({"b": 2}))] {
            let finding = run_remote(&WEBHOOK, json!({"webhookURL": URL}), &subject, &outside);
            assert_eq!((finding.verdict, finding.change), (false, Change::Body(body)));
        }
        let outside = TestOutside::responding(
            200,
            r#"{"verdict": true, "transformedData": {"request": {"json": null}}}"#,
        );
        assert!(!run_remote(&WEBHOOK, json!({"webhookURL": URL}), &request("a"), &outside).is_transformed());
    }

    #[test]
    fn failures_are_errors() {
        let refused =
            || TestOutside::new(|_| Err(OutsideError::Refused("10.0.0.1 may not be called".to_owned())));
        let timed_out = || TestOutside::new(|_| Err(OutsideError::TimedOut));
        for (kind, name) in [(&WEBHOOK, "webhookURL"), (&LOG, "logURL")] {
            for (outside, wanted) in [
                (TestOutside::responding(500, "{}"), "it responded with status 500"),
                (refused(), "10.0.0.1 may not be called"),
                (timed_out(), "it did not respond in time"),
            ] {
                let finding = run_remote(kind, json!({name: URL}), &request("a"), &outside);
                assert!(!finding.verdict && error(&finding).ends_with(wanted), "{}", error(&finding));
                assert!(!finding.data.unwrap().to_string().contains("secret"));
            }
        }
        let finding = run_remote(
            &WEBHOOK,
            json!({"webhookURL": URL}),
            &request("a"),
            &TestOutside::responding(200, "nope"),
        );
        assert_eq!(error(&finding), "The webhook failed: its response, of 4 bytes, is no JSON object");
        let finding =
            run_remote(&LOG, json!({"logURL": URL}), &request("a"), &TestOutside::responding(204, ""));
        assert!(finding.verdict && data(&finding)["explanation"] == "Log request succeeded");
    }

    #[test]
    fn unusable_parameters_have_their_reasons() {
        for (kind, parameters, wanted) in [
            (&WEBHOOK, json!({}), "Missing webhook URL"),
            (&WEBHOOK, json!({"webhookURL": "not a url"}), "Invalid webhook URL format"),
            (&WEBHOOK, json!({"webhookURL": "ftp://a.example"}), "Invalid webhook URL format"),
            (
                &WEBHOOK,
                json!({"webhookURL": URL, "headers": "{a"}),
                "Failed to parse headers: Invalid headers format",
            ),
            (
                &WEBHOOK,
                json!({"webhookURL": URL, "headers": {"a b": "c"}}),
                "Failed to parse headers: a b is no header that can be sent",
            ),
            (&LOG, json!({}), "Missing log URL"),
        ] {
            assert_eq!(prepare(kind, parameters).unwrap_err().error.message, wanted);
        }
    }
}
