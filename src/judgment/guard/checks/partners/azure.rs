//! Azure AI: Content Safety, Prompt Shields, protected material, and personal data of the Language service.
//!
//! Authorized with a key of the resource. Sign-in through Entra and managed identities are not supported here.

use super::call::{
    self, Input, Options, Partner, PartnerOutcome, by_redact, flag, member, never, no_headers,
};
use crate::guard::check::{CheckKind, Prepared};
use crate::guard::checks::BOTH;
use crate::guard::parameters::{Parameter, Parameters, Type, Unusable, optional};
use serde_json::{Value, json};

const KEY: (&str, &str, &[&str]) = ("ocp-apim-subscription-key", "", &["apiKey"]);

const fn api_version(default: &'static str) -> Parameter {
    optional("apiVersion", Type::Text, default, "The version of the API.")
}

fn prepare(partner: &'static Partner, parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let options = Options::new(parameters);
    if let (None, Some(mode)) = (options.credential(&["apiKey"]), options.credential(&["azureAuthMode"])) {
        let message =
            format!("`azureAuthMode` {mode} is not supported: 'parameters.credentials.apiKey' must be set");
        return Err(Unusable::new("credentials", message));
    }
    call::prepare(partner, parameters)
}

fn resource(options: &Options) -> Result<String, Unusable> {
    let name = options.required_credential(&["resourceName"])?;
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        Ok(format!("https://{name}.cognitiveservices.azure.com"))
    } else {
        Err(Unusable::new(
            "credentials",
            "'parameters.credentials.resourceName' must be the name of a resource",
        ))
    }
}

fn versioned(input: &Input<'_>, path: &str, default: &str) -> String {
    let version = input.options.text("apiVersion").unwrap_or(default);
    let version: String =
        version.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')).collect();
    format!("{path}?api-version={version}")
}

