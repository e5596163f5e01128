//! Guardrails of Amazon Bedrock (`ApplyGuardrail`), signed with the keys of an account.

use super::call::{MAX_BYTES, Options, base_url, exchange, failure, undecided};
use crate::guard::check::{CheckKind, Prepared, RemoteCheck};
use crate::guard::checks::BOTH;
use crate::guard::checks::outgoing;
use crate::guard::finding::{Change, CheckError, Finding};
use crate::guard::outside::{Outside, OutsideCall};
use crate::guard::parameters::{Parameters, Type, Unusable, optional, required};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Method;
use knowledge::provider::Signing;
use knowledge::provider::bedrock::{Keys, Scope, sign};
use serde_json::{Map, Value, json};
use std::fmt;
use std::time::{Duration, SystemTime};
use words::config::hooks::HookPhase;
use words::config::secret::Secret;

pub(crate) const GUARD: CheckKind = CheckKind {
    id: "bedrock.guard",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the guardrail of Amazon Bedrock does not intervene; with `redact` personal data that it finds is replaced, and \
            only other interventions fail. `credentials`: `accessKeyId`, `accessKeySecret`, `region`, and `sessionToken` for \
            temporary keys (or the same with `aws` in front).",
    source: "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ApplyGuardrail.html",
    parameters: &[
        required("guardrailId", Type::Text, "The guardrail's id."),
        required("guardrailVersion", Type::Text, "Its version: a number, or `DRAFT`."),
        optional("redact", Type::Flag, "false", "Whether personal data is replaced by its kind."),
    ],
    prepare,
};

struct Guard {
    url: String,
    keys: Keys,
    region: String,
    redacts: bool,
    timeout: Duration,
}

const TIMEOUT: Duration = Duration::from_secs(10);

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("region", &self.region).finish_non_exhaustive()
    }
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let options = Options::new(parameters);
    let secret = |names: &[&'static str]| options.required_credential(names).map(Secret::new);
    let id = secret(&["accessKeyId", "awsAccessKeyID", "awsAccessKeyId"])?;
    let key = secret(&["accessKeySecret", "awsSecretAccessKey"])?;
    let token = options.credential(&["sessionToken", "awsSessionToken"]).map(Secret::new);
    let keys = Keys::from_secrets(&id, &key, token.as_ref())
        .map_err(|_| Unusable::new("credentials", "the keys have characters that are invalid in a header"))?;
    let region = segment("credentials", options.required_credential(&["region", "awsRegion"])?)?;
    let mut path = String::from("/guardrail/");
    for (name, between) in [("guardrailId", "/version/"), ("guardrailVersion", "/apply")] {
        let missing = || Unusable::new("guardrailId", format!("'parameters.{name}' must be set"));
        // An ARN is an id too.
        let value = options.text(name).or(options.credential(&[name])).ok_or_else(missing)?;
        path.push_str(
            &percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string(),
        );
        path.push_str(between);
    }
    let base = base_url(&options, |_| Ok(format!("https://bedrock-runtime.{region}.amazonaws.com")))?;
    let timeout = outgoing::timeout(parameters, TIMEOUT);
    let redacts = options.flag("redact");
    Ok(Prepared::Remote(Box::new(Guard { url: base + &path, keys, region, redacts, timeout })))
}

fn segment(parameter: &'static str, text: &str) -> Result<String, Unusable> {
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        Ok(text.to_owned())
    } else {
        Err(Unusable::new(parameter, "'parameters.credentials.region' must be the name of a region"))
    }
}

