//! The config object in the schema: what `Config::read` takes, under `configs.<id>`.
//!
//! `docs/config.md` says what the keys do. Which keys a config must have at least (a list of combinations) only the
//! reader checks: an editor's message about it would name them all.

use super::account;
use crate::config::policies::Policies;
use crate::json::schema::{
    flag, free, integer, list, number, object, one_of, or, pattern, see, statuses, text,
};
use serde_json::{Value, json};

/// Every definition that a config refers to.
pub(super) fn definitions(providers: &[&str]) -> Value {
    json!({
        "config": config(providers),
        "strategy": strategy(),
        "query": query(),
        "request_hook": hook(true),
        "response_hook": hook(false),
        "request_guardrail": guardrail(true),
        "response_guardrail": guardrail(false),
        "deny_action": action(true),
        "action": action(false),
    })
}

fn config(providers: &[&str]) -> Value {
    let provider = json!({
        "anyOf": [{"enum": providers}, {"type": "string", "pattern": "^@."}, {"$ref": "#/$defs/reference"}],
        "description": "A provider, or @slug of a stored one.",
    });
    let mut keys = vec![
        ("name", text("The name by which conditions refer to this target.")),
        ("provider", provider),
        ("virtual_key", text("The slug of a stored provider; the older form of provider: '@slug'.")),
        ("strategy", see("strategy", "How one of the targets is chosen.")),
        (
            "targets",
            list(
                "Configs themselves; at most 16 levels deep and 1,000 in all.",
                json!({"$ref": "#/$defs/config"}),
            ),
        ),
        ("weight", or(number("Share in load balancing.", 0.0), 1)),
        ("on_status_codes", statuses("Statuses on which fallback tries the next target.")),
        ("hedge", hedge()),
        ("price", price()),
        ("prompt_id", text("The prompt that a target renders, in requests to /v1/prompts/{id}/completions.")),
    ];
    keys.extend(Policies::schemas());
    keys.extend(account::keys(true));
    object("How a request is routed (docs/config.md).", &[], keys)
}

fn strategy() -> Value {
    let condition = object(
        "Uses the target `then` where the query holds.",
        &["query", "then"],
        vec![
            ("query", see("query", "All members must hold.")),
            ("then", text("The name of a target of this level.")),
        ],
    );
    let sticky = object(
        "In loadbalance mode: the same client gets the same target.",
        &["enabled"],
        vec![
            ("enabled", flag("Whether it is on.")),
            (
                "hash_fields",
                json!({
                    "type": "array",
                    "maxItems": 16,
                    "items": pattern("A value of the request.", r"^(metadata|params|headers)\..", &["metadata.user"]),
                    "description": "What identifies a client besides its service key.",
                }),
            ),
            ("ttl", or(integer("Seconds.", 1, Some(31_536_000)), 300)),
        ],
    );
    object(
        "How one of the targets is chosen.",
        &["mode"],
        vec![
            ("mode", one_of("The kind of choice.", ["single", "loadbalance", "fallback", "conditional"])),
            ("conditions", list("In conditional mode: tried in this order.", condition)),
            ("default", text("In conditional mode: the name of the target when no condition holds.")),
            ("on_status_codes", statuses("Statuses on which fallback tries the next target.")),
            ("cb_config", see("breaker", "As cb_config of the config.")),
            (
                "by",
                or(
                    one_of("In loadbalance mode: the criterion.", ["weight", "least_latency", "price"]),
                    "weight",
                ),
            ),
            ("sticky", sticky),
        ],
    )
}

/// Members with free names: `null` is a value to compare with here.
fn query() -> Value {
    let scalar = json!({"type": ["string", "number", "boolean", "null"]});
    let scalars = json!({"type": "array", "items": scalar});
    let bound = json!({"type": ["number", "string"]});
    let queries = json!({"type": "array", "items": {"$ref": "#/$defs/query"}});
    let operators = json!({
        "type": "object",
        "properties": {
            "$eq": scalar, "$ne": scalar, "$in": scalars, "$nin": scalars,
            "$gt": bound, "$gte": bound, "$lt": bound, "$lte": bound,
            "$regex": {"type": "string"},
        },
        "additionalProperties": false,
    });
    let test = json!({"anyOf": [scalar, operators]});
    json!({
        "type": "object",
        "description": "Keys are metadata.x, params.x, headers.x and url.pathname, with a value or operators; $and and $or hold queries.",
        "properties": {"$and": queries, "$or": queries},
        "patternProperties": {r"^(metadata|params|headers)\.[^.]": test, r"^url\.pathname($|\.)": test},
        "additionalProperties": false,
    })
}

