//! Partners that take a text, or a conversation, and return whether it may pass.

use super::call::{
    self, Input, Partner, PartnerOutcome, by_redact, flag, member, never, no_headers, replaced, text,
};
use crate::guard::check::CheckKind;
use crate::guard::checks::BOTH;
use crate::guard::parameters::{Type, Unusable, optional, required};
use serde_json::{Map, Value, json};

pub(crate) const ZSCALER: CheckKind = CheckKind {
    id: "zscaler.guardrails",
    aliases: &["zscalerAiGuard.zscalerAiGuardCheck"],
    phases: BOTH,
    about: "Passes where the policy of Zscaler AI Guard, or one of its detectors, does not block the text. A block is a failed check, \
            not one that could not run. It may take 10 seconds unless `timeout` says otherwise. `credentials`: `zscalerApiKey`.",
    source: "https://help.zscaler.com/ai-guard",
    parameters: &[
        optional(
            "policyId",
            Type::Id,
            "",
            "The policy: a number or a text. Required, here or in `parameters`.",
        ),
        optional(
            "parameters",
            Type::Object,
            "",
            "An object with `policyId`, as the form `zscalerAiGuard.zscalerAiGuardCheck` has it.",
        ),
    ],
    prepare: |parameters| match policy(|name| parameters.get(name)) {
        Some(Value::String(id)) if !id.is_empty() => call::prepare(ZSCALER_API, parameters),
        Some(Value::Number(_)) => call::prepare(ZSCALER_API, parameters),
        _ => Err(Unusable::new("policyId", "'parameters.policyId' must be set")),
    },
};

const ZSCALER_API: &Partner = &Partner {
    name: "Zscaler AI Guard",
    base_url: |_| Ok("https://api.zseclipse.net".to_owned()),
    path: |_| "/v1/detection/execute-policy".to_owned(),
    auth: ("authorization", "Bearer ", &["zscalerApiKey", "apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let policy = policy(|name| input.options.get(name));
        json!({"policyId": policy, "direction": input.pick("IN", "OUT"), "content": input.text()})
    },
    read: |_, response| {
        let action = text(response, &["action"])?;
        let detectors = response.get("detectorResponses").and_then(Value::as_object);
        let blocks = |detector: &Value| detector.get("action").and_then(Value::as_str) == Some("BLOCK");
        let is_blocked =
            action == "BLOCK" || detectors.is_some_and(|detectors| detectors.values().any(blocks));
        Ok(PartnerOutcome::of(!is_blocked, json!({"action": action, "detectorResponses": detectors})))
    },
    redacts: never,
    per_call: 1,
};

fn policy<'a>(parameter: impl Fn(&str) -> Option<&'a Value>) -> Option<&'a Value> {
    parameter("policyId").or_else(|| parameter("parameters")?.get("policyId"))
}

pub(crate) const LAKERA: CheckKind = CheckKind {
    id: "lakera.guard",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Lakera Guard flags nothing. With `redact` personal data is replaced, and only what else it flags fails. \
            `credentials`: `apiKey`.",
    source: "https://docs.lakera.ai/docs/api/guard",
    parameters: &[
        optional("projectID", Type::Text, "", "The project whose policy applies."),
        optional("redact", Type::Flag, "false", "Whether personal data is replaced by its kind."),
    ],
    prepare: |parameters| call::prepare(LAKERA_API, parameters),
};

const LAKERA_API: &Partner = &Partner {
    name: "Lakera",
    base_url: |_| Ok("https://api.lakera.ai".to_owned()),
    path: |_| "/v2/guard".to_owned(),
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 30_000,
    body: |input| {
        let role = input.pick("user", "assistant");
        let messages: Vec<Value> =
            input.texts.iter().map(|text| json!({"role": role, "content": text})).collect();
        let mut body = json!({"messages": messages, "breakdown": true, "payload": true});
        set(&mut body, "project_id", input.options.text("projectID").map(Value::from));
        body
    },
    read: lakera,
    redacts: by_redact,
    per_call: 20,
};

