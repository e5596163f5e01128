//! `default.allowedRequestTypes`: which operations are allowed, by Portkey's names (`chatComplete`, `embed` …).

use super::BEFORE;
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, optional, request_types};
use crate::guard::subject::Subject;
use serde_json::{Value, json};
use words::api::operation::Operation;

pub(crate) const ALLOWED_REQUEST_TYPES: CheckKind = CheckKind {
    id: "default.allowedRequestTypes",
    aliases: &[],
    phases: BEFORE,
    about: "Passes where the request's type is allowed and not blocked; without any list every type is. A list that is not given is \
            taken from the request's metadata: `supported_endpoints`, `blocked_endpoints`. Types are `chatComplete`, `complete`, \
            `embed`, `messages`, `createModelResponse`, `imageGenerate`, `createBatch`, `createFinetune` and the like; \
            `stream-chatComplete`, `stream-complete`, `stream-messages` and `stream-createModelResponse` mean their streams only; \
            `proxy` is the generic endpoint, where a type is also blocked if the path ends as that type's. A parameter with any \
            other type is refused.",
    source: "",
    parameters: &[
        optional("allowedTypes", Type::RequestTypes, "", "The types that are allowed."),
        optional("blockedTypes", Type::RequestTypes, "", "The types that are not."),
    ],
    prepare,
};

#[derive(Debug)]
struct AllowedRequestTypes {
    allowed: Vec<String>,
    blocked: Vec<String>,
}

#[expect(clippy::unnecessary_wraps, reason = "what prepares a check may fail")]
fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let list = |name| types(parameters.get(name));
    let check = AllowedRequestTypes { allowed: list("allowedTypes"), blocked: list("blockedTypes") };
    Ok(Prepared::Local(Box::new(check)))
}

fn types(list: Option<&Value>) -> Vec<String> {
    list.map(request_types).unwrap_or_default().into_iter().map(str::to_owned).collect()
}

fn explain(current: &str, verdict: bool, is_blocked: bool, allowed: &[String]) -> String {
    match (verdict, is_blocked) {
        (true, _) => format!("Request type \"{current}\" is allowed."),
        (false, true) => format!("Request type \"{current}\" is blocked."),
        (false, false) => {
            let allowed = allowed.join(", ");
            format!("Request type \"{current}\" is not allowed. Allowed types are: {allowed}")
        }
    }
}