fn hedge() -> Value {
    let ratio = json!({
        "type": "number", "minimum": 0, "maximum": 1, "default": 0.1,
        "description": "Extra attempts as a share of all.",
    });
    object(
        "A second attempt, at another target, while the first is slow. Needs two targets.",
        &["after_ms"],
        vec![
            ("after_ms", integer("Milliseconds without a first token.", 1, None)),
            ("max_extra_ratio", ratio),
        ],
    )
}

fn price() -> Value {
    object(
        "US dollars per million tokens.",
        &["input", "output"],
        vec![("input", number("Of the request.", 0.0)), ("output", number("Of the response.", 0.0))],
    )
}

/// A key that is for the other lists of hooks only.
fn elsewhere(description: &str) -> Value {
    json!({"type": "null", "description": description})
}

/// The keys that hooks and guardrails share.
fn controls(is_async: bool, may_deny: bool, on_request: bool) -> Vec<(&'static str, Value)> {
    let action = if may_deny { "deny_action" } else { "action" };
    let of_stream = |schema: Value| if on_request { elsewhere("For responses only.") } else { schema };
    let parallel = or(flag("Runs while the provider is called; the response waits for it."), false);
    vec![
        ("parallel", if on_request { parallel } else { elsewhere("For requests only.") }),
        (
            "stream",
            of_stream(one_of(
                "How streams are checked: text is sent on when it was looked at, or held back as a whole.",
                ["window", "buffer"],
            )),
        ),
        ("overlap_bytes", of_stream(integer("Bytes of a stream that are held back.", 1, Some(64 << 10)))),
        ("message", text("What the client is told when it denies.")),
        ("guardrail_version_id", text("Accepted, and of no effect: a saved guardrail has one version.")),
        ("type", or(one_of("What it may do to the message.", ["guardrail", "mutator"]), "guardrail")),
        (
            "async",
            match is_async {
                true => or(flag("Runs beside the request and cannot affect it."), false),
                false => json!({"enum": [false, null], "description": "For after_request_hooks only."}),
            },
        ),
        ("sequential", or(flag("Checks run one after another."), false)),
        ("deny", flag("Refuses the message when a check fails.")),
        ("on_fail", see(action, "When a check fails.")),
        ("on_success", see(action, "When all checks pass.")),
    ]
}

fn hook(on_request: bool) -> Value {
    let check = object(
        "A check.",
        &["id", "parameters"],
        vec![
            ("id", text("Which check.")),
            ("parameters", free("Its parameters.")),
            ("is_enabled", or(flag("Whether it runs."), true)),
            ("name", text("For people.")),
        ],
    );
    let mut keys = vec![("id", text("Its name.")), ("checks", list("What is checked.", check))];
    keys.extend(controls(!on_request, on_request, on_request));
    object("A hook.", &["id"], keys)
}

/// A slug, or an object whose other keys are checks.
fn guardrail(on_request: bool) -> Value {
    let mut keys = vec![("id", text("Its name."))];
    keys.extend(controls(true, !on_request, on_request));
    let mut inline = object("A guardrail; other keys are checks with their parameters.", &[], keys);
    if let Value::Object(members) = &mut inline {
        members.insert("additionalProperties".to_owned(), json!({"type": "object"}));
    }
    let slug = json!({"type": "string", "minLength": 1, "description": "The slug of a saved guardrail."});
    json!({"anyOf": [slug, inline]})
}

fn action(may_deny: bool) -> Value {
    let feedback = object(
        "Recorded for the request.",
        &[],
        vec![
            ("value", json!({"type": "number", "description": "The value."})),
            ("weight", json!({"type": "number", "description": "Its weight."})),
            ("metadata", free("Anything else.")),
        ],
    );
    let deny = match may_deny {
        true => flag("Whether the message is refused."),
        false => elsewhere("For before-request hooks and output guardrails only."),
    };
    object("What happens then.", &[], vec![("feedback", feedback), ("deny", deny)])
}