fn lakera(input: &Input<'_>, response: &Value) -> Result<PartnerOutcome, String> {
    let flagged = flag(response, &["flagged"])?;
    let list = |name: &str| response.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let kind =
        |item: &Value| item.get("detector_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let detected: Vec<String> = list("breakdown")
        .iter()
        .filter(|item| item.get("detected") == Some(&json!(true)))
        .map(kind)
        .collect();
    let data = json!({"flagged": flagged, "detected": detected});
    if !by_redact(input.options) || !flagged {
        return Ok(PartnerOutcome::of(!flagged, data));
    }
    let is_personal = |kind: &String| kind.starts_with("pii");
    let mut ranges: Vec<Vec<(usize, usize, String)>> = vec![Vec::new(); input.texts.len()];
    for item in list("payload").iter().filter(|item| is_personal(&kind(item))) {
        let number = |name: &str| {
            item.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok())
        };
        let message = number("message_id").unwrap_or_default();
        if let (Some(start), Some(end), Some(ranges)) =
            (number("start"), number("end"), ranges.get_mut(message))
        {
            ranges.push((start, end, format!("[{}]", kind(item).to_uppercase())));
        }
    }
    let is_replaced = ranges.iter().any(|ranges| !ranges.is_empty());
    let verdict = is_replaced && !detected.is_empty() && detected.iter().all(is_personal);
    let texts = input.texts.iter().zip(ranges).map(|(text, ranges)| Some(replaced(text, ranges))).collect();
    Ok(PartnerOutcome { verdict, data, texts })
}

pub(crate) const LASSO: CheckKind = CheckKind {
    id: "lasso.classify",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Lasso's deputies find no violation in the conversation. `credentials`: `apiKey`.",
    source: "https://docs.lasso.security",
    parameters: &[
        optional(
            "messages",
            Type::Any,
            "",
            "Accepted, and not used: the conversation of the request is sent.",
        ),
        optional("conversationId", Type::Text, "", "The conversation's id at Lasso."),
        optional("userId", Type::Text, "", "The user's id at Lasso."),
    ],
    prepare: |parameters| call::prepare(LASSO_API, parameters),
};

const LASSO_API: &Partner = &Partner {
    name: "Lasso",
    base_url: |_| Ok("https://server.lasso.security".to_owned()),
    path: |_| "/gateway/v2/classify".to_owned(),
    auth: ("lasso-api-key", "", &["apiKey"]),
    headers: |options| {
        let ids = [("lasso-conversation-id", "conversationId"), ("lasso-user-id", "userId")];
        ids.into_iter().filter_map(|(header, name)| Some((header, options.text(name)?.to_owned()))).collect()
    },
    timeout: 10_000,
    body: |input| json!({"messages": input.messages()}),
    read: |_, response| Ok(PartnerOutcome::of(!flag(response, &["violations_detected"])?, response.clone())),
    redacts: never,
    per_call: 1,
};

pub(crate) const APORIA: CheckKind = CheckKind {
    id: "aporia.validateProject",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the policies of the Aporia project let the text through unchanged. `credentials`: `apiKey`, and \
            `apiEndpoint` for another endpoint than `https://gr-prd.aporia.com`.",
    source: "https://gr-docs.aporia.com",
    parameters: &[required("projectID", Type::Text, "The project's id.")],
    prepare: |parameters| match parameters.text("projectID").filter(|id| is_segment(id)) {
        Some(_) => call::prepare(APORIA_API, parameters),
        None => Err(Unusable::new("projectID", "'parameters.projectID' must be the id of a project")),
    },
};

const APORIA_API: &Partner = &Partner {
    name: "Aporia",
    base_url: |options| {
        Ok(options.credential(&["apiEndpoint"]).unwrap_or("https://gr-prd.aporia.com").to_owned())
    },
    path: |input| format!("/{}/validate", input.options.text("projectID").unwrap_or_default()),
    auth: ("x-aporia-api-key", "", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let mut messages = input.messages();
        if !input.is_request() {
            messages.pop();
        }
        let mut body = json!({
            "messages": messages,
            "explain": true,
            "validation_target": input.pick("prompt", "response"),
        });
        set(&mut body, "response", (!input.is_request()).then(|| json!(input.text())));
        body
    },
    read: |_, response| {
        Ok(PartnerOutcome::of(text(response, &["action"])? == "passthrough", response.clone()))
    },
    redacts: never,
    per_call: 1,
};

pub(crate) const PROMPT_SECURITY_PROMPT: CheckKind = CheckKind {
    id: "promptsecurity.protectPrompt",
    phases: BOTH,
    about: "Passes where Prompt Security does not block the prompt. `credentials`: `apiKey`, `apiDomain`.",
    ..PROMPT_SECURITY
};

