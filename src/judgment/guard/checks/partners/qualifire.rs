//! Evaluations of Qualifire.

use super::call::{self, Input, Partner, PartnerOutcome, content_text, member, never, no_headers, text};
use crate::guard::check::{CheckKind, Prepared};
use crate::guard::checks::BOTH;
use crate::guard::parameters::{Parameter, Parameters, Type, Unusable, optional, required};
use serde_json::{Map, Value, json};
use words::config::hooks::HookPhase;

const AFTER: &[HookPhase] = &[HookPhase::After];

const fn mode() -> Parameter {
    optional(
        "mode",
        Type::OneOf(&["speed", "balanced", "quality"]),
        r#""balanced""#,
        "What matters more: speed or quality.",
    )
}

const MODE: &[Parameter] = &[mode()];

const fn evaluation(
    id: &'static str,
    phases: &'static [HookPhase],
    about: &'static str,
    prepare: fn(&Parameters<'_>) -> Result<Prepared, Unusable>,
) -> CheckKind {
    CheckKind {
        id,
        aliases: &[],
        phases,
        about,
        source: "https://docs.qualifire.ai",
        parameters: MODE,
        prepare,
    }
}

const fn api(body: fn(&Input<'_>) -> Value) -> Partner {
    Partner {
        name: "Qualifire",
        base_url: |_| Ok("https://proxy.qualifire.ai".to_owned()),
        path: |_| "/api/evaluation/evaluate".to_owned(),
        auth: ("x-qualifire-api-key", "", &["apiKey"]),
        headers: no_headers,
        timeout: 10_000,
        body,
        read: |_, response| {
            let status = text(response, &["status"])?;
            let results = response.get("evaluationResults").cloned().unwrap_or_default();
            Ok(PartnerOutcome::of(
                status == "success",
                json!({"status": status, "evaluationResults": results}),
            ))
        },
        redacts: never,
        per_call: 1,
    }
}

/// The text, or the pair of request and response, with the checks that are switched on and how thorough they are.
fn body(input: &Input<'_>, checks: &[&str], mode_of: Option<&str>) -> Value {
    let mut body = Map::new();
    body.insert("input".to_owned(), json!(input.prompt()));
    if !input.is_request() {
        body.insert("output".to_owned(), json!(input.text()));
    }
    body.extend(checks.iter().map(|check| ((*check).to_owned(), json!(true))));
    if let Some(name) = mode_of {
        body.insert(name.to_owned(), json!(input.options.text("mode").unwrap_or("balanced")));
    }
    Value::Object(body)
}

const MODERATION_API: &Partner = &api(|input| {
    let checks = ["dangerous_content_check", "harassment_check", "hate_speech_check", "sexual_content_check"];
    body(input, &checks, None)
});
const PII_API: &Partner = &api(|input| body(input, &["pii_check"], None));
const INJECTIONS_API: &Partner = &api(|input| body(input, &["prompt_injections"], None));
const HALLUCINATIONS_API: &Partner =
    &api(|input| body(input, &["hallucinations_check"], Some("hallucinations_mode")));
const GROUNDING_API: &Partner = &api(|input| body(input, &["grounding_check"], Some("grounding_mode")));
const POLICY_API: &Partner = &api(|input| {
    let mut body = body(input, &[], Some("assertions_mode"));
    if let Some(members) = body.as_object_mut() {
        members.insert("assertions".to_owned(), json!(input.options.texts("policies")));
        match input.options.text("policy_target") {
            Some("input") => members.remove("output"),
            Some("output") if !input.is_request() => members.remove("input"),
            _ => None,
        };
    }
    body
});
const TOOLS_API: &Partner = &api(|input| {
    json!({
        "messages": conversation(input),
        "available_tools": available_tools(input),
        "tool_selection_quality_check": true,
        "tsq_mode": input.options.text("mode").unwrap_or("balanced"),
    })
});

/// The last message of the request, and the response with its tool calls.
fn conversation(input: &Input<'_>) -> Vec<Value> {
    let mut messages: Vec<Value> = input.messages();
    messages.pop();
    let mut messages: Vec<Value> = messages.pop().into_iter().collect();
    let message = input.subject.response.get().pointer("/choices/0/message").cloned().unwrap_or_default();
    let calls = message.get("tool_calls").and_then(Value::as_array);
    let call = |call: &Value| {
        let function = call.get("function")?;
        let arguments: Value = serde_json::from_str(function.get("arguments")?.as_str()?).ok()?;
        Some(json!({"id": call.get("id"), "name": function.get("name"), "arguments": arguments}))
    };
    let calls: Vec<Value> = calls.into_iter().flatten().filter_map(call).collect();
    let content = member(&message, &["content"]).map(content_text).unwrap_or_default();
    messages.push(json!({"role": "assistant", "content": content, "tool_calls": calls}));
    messages
}

fn available_tools(input: &Input<'_>) -> Vec<Value> {
    let tools = input.subject.request.get().get("tools").and_then(Value::as_array);
    let tool = |tool: &Value| {
        let function = tool.get("function")?;
        Some(json!({
            "name": function.get("name")?,
            "description": function.get("description"),
            "parameters": function.get("parameters"),
        }))
    };
    tools.into_iter().flatten().filter_map(tool).collect()
}

pub(crate) const CONTENT_MODERATION: CheckKind = evaluation(
    "qualifire.contentModeration",
    BOTH,
    "Passes where Qualifire finds no dangerous, harassing, hateful or sexual content. `credentials`: `apiKey`.",
    |given| call::prepare(MODERATION_API, given),
);
pub(crate) const PII: CheckKind = evaluation(
    "qualifire.pii",
    BOTH,
    "Passes where Qualifire finds no personal data. `credentials`: `apiKey`.",
    |given| call::prepare(PII_API, given),
);
pub(crate) const PROMPT_INJECTIONS: CheckKind = evaluation(
    "qualifire.promptInjections",
    BOTH,
    "Passes where Qualifire finds no prompt injection. `credentials`: `apiKey`.",
    |given| call::prepare(INJECTIONS_API, given),
);
pub(crate) const HALLUCINATIONS: CheckKind = evaluation(
    "qualifire.hallucinations",
    AFTER,
    "Passes where Qualifire finds no hallucination in the response. `credentials`: `apiKey`.",
    |given| call::prepare(HALLUCINATIONS_API, given),
);
pub const GROUNDING: CheckKind = evaluation(
    "qualifire.grounding",
    AFTER,
    "Passes where the response is grounded in the request. `credentials`: `apiKey`.",
    |given| call::prepare(GROUNDING_API, given),
);
pub(crate) const TOOL_USE_QUALITY: CheckKind = evaluation(
    "qualifire.toolUseQuality",
    AFTER,
    "Passes where the response calls the right tools with the right values. It needs the whole response: of a stream there are \
     only texts. `credentials`: `apiKey`.",
    |given| call::prepare(TOOLS_API, given),
);
pub(crate) const POLICY: CheckKind = CheckKind {
    parameters: &[
        required(
            "policies",
            Type::List,
            "Sentences that must hold, as `The model may not offer a discount`.",
        ),
        optional(
            "policy_target",
            Type::OneOf(&["input", "output", "both"]),
            r#""both""#,
            "What they are held against, of a response.",
        ),
        mode(),
    ],
    ..evaluation(
        "qualifire.policy",
        BOTH,
        "Passes where Qualifire finds no violation of the policies. `credentials`: `apiKey`.",
        |given| {
            if given.texts("policies").is_some_and(|policies| !policies.is_empty()) {
                call::prepare(POLICY_API, given)
            } else {
                Err(Unusable::new("policies", "'parameters.policies' must have a policy"))
            }
        },
    )
};
