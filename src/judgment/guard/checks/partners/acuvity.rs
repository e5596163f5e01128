//! Acuvity: one scan whose parameters say which of its findings fail the check.
//!
//! Where its API is stands in the key itself, a signed token (`opaque.apex-url`).

use super::call::{self, Input, Options, Partner, PartnerOutcome, member, no_headers};
use crate::guard::check::CheckKind;
use crate::guard::checks::BOTH;
use crate::guard::parameters::{Parameter, Type, Unusable, optional};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

const fn switch(name: &'static str, about: &'static str) -> Parameter {
    optional(name, Type::Flag, "false", about)
}

const fn threshold(name: &'static str) -> Parameter {
    optional(name, Type::Number, "0.5", "The score from which the check fails: 0 to 1.")
}

pub const SCAN: CheckKind = CheckKind {
    id: "acuvity.scan",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Acuvity finds nothing of what is switched on. `credentials`: `apiKey`.",
    source: "https://docs.acuvity.ai",
    parameters: &[
        switch("prompt_injection", "Whether prompt injections fail it."),
        threshold("prompt_injection_threshold"),
        switch("toxic", "Whether toxic content fails it."),
        threshold("toxic_threshold"),
        switch("jail_break", "Whether jailbreaks fail it."),
        threshold("jail_break_threshold"),
        switch("malicious_url", "Whether malicious URLs fail it."),
        threshold("malicious_url_threshold"),
        switch("biased", "Whether biased content fails it."),
        threshold("biased_threshold"),
        switch("harmful", "Whether harmful content fails it."),
        threshold("harmful_threshold"),
        switch("language", "Whether text in the languages of `language_values` fails it."),
        optional("language_values", Type::Texts, r#""english""#, "Languages."),
        switch("pii", "Whether personal data of `pii_categories` fails it."),
        switch("pii_redact", "Whether it is replaced instead."),
        optional("pii_categories", Type::List, "[]", "Kinds of personal data, as Acuvity names them."),
        switch("secrets", "Whether secrets of `secrets_categories` fail it."),
        switch("secrets_redact", "Whether they are replaced instead."),
        optional("secrets_categories", Type::List, "[]", "Kinds of secrets, as Acuvity names them."),
    ],
    prepare: |parameters| call::prepare(API, parameters),
};

const API: &Partner = &Partner {
    name: "Acuvity",
    base_url: |options| {
        let key = options.required_credential(&["apiKey"])?;
        host_of(key).ok_or_else(|| {
            Unusable::new("credentials", "'parameters.credentials.apiKey' has no URL of Acuvity in it")
        })
    },
    path: |_| "/_acuvity/scan".to_owned(),
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let redactions: Vec<&str> = REDACTED.iter().flat_map(|kind| kind.redactions(input.options)).collect();
        json!({
            "anonymization": "FixedSize",
            "messages": input.texts,
            "redactions": redactions,
            "type": input.pick("Input", "Output"),
        })
    },
    read,
    redacts: |options| REDACTED.iter().any(|kind| !kind.redactions(options).is_empty()),
    per_call: 50,
};

fn host_of(key: &str) -> Option<String> {
    let payload = key.split('.').nth(1)?.trim_end_matches('=');
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
    Some(claims.pointer("/opaque/apex-url")?.as_str()?.to_owned())
}

/// Parameter, and where an extraction has its score.
const SCORED: [(&str, &str, &str); 6] = [
    ("prompt_injection", "exploits", "prompt_injection"),
    ("jail_break", "exploits", "jailbreak"),
    ("malicious_url", "exploits", "malicious_url"),
    ("toxic", "topics", "content/toxic"),
    ("biased", "topics", "content/biased"),
    ("harmful", "topics", "content/harmful"),
];

/// What is found by category, and may be replaced.
struct Kind {
    parameter: &'static str,
    redact: &'static str,
    categories: &'static str,
    /// Where an extraction lists it.
    place: &'static str,
}

const REDACTED: [Kind; 2] = [
    Kind { parameter: "pii", redact: "pii_redact", categories: "pii_categories", place: "PIIs" },
    Kind {
        parameter: "secrets",
        redact: "secrets_redact",
        categories: "secrets_categories",
        place: "secrets",
    },
];

impl Kind {
    fn redactions<'a>(&self, options: &'a Options) -> Vec<&'a str> {
        let is_on = options.flag(self.parameter) && options.flag(self.redact);
        if is_on { options.texts(self.categories) } else { Vec::new() }
    }

    fn is_found(&self, options: &Options, extraction: &Value) -> bool {
        // The API's own clients differ in how the name is written.
        let mut places = extraction.as_object().into_iter().flatten();
        let found = places.find(|(name, _)| name.eq_ignore_ascii_case(self.place));
        let found = found.and_then(|(_, found)| found.as_object());
        let has = |category: &&str| {
            found.is_some_and(|found| found.keys().any(|name| name.eq_ignore_ascii_case(category)))
        };
        options.flag(self.parameter) && options.texts(self.categories).iter().any(has)
    }
}

fn read(input: &Input<'_>, response: &Value) -> Result<PartnerOutcome, String> {
    let lack = || "`extractions`".to_owned();
    let extractions = member(response, &["extractions"])?.as_array().ok_or_else(lack)?;
    let options = input.options;
    let mut failing = Vec::new();
    let mut replaced = Vec::new();
    for extraction in extractions {
        failing.extend(SCORED.iter().filter(|row| is_scored(options, extraction, row)).map(|row| row.0));
        let languages = extraction.get("languages").and_then(Value::as_object);
        let mut spoken = languages.into_iter().flatten().filter(|(_, score)| score.as_f64() >= Some(0.5));
        let values = options.texts("language_values");
        let values = if values.is_empty() { vec!["english"] } else { values };
        let is_spoken = spoken.any(|(name, _)| values.iter().any(|value| value.eq_ignore_ascii_case(name)));
        failing.extend((options.flag("language") && is_spoken).then_some("language"));
        for kind in REDACTED.iter().filter(|kind| kind.is_found(options, extraction)) {
            if kind.redactions(options).is_empty() {
                failing.push(kind.parameter);
            } else {
                replaced.push(kind.parameter);
            }
        }
    }
    failing.sort_unstable();
    failing.dedup();
    replaced.dedup();
    let text = |extraction: &Value| extraction.get("data").and_then(Value::as_str).map(str::to_owned);
    let texts: Vec<Option<String>> =
        if replaced.is_empty() { Vec::new() } else { extractions.iter().map(text).collect() };
    // What could not be replaced may not pass.
    let is_complete = replaced.is_empty() || texts.len() == input.texts.len();
    let data = json!({"failed": failing, "redacted": replaced});
    Ok(PartnerOutcome { verdict: failing.is_empty() && is_complete, data, texts })
}

fn is_scored(options: &Options, extraction: &Value, (parameter, place, name): &(&str, &str, &str)) -> bool {
    let limit = options.number(&format!("{parameter}_threshold")).unwrap_or(0.5);
    let scores = extraction.get(*place).and_then(Value::as_object);
    let score = scores.and_then(|scores| {
        let mut named = scores.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.find_map(|(_, score)| score.as_f64())
    });
    options.flag(parameter) && score.is_some_and(|score| score >= limit)
}
