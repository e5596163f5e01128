//! `default.requestParametersCheck`: which tools and parameters a request may have.

use super::BEFORE;
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, optional};
use crate::guard::subject::Subject;
use serde_json::{Map, Number, Value, json};

pub(crate) const REQUEST_PARAMETERS: CheckKind = CheckKind {
    id: "default.requestParametersCheck",
    aliases: &["default.requestParamsCheck", "requestParamsCheck"],
    phases: BEFORE,
    about: "Passes where the request has no tool and no parameter that is blocked, or missing in a list of allowed ones.",
    source: "",
    parameters: &[
        optional(
            "tools",
            Type::Object,
            "",
            "Lists of texts: `blockedTypes`, `allowedTypes`, `blockedFunctionNames`, `allowedFunctionNames`. The name of a tool \
             without a function is its type.",
        ),
        optional(
            "params",
            Type::Object,
            "",
            "`blockedKeys` and `allowedKeys` (every member of the body must be in it), and `values`: \
             `{key: {blockedValues: [], allowedValues: []}}`.",
        ),
    ],
    prepare,
};

#[derive(Debug, Default)]
struct RequestParameters {
    types: Lists,
    names: Lists,
    keys: Lists,
    values: Vec<(String, Lists)>,
}

/// What is blocked, and what is allowed alone.
#[derive(Debug, Default)]
struct Lists {
    blocked: Vec<Value>,
    allowed: Option<Vec<Value>>,
}

impl Lists {
    fn read(
        from: Option<&Map<String, Value>>,
        parameter: &'static str,
        blocked: &str,
        allowed: &str,
        path: &str,
    ) -> Result<Self, Unusable> {
        let list = |name: &str| match from.and_then(|from| from.get(name)).filter(|list| !list.is_null()) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(_) => Err(unusable(parameter, &format!("{path}.{name} must be a list")).refused()),
        };
        let lists = Self {
            blocked: list(blocked)?.unwrap_or_default(),
            allowed: list(allowed)?.filter(|allowed| !allowed.is_empty()),
        };
        let both = |item: &&Value| lists.allowed.as_ref().is_some_and(|allowed| has(allowed, item));
        match lists.blocked.iter().find(both) {
            Some(item) => Err(unusable(
                parameter,
                &format!("{item} is both in {path}.{blocked} and in {path}.{allowed}"),
            )),
            None => Ok(lists),
        }
    }

    /// The reasons against a value.
    fn against(&self, value: &Value, blocked: &'static str, not_allowed: &'static str) -> Vec<&'static str> {
        let is_blocked = has(&self.blocked, value).then_some(blocked);
        let is_missing = self.allowed.as_ref().is_some_and(|allowed| !has(allowed, value));
        is_blocked.into_iter().chain(is_missing.then_some(not_allowed)).collect()
    }
}

/// Whether a list has a value. A number is the same however it is written: 1, 1.0, 1e0.
fn has(list: &[Value], value: &Value) -> bool {
    let is_whole = |number: &Number| !number.is_f64();
    list.iter().any(|item| match (item, value) {
        (Value::Number(one), Value::Number(other)) if !(is_whole(one) && is_whole(other)) => {
            one.as_f64() == other.as_f64()
        }
        (one, other) => one == other,
    })
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let tools = parameters.object("tools");
    let params = parameters.object("params");
    for (parameter, members, allowed) in [
        (
            "tools",
            tools,
            &["blockedTypes", "allowedTypes", "blockedFunctionNames", "allowedFunctionNames"][..],
        ),
        ("params", params, &["blockedKeys", "allowedKeys", "values"]),
    ] {
        if let Some(name) =
            members.into_iter().flat_map(Map::keys).find(|name| !allowed.contains(&name.as_str()))
        {
            let message = format!("{parameter}.{name} is none of {}", allowed.join(", "));
            return Err(unusable(parameter, &message).refused());
        }
    }
    let wrong = |message: &str| unusable("params", message).refused();
    let mut values = Vec::new();
    if let Some(listed) = params.and_then(|params| params.get("values")).filter(|values| !values.is_null()) {
        let listed = listed.as_object().ok_or_else(|| wrong("params.values must be an object"))?;
        for (key, lists) in listed {
            let path = format!("params.values.{key}");
            let lists = lists.as_object().ok_or_else(|| wrong(&format!("{path} must be an object")))?;
            let lists = Lists::read(Some(lists), "params", "blockedValues", "allowedValues", &path)?;
            values.push((key.clone(), lists));
        }
    }
    Ok(Prepared::Local(Box::new(RequestParameters {
        types: Lists::read(tools, "tools", "blockedTypes", "allowedTypes", "tools")?,
        names: Lists::read(tools, "tools", "blockedFunctionNames", "allowedFunctionNames", "tools")?,
        keys: Lists::read(params, "params", "blockedKeys", "allowedKeys", "params")?,
        values,
    })))
}