pub(crate) const CONTENT_SAFETY: CheckKind = CheckKind {
    id: "azure.contentSafety",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Azure AI Content Safety rates no category as severe and finds nothing of the block lists. `credentials`: \
            `resourceName`, `apiKey`, also inside of `contentSafety`.",
    source: "https://learn.microsoft.com/en-us/rest/api/contentsafety/text-operations/analyze-text",
    parameters: &[
        optional("severity", Type::Number, "2", "The severity from which the check fails: 0 to 7."),
        optional(
            "categories",
            Type::SomeOf(&CATEGORIES),
            r#"["Hate", "SelfHarm", "Sexual", "Violence"]"#,
            "What is rated.",
        ),
        optional("blocklistNames", Type::List, "[]", "Block lists of the resource."),
        api_version(r#""2024-09-01""#),
    ],
    prepare: |parameters| prepare(CONTENT_SAFETY_API, parameters),
};

const CATEGORIES: [&str; 4] = ["Hate", "SelfHarm", "Sexual", "Violence"];

const CONTENT_SAFETY_API: &Partner = &Partner {
    name: "Azure Content Safety",
    base_url: resource,
    path: |input| versioned(input, "/contentsafety/text:analyze", "2024-09-01"),
    auth: KEY,
    headers: no_headers,
    timeout: 5_000,
    body: |input| {
        let categories = input.options.texts("categories");
        let categories = if categories.is_empty() { CATEGORIES.to_vec() } else { categories };
        json!({
            "text": input.text(),
            "categories": categories,
            "blocklistNames": input.options.texts("blocklistNames"),
        })
    },
    read: |input, response| {
        let lack = || "`categoriesAnalysis`".to_owned();
        let ratings = member(response, &["categoriesAnalysis"])?.as_array().ok_or_else(lack)?;
        let limit = input.options.number("severity").unwrap_or(2.0);
        let is_severe = |rating: &Value| {
            rating.get("severity").and_then(Value::as_f64).is_some_and(|rated| rated >= limit)
        };
        let matches = response.get("blocklistsMatch").and_then(Value::as_array);
        let lists: Vec<&Value> =
            matches.into_iter().flatten().filter_map(|found| found.get("blocklistName")).collect();
        let verdict = !ratings.iter().any(is_severe) && matches.is_none_or(Vec::is_empty);
        Ok(PartnerOutcome::of(verdict, json!({"categoriesAnalysis": ratings, "blocklists": lists})))
    },
    redacts: never,
    per_call: 1,
};

pub(crate) const SHIELD_PROMPT: CheckKind = CheckKind {
    id: "azure.shieldPrompt",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Azure Prompt Shields detects no attack in the prompt. `credentials` as of `azure.contentSafety`.",
    source: "https://learn.microsoft.com/en-us/rest/api/contentsafety/text-operations/detect-text-jailbreak",
    parameters: &[api_version(r#""2024-09-01""#)],
    prepare: |parameters| prepare(SHIELD_PROMPT_API, parameters),
};

const SHIELD_PROMPT_API: &Partner = &Partner {
    name: "Azure Prompt Shields",
    base_url: resource,
    path: |input| versioned(input, "/contentsafety/text:shieldPrompt", "2024-09-01"),
    auth: KEY,
    headers: no_headers,
    timeout: 5_000,
    body: |input| json!({"userPrompt": input.text(), "documents": []}),
    read: |_, response| {
        let in_prompt = flag(response, &["userPromptAnalysis", "attackDetected"])?;
        let documents = response.get("documentsAnalysis").and_then(Value::as_array);
        let in_documents =
            documents.into_iter().flatten().any(|found| found.get("attackDetected") == Some(&json!(true)));
        Ok(PartnerOutcome::of(!in_prompt && !in_documents, response.clone()))
    },
    redacts: never,
    per_call: 1,
};

pub(crate) const PROTECTED_MATERIAL: CheckKind = CheckKind {
    id: "azure.protectedMaterial",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Azure detects no protected material in the response. `credentials` as of `azure.contentSafety`.",
    source: "https://learn.microsoft.com/en-us/rest/api/contentsafety/text-operations/detect-text-protected-material",
    parameters: &[api_version(r#""2024-09-01""#)],
    prepare: |parameters| prepare(PROTECTED_MATERIAL_API, parameters),
};

const PROTECTED_MATERIAL_API: &Partner = &Partner {
    name: "Azure protected material",
    base_url: resource,
    path: |input| versioned(input, "/contentsafety/text:detectProtectedMaterial", "2024-09-01"),
    auth: KEY,
    headers: no_headers,
    timeout: 5_000,
    body: |input| json!({"text": input.text()}),
    read: |_, response| {
        let is_detected = flag(response, &["protectedMaterialAnalysis", "detected"])?;
        Ok(PartnerOutcome::of(!is_detected, response.clone()))
    },
    redacts: never,
    per_call: 1,
};

pub(crate) const PII: CheckKind = CheckKind {
    id: "azure.pii",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Azure AI Language finds no personal data; with `redact` it is replaced. `credentials`: `resourceName`, \
            `apiKey`, also inside of `pii`.",
    source: "https://learn.microsoft.com/en-us/rest/api/language/text-analysis-runtime/analyze-text",
    parameters: &[
        optional("domain", Type::Text, r#""none""#, "`phi` for health information only."),
        optional("piiCategories", Type::List, "", "What is looked for; all of them where it is absent."),
        optional("modelVersion", Type::Text, r#""latest""#, "The version of the model."),
        optional("language", Type::Text, r#""en""#, "The language of the texts."),
        optional("redact", Type::Flag, "false", "Whether texts are replaced by their redacted form."),
        api_version(r#""2024-11-01""#),
    ],
    prepare: |parameters| prepare(PII_API, parameters),
};

const PII_API: &Partner = &Partner {
    name: "Azure Language",
    base_url: resource,
    path: |input| versioned(input, "/language/:analyze-text", "2024-11-01"),
    auth: KEY,
    headers: no_headers,
    timeout: 5_000,
    body: pii_request,
    read: pii_result,
    redacts: by_redact,
    // The service's limit of documents a request.
    per_call: 5,
};

fn pii_request(input: &Input<'_>) -> Value {
    let option = |name: &str, default: &str| input.options.text(name).unwrap_or(default).to_owned();
    let language = option("language", "en");
    let document =
        |(index, text): (usize, &&str)| json!({"id": index.to_string(), "text": text, "language": language});
    let documents: Vec<Value> = input.texts.iter().enumerate().map(document).collect();
    let mut parameters = json!({
        "domain": option("domain", "none"),
        "modelVersion": option("modelVersion", "latest"),
    });
    if let (Some(members), Some(categories)) =
        (parameters.as_object_mut(), input.options.get("piiCategories"))
    {
        members.insert("piiCategories".to_owned(), categories.clone());
    }
    json!({
        "kind": "PiiEntityRecognition",
        "parameters": parameters,
        "analysisInput": {"documents": documents},
    })
}

/// What was found, without the texts themselves.
fn pii_result(input: &Input<'_>, response: &Value) -> Result<PartnerOutcome, String> {
    let lack = || "`results.documents`".to_owned();
    let documents = member(response, &["results", "documents"])?.as_array().ok_or_else(lack)?;
    if documents.len() != input.texts.len() {
        return Err("result for each document".to_owned());
    }
    let mut texts = vec![None; input.texts.len()];
    let mut entities = Vec::new();
    for document in documents {
        let index: Option<usize> = document.get("id").and_then(Value::as_str).and_then(|id| id.parse().ok());
        let redacted = document.get("redactedText").and_then(Value::as_str);
        if let Some(text) = index.and_then(|index| texts.get_mut(index)) {
            *text = redacted.map(str::to_owned);
        }
        let found = member(document, &["entities"])?.as_array().into_iter().flatten();
        entities.extend(found.map(|entity| {
            let part = |name: &str| entity.get(name).cloned().unwrap_or_default();
            json!({
                "category": part("category"),
                "offset": part("offset"),
                "length": part("length"),
                "confidenceScore": part("confidenceScore"),
            })
        }));
    }
    let is_replaced = by_redact(input.options) && texts.iter().all(Option::is_some);
    let verdict = entities.is_empty() || is_replaced;
    let texts = if is_replaced { texts } else { Vec::new() };
    Ok(PartnerOutcome { verdict, data: json!({"entities": entities}), texts })
}