impl LocalCheck for AllowedRequestTypes {
    fn run(&self, subject: &Subject) -> Finding {
        let current = subject.operation.reference_name();
        let of_metadata = |own: &Vec<String>, name: &str| {
            if own.is_empty() { types(subject.metadata.get(name)) } else { own.clone() }
        };
        let allowed = of_metadata(&self.allowed, "supported_endpoints");
        let blocked = of_metadata(&self.blocked, "blocked_endpoints");
        let source = match (
            self.allowed.is_empty() && self.blocked.is_empty(),
            allowed.is_empty() && blocked.is_empty(),
        ) {
            (false, _) => "parameters",
            (true, false) => "metadata",
            (true, true) => "default",
        };
        let both: Vec<&str> =
            allowed.iter().filter(|name| blocked.contains(name)).map(String::as_str).collect();
        if !both.is_empty() {
            let message = format!(
                "Conflict detected: The following types appear in both allowedTypes and blockedTypes: {}. Please remove them from one list.",
                both.join(", ")
            );
            let data = json!({
                "explanation": format!("An error occurred while checking allowed request types: {message}"),
                "currentRequestType": current,
                "allowedTypes": allowed,
                "blockedTypes": blocked,
            });
            return Finding::failed("Error", message).with_data(data);
        }
        let is = |operation: Operation, name: &String| operation.is_named(name, subject.streamed);
        let is_blocked = blocked.iter().any(|name| {
            is(subject.operation, name) || subject.meant.is_some_and(|operation| is(operation, name))
        });
        let is_allowed = allowed.is_empty() || allowed.iter().any(|name| is(subject.operation, name));
        let verdict = !is_blocked && is_allowed;
        let mode = match (allowed.is_empty(), blocked.is_empty()) {
            (true, true) => "unrestricted",
            (false, true) => "allowlist",
            (true, false) => "blocklist",
            (false, false) => "combined",
        };
        let explanation = explain(current, verdict, is_blocked, &allowed);
        let shown = if mode == "unrestricted" { vec!["all".to_owned()] } else { allowed };
        Finding::of(
            verdict,
            json!({
                "explanation": explanation,
                "currentRequestType": current,
                "allowedTypes": shown,
                "blockedTypes": blocked,
                "verdict": verdict,
                "source": source,
                "mode": mode,
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, of_operation, request, run, with_metadata};

    #[test]
    fn blocked_types_come_first() {
        let embed = of_operation(Operation::Embeddings, &json!({"model": "e", "input": "a"}));
        for (parameters, metadata, subject, verdict, mode, source) in [
            (
                json!({"allowedTypes": ["chatComplete"]}),
                json!({}),
                embed.clone(),
                false,
                "allowlist",
                "parameters",
            ),
            (
                json!({"allowedTypes": "complete, embed"}),
                json!({}),
                embed.clone(),
                true,
                "allowlist",
                "parameters",
            ),
            (json!({"blockedTypes": ["embed"]}), json!({}), embed.clone(), false, "blocklist", "parameters"),
            (json!({}), json!({}), embed.clone(), true, "unrestricted", "default"),
            (
                json!({}),
                json!({"supported_endpoints": "chatComplete,embed"}),
                embed.clone(),
                true,
                "allowlist",
                "metadata",
            ),
            (json!({}), json!({"blocked_endpoints": "embed"}), embed.clone(), false, "blocklist", "metadata"),
            (
                json!({"allowedTypes": ["messages"], "blockedTypes": ["embed"]}),
                json!({}),
                request("a"),
                false,
                "combined",
                "parameters",
            ),
        ] {
            let finding = run(&ALLOWED_REQUEST_TYPES, parameters.clone(), &with_metadata(subject, metadata));
            let found = data(&finding);
            assert_eq!(finding.verdict, verdict, "{parameters}");
            assert_eq!((&found["mode"], &found["source"]), (&json!(mode), &json!(source)));
        }
        let mut elsewhere = of_operation(Operation::Passthrough, &json!({}));
        elsewhere.meant = Some(Operation::ChatCompletions);
        for (parameters, verdict) in [
            (json!({"blockedTypes": ["chatComplete"]}), false),
            (json!({"allowedTypes": ["chatComplete"]}), false),
            (json!({"allowedTypes": ["proxy"]}), true),
        ] {
            assert_eq!(run(&ALLOWED_REQUEST_TYPES, parameters, &elsewhere).verdict, verdict);
        }
    }

    #[test]
    fn streams_are_types_of_their_own() {
        for (is_streamed, parameters, verdict) in [
            (true, json!({"blockedTypes": ["stream-chatComplete"]}), false),
            (false, json!({"blockedTypes": ["stream-chatComplete"]}), true),
            (true, json!({"blockedTypes": ["stream-messages"]}), true),
            (true, json!({"allowedTypes": ["stream-chatComplete"]}), true),
            (false, json!({"allowedTypes": ["stream-chatComplete"]}), false),
            (true, json!({"allowedTypes": ["chatComplete"], "blockedTypes": "stream-chatComplete"}), false),
        ] {
            let chat = Subject { streamed: is_streamed, ..request("a") };
            assert_eq!(
                run(&ALLOWED_REQUEST_TYPES, parameters.clone(), &chat).verdict,
                verdict,
                "{parameters}"
            );
        }
    }

    #[test]
    fn a_type_in_both_lists_is_an_error() {
        let embed = of_operation(Operation::Embeddings, &json!({"model": "e", "input": "a"}));
        let both = json!({"allowedTypes": ["embed", "messages"], "blockedTypes": "messages"});
        let finding = run(&ALLOWED_REQUEST_TYPES, both, &embed);
        assert!(
            !finding.verdict
                && error(&finding).starts_with("Conflict detected: ")
                && error(&finding).contains(": messages.")
        );
    }

    #[test]
    fn only_types_are_taken() {
        let problem = |value: Value| Type::RequestTypes.problem(&value);
        for fine in [
            json!(["chatComplete", "stream-chatComplete", "proxy", "getBatchOutput"]),
            json!("complete, stream-complete,"),
            json!([]),
            Value::Null,
        ] {
            assert_eq!(problem(fine.clone()), None, "{fine}");
        }
        for (wrong, wanted) in [
            (json!(["chatComplete", "chatcomplete"]), "has \"chatcomplete\""),
            (json!("stream-embed"), "has \"stream-embed\""),
            (json!([1]), "must be a list"),
            (json!({}), "must be a list"),
        ] {
            assert!(problem(wrong.clone()).is_some_and(|found| found.contains(wanted)), "{wrong}");
        }
    }
}
