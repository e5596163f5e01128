//! Pangea AI Guard, and its service Redact.

use super::call::{self, Partner, PartnerOutcome, by_redact, member, never, no_headers};
use crate::guard::check::CheckKind;
use crate::guard::checks::BOTH;
use crate::guard::parameters::{Type, optional};
use serde_json::{Map, Value, json};

pub(crate) const TEXT_GUARD: CheckKind = CheckKind {
    id: "pangea.textGuard",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Pangea AI Guard does not block the text. `credentials`: `apiKey`, `domain`.",
    source: "https://pangea.cloud/docs/api/ai-guard",
    parameters: &[
        optional("recipe", Type::Text, "", "The recipe that applies."),
        optional("debug", Type::Flag, "false", "Whether the result has details of the detectors."),
        optional("overrides", Type::Object, "", "Settings of detectors that differ from the recipe's."),
    ],
    prepare: |parameters| call::prepare(TEXT_GUARD_API, parameters),
};

const TEXT_GUARD_API: &Partner = &Partner {
    name: "Pangea",
    base_url: |options| Ok(format!("https://ai-guard.{}", options.required_credential(&["domain"])?)),
    path: |_| "/v1/text/guard".to_owned(),
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let given = |name: &'static str| Some((name.to_owned(), input.options.get(name)?.clone()));
        let mut body: Map<String, Value> =
            ["recipe", "debug", "overrides"].into_iter().filter_map(given).collect();
        body.insert("text".to_owned(), json!(input.text()));
        Value::Object(body)
    },
    read: |_, response| {
        let result = member(response, &["result"])?;
        let count = |name: &str| {
            result.pointer(&format!("/findings/{name}")).and_then(Value::as_u64).unwrap_or_default()
        };
        let verdict = match (result.get("blocked").and_then(Value::as_bool), result.get("findings")) {
            (Some(blocked), _) => !blocked,
            // The first version of the API had counts.
            (None, Some(_)) => {
                count("prompt_injection_count") + count("malicious_count") + count("artifact_count") == 0
            }
            (None, None) => return Err("`result.blocked`".to_owned()),
        };
        let members = ["blocked", "findings", "detectors", "recipe"].into_iter();
        let data: Map<String, Value> =
            members.filter_map(|name| Some((name.to_owned(), result.get(name)?.clone()))).collect();
        Ok(PartnerOutcome::of(verdict, Value::Object(data)))
    },
    redacts: never,
    per_call: 1,
};

pub(crate) const PII: CheckKind = CheckKind {
    id: "pangea.pii",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Pangea Redact finds nothing to redact; with `redact` it is replaced. `credentials`: `apiKey`, `domain`.",
    source: "https://pangea.cloud/docs/api/redact",
    parameters: &[optional(
        "redact",
        Type::Flag,
        "false",
        "Whether texts are replaced by their redacted form.",
    )],
    prepare: |parameters| call::prepare(PII_API, parameters),
};

const PII_API: &Partner = &Partner {
    name: "Pangea",
    base_url: |options| Ok(format!("https://redact.{}", options.required_credential(&["domain"])?)),
    path: |_| "/v1/redact".to_owned(),
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| json!({"text": input.text()}),
    read: |input, response| {
        let count =
            member(response, &["result", "count"])?.as_u64().ok_or_else(|| "`result.count`".to_owned())?;
        let redacted = response.pointer("/result/redacted_text").and_then(Value::as_str);
        let is_replaced = count > 0 && by_redact(input.options) && redacted.is_some();
        let texts = if is_replaced { vec![redacted.map(str::to_owned)] } else { Vec::new() };
        let data = json!({"count": count, "summary": response.get("summary")});
        Ok(PartnerOutcome { verdict: count == 0 || is_replaced, data, texts })
    },
    redacts: by_redact,
    per_call: 1,
};