impl Guard {
    async fn decide(&self, subject: &Subject, outside: &dyn Outside) -> Result<Finding, CheckError> {
        let all: Vec<&str> = if self.redacts {
            subject.texts.iter().map(|text| text.text.as_str()).collect()
        } else {
            subject.text().into_iter().collect()
        };
        let sent: Vec<&str> = all.iter().copied().filter(|text| !text.trim().is_empty()).collect();
        if sent.is_empty() {
            return Err(failure("Error", "request or response text is empty"));
        }
        let content: Vec<Value> = sent.iter().map(|text| json!({"text": {"text": text}})).collect();
        let source = if subject.phase == HookPhase::Before { "INPUT" } else { "OUTPUT" };
        let body = json!({"source": source, "content": content}).to_string();
        let response = exchange("Amazon Bedrock", self.signed(body)?, outside).await?;
        let action = response.get("action").and_then(Value::as_str);
        let Some(action) = action else {
            return Err(failure("Error", "the response of Amazon Bedrock has no `action`"));
        };
        let data = json!({"action": action, "assessments": summary(&response)});
        if action != "GUARDRAIL_INTERVENED" {
            return Ok(Finding::of(true, data));
        }
        if !self.redacts || !is_only_personal(&response) {
            return Ok(Finding::of(false, data));
        }
        let replacements = replacements(&response);
        let texts: Vec<Option<String>> = all.iter().map(|text| replaced(text, &replacements)).collect();
        let verdict = texts.iter().any(Option::is_some);
        Ok(Finding::of(verdict, data).with_change(Change::Texts(texts)))
    }

    fn signed(&self, body: String) -> Result<OutsideCall<'_>, CheckError> {
        let mut headers = outgoing::json_headers();
        let method = Method::POST;
        let signing =
            Signing { method: &method, url: &self.url, body: body.as_bytes(), now: SystemTime::now() };
        let scope = Scope { service: "bedrock", region: &self.region };
        sign(&signing, &self.keys, &scope, &mut headers)
            .map_err(|_| failure("Error", "the call to Amazon Bedrock cannot be signed"))?;
        Ok(OutsideCall {
            method,
            url: &self.url,
            headers,
            body: Bytes::from(body),
            max_bytes: MAX_BYTES,
            timeout: self.timeout,
        })
    }
}

/// What sensitive information was found: (match, its kind).
fn sensitive(response: &Value) -> Vec<(&str, &str)> {
    let assessments = response.get("assessments").and_then(Value::as_array).into_iter().flatten();
    let policies = assessments.filter_map(|assessment| assessment.get("sensitiveInformationPolicy"));
    let lists = policies.flat_map(|policy| {
        [("piiEntities", "type"), ("regexes", "name")]
            .into_iter()
            .filter_map(move |(list, kind)| Some((policy.get(list)?.as_array()?, kind)))
    });
    lists
        .flat_map(|(items, kind)| {
            items
                .iter()
                .filter_map(move |item| Some((item.get("match")?.as_str()?, item.get(kind)?.as_str()?)))
        })
        .collect()
}

fn replacements(response: &Value) -> Vec<(&str, String)> {
    let mut replacements: Vec<(&str, String)> =
        sensitive(response).into_iter().map(|(found, kind)| (found, format!("{{{kind}}}"))).collect();
    // A match may be a part of a longer one.
    replacements.sort_by_key(|(found, _)| usize::MAX - found.len());
    replacements.dedup();
    replacements.retain(|(found, _)| !found.is_empty());
    replacements
}

fn replaced(text: &str, replacements: &[(&str, String)]) -> Option<String> {
    let mut new = text.to_owned();
    for (found, placeholder) in replacements {
        if new.contains(found) {
            new = new.replace(found, placeholder);
        }
    }
    (new != text).then_some(new)
}

/// Whether no other policy than that of sensitive information intervened.
fn is_only_personal(response: &Value) -> bool {
    let assessments = response.get("assessments").and_then(Value::as_array).into_iter().flatten();
    let mut policies = assessments.filter_map(Value::as_object).flatten();
    let intervenes = policies.any(|(name, policy)| {
        name.ends_with("Policy") && name != "sensitiveInformationPolicy" && has_action(policy)
    });
    !intervenes && !sensitive(response).is_empty()
}

/// Whether something in a policy's assessment was blocked.
fn has_action(policy: &Value) -> bool {
    let lists = policy.as_object().into_iter().flatten().filter_map(|(_, list)| list.as_array());
    lists
        .flatten()
        .any(|item| item.get("action").and_then(Value::as_str).is_some_and(|action| action != "NONE"))
}

/// The assessments without the text that matched.
fn summary(response: &Value) -> Value {
    let mut assessments = response.get("assessments").cloned().unwrap_or_default();
    remove_matches(&mut assessments);
    assessments
}

fn remove_matches(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_matches),
        Value::Object(members) => {
            members.remove("match");
            Map::values_mut(members).for_each(remove_matches);
        }
        _ => {}
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