/// The request passes where it cannot be judged.
fn unusable(parameter: &'static str, message: &str) -> Unusable {
    let data = json!({"explanation": format!("An error occurred: {message}")});
    Unusable { data: Some(data), verdict: true, ..Unusable::new(parameter, message) }
}

/// The type and the name of a tool.
fn tool(tool: &Value) -> (&str, &str) {
    let text = |value: Option<&'_ Value>| value.and_then(Value::as_str).map(str::len);
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or("unknown");
    let of_function = tool.get("function").and_then(|function| function.get("name"));
    let name = [of_function, tool.get("name")].into_iter().find(|name| text(*name).is_some()).flatten();
    (kind, name.and_then(Value::as_str).unwrap_or(kind))
}

/// The tools of a request with their types and names: of a list `tools`, whose items may hold Gemini's declarations, and of the older list
/// `functions`.
fn tools(body: &Map<String, Value>) -> Vec<(&str, &str)> {
    let list = |name: &str| match body.get(name) {
        Some(Value::Array(items)) => items.as_slice(),
        // Some readers take one for a list of one.
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        _ => &[],
    };
    let mut found = Vec::new();
    for item in list("tools") {
        let declared =
            ["functionDeclarations", "function_declarations"].into_iter().filter_map(|name| item.get(name));
        let declared: Vec<&Value> = declared
            .flat_map(|declared| declared.as_array().map_or(std::slice::from_ref(declared), Vec::as_slice))
            .collect();
        if declared.is_empty() {
            found.push(tool(item));
        }
        found.extend(declared.into_iter().map(|declared| ("function", tool(declared).1)));
    }
    found.extend(list("functions").iter().map(|function| ("function", tool(function).1)));
    found
}

