//! CrowdStrike AIDR: it judges the body of a chat, and may return another one.

use super::call::{MAX_BYTES, Options, base_url, exchange, failure, undecided};
use crate::guard::check::{CheckKind, Prepared, RemoteCheck};
use crate::guard::checks::BOTH;
use crate::guard::checks::outgoing;
use crate::guard::finding::{Change, CheckError, Finding};
use crate::guard::outside::{Outside, OutsideCall};
use crate::guard::parameters::{Parameters, Type, Unusable, optional};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use words::config::hooks::HookPhase;

pub(crate) const GUARD: CheckKind = CheckKind {
    id: "crowdstrike-aidr.guardChatCompletions",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the policy of CrowdStrike AIDR does not block the chat; with `redact` the body is replaced by what it \
            transforms it to. `credentials`: `apiKey`, `baseUrl`.",
    source: "https://aidr.crowdstrike.com/docs/aidr/apis",
    parameters: &[optional("redact", Type::Flag, "false", "Whether transformations are applied.")],
    prepare,
};

struct Guard {
    url: String,
    authorization: HeaderValue,
    redacts: bool,
    timeout: Duration,
}

const TIMEOUT: Duration = Duration::from_secs(10);

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let options = Options::new(parameters);
    let missing =
        |_: &Options| Err(Unusable::new("credentials", "'parameters.credentials.baseUrl' must be set"));
    let base = base_url(&options, missing)?;
    let bearer = format!("Bearer {}", options.required_credential(&["apiKey"])?);
    let mut authorization = HeaderValue::from_str(&bearer).map_err(|_| {
        Unusable::new("credentials", "the API key has characters that are invalid in a header")
    })?;
    authorization.set_sensitive(true);
    let url = base + "/v1/guard_chat_completions";
    let timeout = outgoing::timeout(parameters, TIMEOUT);
    Ok(Prepared::Remote(Box::new(Guard { url, authorization, redacts: options.flag("redact"), timeout })))
}

impl Guard {
    async fn decide(&self, subject: &Subject, outside: &dyn Outside) -> Result<Finding, CheckError> {
        let (event, body) = match subject.phase {
            HookPhase::Before => ("input", subject.request.get().clone()),
            HookPhase::After => ("output", response_of(subject)),
        };
        let member = |name: &str| subject.metadata.get(name);
        let mut request =
            json!({"guard_input": body, "event_type": event, "app_id": "Turnpike", "extra_info": {}});
        if let Some(members) = request.as_object_mut() {
            let more = [
                ("user_id", member("_user").or_else(|| member("user_id")).cloned()),
                ("llm_provider", Some(json!(subject.provider))),
                ("model", subject.model.as_deref().map(Value::from)),
            ];
            members.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        let mut headers = outgoing::json_headers();
        headers.insert(http::header::AUTHORIZATION, self.authorization.clone());
        let call = OutsideCall {
            method: Method::POST,
            url: &self.url,
            headers,
            body: Bytes::from(request.to_string()),
            max_bytes: MAX_BYTES,
            timeout: self.timeout,
        };
        let response = exchange("CrowdStrike AIDR", call, outside).await?;
        self.read(&response)
    }

    fn read(&self, response: &Value) -> Result<Finding, CheckError> {
        let status = response.get("status").and_then(Value::as_str).unwrap_or_default();
        let result = response.get("result").filter(|result| result.is_object());
        let (true, Some(result)) = (status == "Success", result) else {
            let message = format!("CrowdStrike AIDR did not decide: its status is `{status}`");
            return Err(failure("Error", message));
        };
        let is = |name: &str| result.get(name) == Some(&json!(true));
        let policy = result.get("policy").and_then(Value::as_str).unwrap_or_default();
        let output = result.get("guard_output").filter(|output| output.is_object());
        if is("blocked") {
            return Ok(Finding::of(
                false,
                json!({"explanation": format!("Blocked by AIDR policy '{policy}'")}),
            ));
        }
        match output {
            Some(output) if is("transformed") && self.redacts => {
                let explanation = format!("Allowed by AIDR policy '{policy}' with transformations");
                let finding = Finding::of(true, json!({"explanation": explanation}));
                Ok(finding.with_change(Change::Body(output.clone())))
            }
            _ => Ok(Finding::of(true, json!({"explanation": format!("Allowed by AIDR policy '{policy}'")}))),
        }
    }
}

/// The response's body; of a stream its text as one.
fn response_of(subject: &Subject) -> Value {
    if subject.response.get().is_null() {
        json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": subject.text.as_deref()}}]})
    } else {
        subject.response.get().clone()
    }
}

impl RemoteCheck for Guard {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        async move { undecided(self.decide(subject, outside).await) }.boxed()
    }

    fn may_change(&self) -> bool {
        self.redacts
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.timeout)
    }
}