pub(crate) const PROMPT_SECURITY_RESPONSE: CheckKind = CheckKind {
    id: "promptsecurity.protectResponse",
    phases: BOTH,
    about: "Passes where Prompt Security does not block the response. `credentials`: `apiKey`, `apiDomain`.",
    ..PROMPT_SECURITY
};

const PROMPT_SECURITY: CheckKind = CheckKind {
    id: "",
    aliases: &[],
    phases: &[],
    about: "",
    source: "https://docs.prompt.security",
    parameters: &[optional(
        "redact",
        Type::Flag,
        "false",
        "Whether every text is sent, and replaced where it is modified.",
    )],
    prepare: |parameters| call::prepare(PROMPT_SECURITY_API, parameters),
};

const PROMPT_SECURITY_API: &Partner = &Partner {
    name: "Prompt Security",
    base_url: |options| Ok(format!("https://{}", options.required_credential(&["apiDomain"])?)),
    path: |_| "/api/protect".to_owned(),
    auth: ("app-id", "", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| object(input.pick("prompt", "response"), json!(input.text())),
    read: |input, response| {
        let result = member(response, &["result", input.pick("prompt", "response")])?;
        let action = text(result, &["action"])?;
        let modified = result.get("modified_text").and_then(Value::as_str).map(str::to_owned);
        let data = json!({"action": action, "violations": result.get("violations"), "findings": result.get("findings")});
        let texts = if by_redact(input.options) { vec![modified] } else { Vec::new() };
        Ok(PartnerOutcome { verdict: action != "block", data, texts })
    },
    redacts: by_redact,
    per_call: 1,
};

pub(crate) const AIRS: CheckKind = CheckKind {
    id: "panw-prisma-airs.intercept",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the profile of Palo Alto Networks' Prisma AIRS does not block the text. `credentials`: `AIRS_API_KEY`.",
    source: "https://pan.dev/prisma-airs/api/airuntimesecurity/scan-sync-request/",
    parameters: &[
        optional("profile_name", Type::Text, "", "The profile's name; this or the id must be there."),
        optional("profile_id", Type::Text, "", "The profile's id."),
        optional("ai_model", Type::Text, r#""unknown-model""#, "The model, as reports show it."),
        optional("app_user", Type::Text, r#""portkey-gateway""#, "The user, as reports show it."),
        optional("app_name", Type::Text, "", "The application, as reports show it."),
    ],
    prepare: |parameters| match parameters.text("profile_name").or(parameters.text("profile_id")) {
        Some(_) => call::prepare(AIRS_API, parameters),
        None => Err(Unusable::new(
            "profile_name",
            "'parameters.profile_name' or 'parameters.profile_id' must be set",
        )),
    },
};

const AIRS_API: &Partner = &Partner {
    name: "Prisma AIRS",
    base_url: |_| Ok("https://service.api.aisecurity.paloaltonetworks.com".to_owned()),
    path: |_| "/v1/scan/sync/request".to_owned(),
    auth: ("x-pan-token", "", &["AIRS_API_KEY", "apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let given = |name: &'static str| Some((name.to_owned(), json!(input.options.text(name)?)));
        let profile: Map<String, Value> =
            ["profile_name", "profile_id"].into_iter().filter_map(given).collect();
        let mut metadata = json!({
            "ai_model": input.options.text("ai_model").unwrap_or("unknown-model"),
            "app_user": input.options.text("app_user").unwrap_or("portkey-gateway"),
        });
        set(&mut metadata, "app_name", input.options.text("app_name").map(Value::from));
        let contents = [object(input.pick("prompt", "response"), json!(input.text()))];
        json!({"ai_profile": profile, "metadata": metadata, "contents": contents})
    },
    read: |_, response| Ok(PartnerOutcome::of(text(response, &["action"])? != "block", response.clone())),
    redacts: never,
    per_call: 1,
};

pub(crate) const WALLED_AI: CheckKind = CheckKind {
    id: "walledai.walledprotect",
    aliases: &[],
    phases: BOTH,
    about: "Passes where Walled AI finds the text safe. `credentials`: `apiKey`.",
    source: "https://docs.walled.ai",
    parameters: &[
        optional("generic_safety_check", Type::Flag, "true", "Whether safety is judged at all."),
        optional(
            "greetings_list",
            Type::List,
            r#"["Casual & Friendly"]"#,
            "Kinds of greetings that are reported.",
        ),
        optional(
            "pii_list",
            Type::List,
            "",
            "Kinds of personal data that are reported; all kinds where it is absent.",
        ),
        optional("compliance_list", Type::List, "[]", "Topics that the text must keep away from."),
    ],
    prepare: |parameters| call::prepare(WALLED_AI_API, parameters),
};

const WALLED_PII: [&str; 7] =
    ["Person's Name", "Address", "Email Id", "Contact No", "Date Of Birth", "Unique Id", "Financial Data"];

const WALLED_AI_API: &Partner = &Partner {
    name: "Walled AI",
    base_url: |_| Ok("https://services.walled.ai".to_owned()),
    path: |_| "/v1/walled-protect".to_owned(),
    auth: ("x-api-key", "", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let given = |name: &str, default: Value| input.options.get(name).cloned().unwrap_or(default);
        json!({
            "text": input.text(),
            "generic_safety_check": given("generic_safety_check", json!(true)),
            "greetings_list": given("greetings_list", json!(["Casual & Friendly"])),
            "pii_list": given("pii_list", json!(WALLED_PII)),
            "compliance_list": given("compliance_list", json!([])),
        })
    },
    read: |_, response| {
        let data = member(response, &["data"])?;
        let is_safe = data.pointer("/safety/0/isSafe").is_none_or(|safe| *safe != false);
        member(data, &["safety"])?;
        Ok(PartnerOutcome::of(is_safe, data.clone()))
    },
    redacts: never,
    per_call: 1,
};

pub(crate) const JAVELIN: CheckKind = CheckKind {
    id: "javelin.guardrails",
    aliases: &[],
    phases: BOTH,
    about: "Passes where none of the guardrails of the Javelin application rejects the text. `credentials`: `apiKey`, `application`, \
            and `domain` for another domain than `api-dev.javelin.live`.",
    source: "https://docs.getjavelin.io/docs/javelin-core/features/guardrails",
    parameters: &[],
    prepare: |parameters| call::prepare(JAVELIN_API, parameters),
};

const JAVELIN_API: &Partner = &Partner {
    name: "Javelin",
    base_url: |options| {
        Ok(format!("https://{}", options.credential(&["domain"]).unwrap_or("api-dev.javelin.live")))
    },
    path: |_| "/v1/guardrails/apply".to_owned(),
    auth: ("x-javelin-apikey", "", &["apiKey"]),
    headers: |options| {
        let application = options.credential(&["application"]);
        application.map(|application| ("x-javelin-application", application.to_owned())).into_iter().collect()
    },
    timeout: 10_000,
    body: |input| json!({"input": {"text": input.text()}}),
    read: |_, response| {
        let lack = || "`assessments`".to_owned();
        let assessments = member(response, &["assessments"])?.as_array().ok_or_else(lack)?;
        let named = assessments.iter().filter_map(Value::as_object).flatten();
        let rejects = named.filter(|(_, assessment)| assessment.get("request_reject") == Some(&json!(true)));
        let names: Vec<&String> = rejects.map(|(name, _)| name).collect();
        Ok(PartnerOutcome::of(names.is_empty(), json!({"flagged": names, "assessments": assessments})))
    },
    redacts: never,
    per_call: 1,
};

pub(crate) const F5: CheckKind = CheckKind {
    id: "f5-guardrails.scan",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the scanners of the F5 (CalypsoAI) project clear the text; with `redact` what they redact is replaced. \
            `credentials`: `apiKey`, and `calypsoUrl` for another URL than `https://us1.calypsoai.app`.",
    source: "https://docs.calypsoai.com/api-docs",
    parameters: &[
        required("projectId", Type::Text, "The project's id."),
        optional("redact", Type::Flag, "false", "Whether texts are replaced by their redacted form."),
    ],
    prepare: |parameters| match parameters.text("projectId").filter(|id| !id.is_empty()) {
        Some(_) => call::prepare(F5_API, parameters),
        None => Err(Unusable::new("projectId", "'parameters.projectId' must be set")),
    },
};

const F5_API: &Partner = &Partner {
    name: "F5 AI Guardrails",
    base_url: |options| {
        Ok(options.credential(&["calypsoUrl"]).unwrap_or("https://us1.calypsoai.app").to_owned())
    },
    path: |_| "/backend/v1/scans".to_owned(),
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 5_000,
    body: |input| json!({"input": input.text(), "project": input.options.text("projectId")}),
    read: |input, response| {
        let outcome = text(response, &["result", "outcome"])?;
        let redacted = response.get("redactedInput").and_then(Value::as_str);
        let is_redacted = by_redact(input.options) && outcome == "redacted" && redacted.is_some();
        let texts = if is_redacted { vec![redacted.map(str::to_owned)] } else { Vec::new() };
        let data = json!({"outcome": outcome, "result": response.get("result")});
        Ok(PartnerOutcome { verdict: outcome == "cleared" || is_redacted, data, texts })
    },
    redacts: by_redact,
    per_call: 1,
};

pub(crate) const PILLAR_PROMPT: CheckKind = CheckKind {
    id: "pillar.scanPrompt",
    phases: BOTH,
    about: "Passes where no scanner of Pillar finds something in the prompt. `credentials`: `apiKey`.",
    ..PILLAR
};

pub(crate) const PILLAR_RESPONSE: CheckKind = CheckKind {
    id: "pillar.scanResponse",
    phases: BOTH,
    about: "Passes where no scanner of Pillar finds something in the response. `credentials`: `apiKey`.",
    ..PILLAR
};

const PILLAR: CheckKind = CheckKind {
    id: "",
    aliases: &[],
    phases: &[],
    about: "",
    source: "https://docs.pillar.security",
    parameters: &[optional(
        "scanners",
        Type::SomeOf(&SCANNERS),
        "",
        "What is looked for; all of them where it is absent.",
    )],
    prepare: |parameters| call::prepare(PILLAR_API, parameters),
};

const SCANNERS: [&str; 5] = ["pii", "prompt_injection", "secrets", "toxic_language", "invisible_characters"];

const PILLAR_API: &Partner = &Partner {
    name: "Pillar",
    base_url: |_| Ok("https://api.pillarseclabs.com".to_owned()),
    path: |input| input.pick("/api/v1/scan/prompt", "/api/v1/scan/response").to_owned(),
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 10_000,
    body: |input| {
        let named = input.options.texts("scanners");
        let is_wanted = |name: &&str| named.is_empty() || named.contains(name);
        let scanners: Map<String, Value> =
            SCANNERS.into_iter().filter(is_wanted).map(|name| (name.to_owned(), json!(true))).collect();
        json!({"message": input.text(), "scanners": scanners})
    },
    read: |_, response| {
        let results =
            response.as_object().filter(|results| SCANNERS.iter().any(|name| results.contains_key(*name)));
        let results = results.ok_or_else(|| "result of a scanner".to_owned())?;
        let found =
            |name: &&str| !matches!(results.get(*name), None | Some(Value::Null | Value::Bool(false)));
        Ok(PartnerOutcome::of(!SCANNERS.iter().any(found), response.clone()))
    },
    redacts: never,
    per_call: 1,
};

pub(crate) const AKTO: CheckKind = CheckKind {
    id: "akto.scan",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the guardrails of Akto allow the text. `credentials`: `apiKey`, and `apiDomain` or `baseUrl`.",
    source: "https://docs.akto.io",
    parameters: &[],
    prepare: |parameters| call::prepare(AKTO_API, parameters),
};

const AKTO_API: &Partner = &Partner {
    name: "Akto",
    base_url: |options| {
        let domain = options.credential(&["apiDomain"]).unwrap_or("1726615470-guardrails.akto.io");
        Ok(if domain.contains("://") { domain.to_owned() } else { format!("https://{domain}") })
    },
    path: |_| "/api/validate/request".to_owned(),
    auth: ("authorization", "Bearer ", &["apiKey"]),
    headers: no_headers,
    timeout: 5_000,
    body: |input| {
        let model = input.subject.model.as_deref().unwrap_or("unknown");
        let payload = json!({"prompt": input.text(), "model": model});
        json!({"payload": payload.to_string()})
    },
    read: |_, response| {
        let is_allowed = flag(response, &["Allowed"])?;
        let reason = response.get("Reason");
        Ok(PartnerOutcome::of(
            is_allowed,
            json!({"allowed": is_allowed, "reason": reason, "metadata": response.get("Metadata")}),
        ))
    },
    redacts: never,
    per_call: 1,
};

/// Sets a member of an object where there is a value.
fn set(object: &mut Value, name: &str, value: Option<Value>) {
    if let (Some(members), Some(value)) = (object.as_object_mut(), value) {
        members.insert(name.to_owned(), value);
    }
}

fn object(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

/// Whether a text can be one segment of a path as it is.
fn is_segment(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