impl LocalCheck for RequestParameters {
    fn run(&self, subject: &Subject) -> Finding {
        let Some(body) = subject.request.get().as_object() else {
            let message = "The request has no JSON body";
            let data = json!({"explanation": format!("An error occurred: {message}")});
            return Finding { verdict: true, ..Finding::failed("Error", message).with_data(data) };
        };
        let mut present = Vec::new();
        let mut blocked_tools = Vec::new();
        for (kind, name) in tools(body) {
            present.push(json!({"type": kind, "name": name}));
            let mut reasons = self.types.against(&kind.into(), "type_blocked", "type_not_allowed");
            reasons.extend(self.names.against(&name.into(), "name_blocked", "name_not_allowed"));
            if !reasons.is_empty() {
                blocked_tools.push(json!({"type": kind, "name": name, "reasons": reasons}));
            }
        }
        let mut blocked_params = Vec::new();
        for (key, value) in body {
            let mut reasons = self.keys.against(&key.as_str().into(), "key_blocked", "key_not_allowed");
            if let Some((_, lists)) = self.values.iter().find(|(listed, _)| listed == key) {
                reasons.extend(lists.against(value, "value_blocked", "value_not_allowed"));
            }
            if !reasons.is_empty() {
                // Messages and tools are not repeated in the result.
                let shown = if value.is_array() || value.is_object() { Value::Null } else { value.clone() };
                blocked_params.push(json!({"param": key, "value": shown, "reasons": reasons}));
            }
        }
        let verdict = blocked_tools.is_empty() && blocked_params.is_empty();
        let explanation = if verdict {
            "All tools and parameters are allowed.".to_owned()
        } else {
            format!("Not allowed: {} tools, {} parameters.", blocked_tools.len(), blocked_params.len())
        };
        Finding::of(
            verdict,
            json!({
                "explanation": explanation,
                "verdict": verdict,
                "toolsInRequest": present,
                "blockedToolsFound": blocked_tools,
                "blockedParamsFound": blocked_params,
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, request_with, run};

    fn body() -> Value {
        json!({
            "model": "m", "messages": [], "temperature": 1.5,
            "tools": [
                {"type": "function", "function": {"name": "delete_user"}}, {"type": "web_search"}, {"name": "plain"},
            ],
        })
    }

    #[track_caller]
    fn check(parameters: Value) -> (bool, Value) {
        let finding = run(&REQUEST_PARAMETERS, parameters, &request_with(&body()));
        (finding.verdict, data(&finding).clone())
    }

    #[test]
    fn tools_are_judged_by_type_and_name() {
        let (verdict, found) = check(json!({}));
        assert!(verdict);
        let tools = json!([
            {"type": "function", "name": "delete_user"},
            {"type": "web_search", "name": "web_search"},
            {"type": "unknown", "name": "plain"},
        ]);
        assert_eq!(found["toolsInRequest"], tools);
        for (tools, wanted) in [
            (json!({"blockedTypes": ["web_search"]}), vec![("web_search", json!(["type_blocked"]))]),
            (
                json!({"allowedTypes": ["function", "web_search"]}),
                vec![("plain", json!(["type_not_allowed"]))],
            ),
            (
                json!({"blockedFunctionNames": ["delete_user"], "blockedTypes": ["function"]}),
                vec![("delete_user", json!(["type_blocked", "name_blocked"]))],
            ),
            (
                json!({"allowedFunctionNames": ["delete_user", "plain"]}),
                vec![("web_search", json!(["name_not_allowed"]))],
            ),
            (json!({"blockedTypes": ["mcp"], "allowedTypes": []}), vec![]),
        ] {
            let (verdict, found) = check(json!({"tools": tools}));
            let found = found["blockedToolsFound"].as_array().unwrap().clone();
            let found: Vec<_> =
                found.iter().map(|tool| (tool["name"].as_str().unwrap(), tool["reasons"].clone())).collect();
            assert_eq!(found, wanted, "{tools}");
            assert_eq!(verdict, found.is_empty());
        }
    }

    #[test]
    fn tools_of_other_apis_are_tools() {
        let parameters =
            json!({"tools": {"blockedFunctionNames": ["rm"], "blockedTypes": ["google_search"]}});
        for (body, verdict) in [
            (json!({"functions": [{"name": "ls"}, {"name": "rm"}]}), false),
            (json!({"tools": [{"functionDeclarations": [{"name": "ls"}, {"name": "rm"}]}]}), false),
            (json!({"tools": {"function_declarations": [{"name": "rm"}]}}), false),
            (
                json!({"tools": [{"functionDeclarations": [{"name": "ls"}]}], "functions": [{"name": "ls"}]}),
                true,
            ),
        ] {
            let finding = run(&REQUEST_PARAMETERS, parameters.clone(), &request_with(&body));
            assert_eq!(finding.verdict, verdict, "{body}");
        }
    }

    #[test]
    fn parameters_are_judged_by_key_and_value() {
        for (params, wanted) in [
            (
                json!({"allowedKeys": ["model", "messages", "tools"]}),
                vec![json!({"param": "temperature", "value": 1.5, "reasons": ["key_not_allowed"]})],
            ),
            (
                json!({"blockedKeys": ["tools"]}),
                vec![json!({"param": "tools", "value": null, "reasons": ["key_blocked"]})],
            ),
            (
                json!({"values": {"model": {"blockedValues": ["m"]}, "absent": {"allowedValues": [1]}}}),
                vec![json!({"param": "model", "value": "m", "reasons": ["value_blocked"]})],
            ),
            (
                json!({"values": {"temperature": {"allowedValues": [0, 1]}}}),
                vec![json!({"param": "temperature", "value": 1.5, "reasons": ["value_not_allowed"]})],
            ),
            (
                json!({"values": {"temperature": {"blockedValues": [15e-1]}}}),
                vec![json!({"param": "temperature", "value": 1.5, "reasons": ["value_blocked"]})],
            ),
            (
                json!({"values": {"temperature": {"allowedValues": ["1.5"]}}}),
                vec![json!({"param": "temperature", "value": 1.5, "reasons": ["value_not_allowed"]})],
            ),
        ] {
            let (verdict, found) = check(json!({"params": params}));
            assert_eq!((verdict, &found["blockedParamsFound"]), (false, &json!(wanted)), "{params}");
        }
    }

    #[test]
    fn a_number_is_the_same_in_every_spelling() {
        for (spelling, blocked, verdict) in [
            ("1.0", json!([1]), false),
            ("1e0", json!([1]), false),
            ("1", json!([1.0]), false),
            ("1.5", json!([1]), true),
            ("9007199254740993", json!([9007199254740992_u64]), true),
        ] {
            let body = serde_json::from_str(&format!(r#"{{"n":{spelling}}}"#)).unwrap();
            let parameters = json!({"params": {"values": {"n": {"blockedValues": blocked}}}});
            let finding = run(&REQUEST_PARAMETERS, parameters, &request_with(&body));
            assert_eq!(finding.verdict, verdict, "{spelling}");
        }
    }

    #[test]
    fn lists_that_contradict_each_other_are_an_error_that_passes() {
        for (parameters, message) in [
            (
                json!({"tools": {"blockedTypes": ["a"], "allowedTypes": ["a"]}}),
                r#""a" is both in tools.blockedTypes and in tools.allowedTypes"#,
            ),
            (
                json!({"params": {"values": {"n": {"blockedValues": [1], "allowedValues": [1]}}}}),
                "1 is both in params.values.n.blockedValues and in params.values.n.allowedValues",
            ),
            (
                json!({"tools": {"blocked": []}}),
                "tools.blocked is none of blockedTypes, allowedTypes, blockedFunctionNames, allowedFunctionNames",
            ),
            (json!({"params": {"blockedKeys": "a"}}), "params.blockedKeys must be a list"),
        ] {
            let finding = run(&REQUEST_PARAMETERS, parameters, &request_with(&body()));
            assert_eq!((error(&finding), finding.verdict), (message, true));
        }
    }
}
