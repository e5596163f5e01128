//! Moderation by the providers Mistral and OpenAI: which of some categories a text is of.

use super::call::{self, Input, Options, Partner, PartnerOutcome, member, never, no_headers};
use crate::guard::check::CheckKind;
use crate::guard::checks::{BOTH, NOT};
use crate::guard::parameters::{Type, optional};
use serde_json::{Value, json};
use words::api::operation::Operation;

const MISTRAL_CATEGORIES: [&str; 10] = [
    "sexual",
    "hate_and_discrimination",
    "violence_and_threats",
    "dangerous_and_criminal_content",
    "selfharm",
    "health",
    "financial",
    "law",
    "pii",
    "jailbreaking",
];

const OPENAI_CATEGORIES: [&str; 13] = [
    "hate",
    "hate/threatening",
    "harassment",
    "harassment/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/intent",
    "self-harm/instructions",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
];

pub const MISTRAL: CheckKind = CheckKind {
    id: "mistral.moderateContent",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Mistral's moderation model finds none of the categories. `credentials`: `apiKey`.",
    source: "https://docs.mistral.ai/capabilities/guardrailing",
    parameters: &[
        optional(
            "categories",
            Type::SomeOf(&MISTRAL_CATEGORIES),
            "",
            "What must not be there; all of them where it is absent.",
        ),
        optional("model", Type::Text, r#""mistral-moderation-latest""#, "The model that judges."),
        NOT,
    ],
    prepare: |parameters| call::prepare(MISTRAL_API, parameters),
};

const MISTRAL_API: &Partner = &Partner {
    name: "Mistral",
    base_url: |_| Ok("https://api.mistral.ai".to_owned()),
    path: |input| {
        if is_chat(input) { "/v1/chat/moderations".to_owned() } else { "/v1/moderations".to_owned() }
    },
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let model = input.options.text("model").unwrap_or("mistral-moderation-latest");
        if is_chat(input) {
            json!({"model": model, "input": [input.messages()]})
        } else {
            json!({"model": model, "input": [input.text()]})
        }
    },
    read: flagged,
    redacts: never,
    per_call: 1,
};

/// A chat is judged with what was said before.
fn is_chat(input: &Input<'_>) -> bool {
    input.is_request() && input.subject.operation == Operation::ChatCompletions
}

pub const OPENAI: CheckKind = CheckKind {
    id: "openai.moderateContent",
    aliases: &[],
    phases: BOTH,
    about: "Passes where OpenAI's moderation model finds none of the categories. `credentials`: `apiKey`.",
    source: "https://platform.openai.com/docs/api-reference/moderations",
    parameters: &[
        optional(
            "categories",
            Type::SomeOf(&OPENAI_CATEGORIES),
            "",
            "What must not be there; all of them where it is absent.",
        ),
        optional("model", Type::Text, r#""omni-moderation-latest""#, "The model that judges."),
        NOT,
    ],
    prepare: |parameters| call::prepare(OPENAI_API, parameters),
};

const OPENAI_API: &Partner = &Partner {
    name: "OpenAI",
    base_url: |_| Ok("https://api.openai.com".to_owned()),
    path: |_| "/v1/moderations".to_owned(),
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let model = input.options.text("model").unwrap_or("omni-moderation-latest");
        json!({"model": model, "input": input.text()})
    },
    read: flagged,
    redacts: never,
    per_call: 1,
};

/// `results[0].categories`: name to whether the text is of it.
fn flagged(input: &Input<'_>, response: &Value) -> Result<PartnerOutcome, String> {
    let lack = || "`results.0.categories`".to_owned();
    let categories = member(response, &["results", "0", "categories"])?.as_object().ok_or_else(lack)?;
    let wanted = wanted(input.options);
    let is_wanted = |name: &str| wanted.is_empty() || wanted.contains(&name);
    let flagged: Vec<&String> = categories
        .iter()
        .filter(|(name, flag)| **flag == true && is_wanted(name))
        .map(|(name, _)| name)
        .collect();
    let scores = response.pointer("/results/0/category_scores").cloned().unwrap_or_default();
    let data = json!({"flagged_categories": flagged, "category_scores": scores});
    Ok(PartnerOutcome::of(flagged.is_empty() != input.options.flag("not"), data))
}

fn wanted(options: &Options) -> Vec<&str> {
    options.texts("categories")
}
