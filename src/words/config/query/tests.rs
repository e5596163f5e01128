//! The truth table of the operators row by row, all mistakes with their paths, and properties of any
//! query.
//!
//! Not here: converting values to numbers and texts (`fact`).

use super::super::node::Node;
use super::super::pattern::MAX_PATTERNS;
use super::super::read::Problems;
use super::*;
use crate::error::Problem;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The facts of a request as one JSON object with `metadata`, `params`, `headers` and `pathname`.
struct TestFacts(Value);

impl TestFacts {
    /// Stores each value of `metadata` and `params` as JSON text, as a request has them.
    fn new(mut request: Value) -> Self {
        for part in ["metadata", "params"] {
            if let Some(members) = request.get_mut(part).and_then(Value::as_object_mut) {
                members.values_mut().for_each(|value| *value = value.to_string().into());
            }
        }
        Self(request)
    }

    fn fact(&self, part: &str, name: &str) -> Option<Fact<'_>> {
        Fact::from_json(self.0.get(part)?.get(name)?.as_str()?.as_bytes())
    }
}

impl Facts for TestFacts {
    fn metadata(&self, name: &str) -> Option<Fact<'_>> {
        self.fact("metadata", name)
    }

    fn param(&self, name: &str) -> Option<Fact<'_>> {
        self.fact("params", name)
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.get("headers")?.get(name)?.as_str().map(Cow::Borrowed)
    }

    fn pathname(&self) -> &str {
        self.0.get("pathname").and_then(Value::as_str).unwrap_or("/v1/chat/completions")
    }
}

fn read(text: &str) -> Result<Query, Vec<String>> {
    let node = Node::from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let problems = Problems::default();
    let query = Query::read(&Cursor::root(&node, &problems), &PatternBudget::default());
    let problems = problems.into_vec();
    assert_eq!(query.is_some(), problems.is_empty(), "{text}");
    query.ok_or_else(|| problems.iter().map(Problem::to_string).collect())
}

#[track_caller]
fn holds(query: &str, request: Value) -> bool {
    let query = read(query).unwrap_or_else(|problems| panic!("{query}: {problems:?}"));
    query.holds(&TestFacts::new(request))
}

fn metadata(members: Value) -> Value {
    json!({"metadata": members})
}

fn params(members: Value) -> Value {
    json!({"params": members})
}

/// The rows of the table in its order, except the last two and the row of the pattern `(`: those are problems
/// (see `mistakes`).
#[test]
fn the_truth_table_of_the_reference() {
    let or_then_key = r#"{"$or":[{"metadata.a":1}],"metadata.c":9}"#;
    let regex_then_eq = r#"{"params.model":{"$regex":"^gpt","$eq":"other"}}"#;
    for (query, request, wanted) in [
        (r#"{"metadata.plan":{"$eq":"paid"}}"#, metadata(json!({"plan": "paid"})), true),
        (r#"{"metadata.plan":"paid"}"#, metadata(json!({"plan": "paid"})), true),
        (r#"{"metadata.plan":"paid"}"#, metadata(json!({})), false),
        (r#"{"metadata.plan":{"$ne":"paid"}}"#, json!({}), true),
        (r#"{"metadata.plan":{"$nin":["paid"]}}"#, json!({}), true),
        (r#"{"params.model":{"$in":["x","y"]}}"#, params(json!({"model": "y"})), true),
        (r#"{"params.n":{"$eq":"1"}}"#, params(json!({"n": 1})), false),
        (r#"{"metadata.age":{"$gt":10}}"#, metadata(json!({"age": "11"})), true),
        (r#"{"metadata.age":{"$gt":10}}"#, metadata(json!({"age": "abc"})), false),
        (r#"{"params.max_tokens":{"$gte":100,"$lt":200}}"#, params(json!({"max_tokens": 250})), false),
        (r#"{"params.max_tokens":{"$gte":100,"$lt":200}}"#, params(json!({"max_tokens": 100})), true),
        (r#"{"params.model":{"$regex":"^gpt-"}}"#, params(json!({"model": "gpt-4"})), true),
        (r#"{"params.model":{"$regex":"undef"}}"#, json!({}), true),
        // Unlike in Portkey's router, keys after `$regex` count.
        (regex_then_eq, params(json!({"model": "gpt-4"})), false),
        (r#"{"params.model":{"$regex":"^gpt","$eq":"gpt-4"}}"#, params(json!({"model": "gpt-4"})), true),
        (r#"{"params.model":{"$eq":"other","$regex":"^gpt"}}"#, params(json!({"model": "gpt-4"})), false),
        (r#"{"$or":[{"metadata.a":1},{"metadata.b":2}]}"#, metadata(json!({"b": 2})), true),
        (r#"{"$and":[{"metadata.a":1},{"metadata.b":2}]}"#, metadata(json!({"b": 2})), false),
        // Unlike in Portkey's router, keys after `$or` count.
        (or_then_key, metadata(json!({"a": 1, "c": 0})), false),
        (or_then_key, metadata(json!({"a": 1, "c": 9})), true),
        (r#"{"metadata.c":9,"$or":[{"metadata.a":1}]}"#, metadata(json!({"a": 1, "c": 0})), false),
        ("{}", json!({}), true),
        (r#"{"url.pathname":{"$regex":"chat"}}"#, json!({"pathname": "/v1/chat/completions"}), true),
        (r#"{"params.a.b":1}"#, params(json!({"a": {"b": 1}})), false),
        (r#"{"params.a.b":1}"#, params(json!({"a": 1})), true),
    ] {
        assert_eq!(holds(query, request.clone()), wanted, "{query} of {request}");
    }
}

#[test]
fn what_the_table_leaves_open() {
    for (query, request, wanted) in [
        (r#"{"$or":[]}"#, json!({}), false),
        (r#"{"$and":[]}"#, json!({}), true),
        (r#"{"$or":[{}]}"#, json!({}), true),
        (r#"{"metadata.a":{}}"#, json!({}), true),
        (r#"{"metadata.a":null}"#, metadata(json!({"a": null})), true),
        (r#"{"metadata.a":null}"#, json!({}), false),
        (r#"{"metadata.a":{"$ne":null}}"#, json!({}), true),
        (r#"{"metadata.a":{"$in":[]}}"#, metadata(json!({"a": 1})), false),
        (r#"{"metadata.a":{"$in":[1,null,true,"x"]}}"#, metadata(json!({"a": true})), true),
        (r#"{"metadata.a":{"$in":["true"]}}"#, metadata(json!({"a": true})), false),
        (r#"{"metadata.a":{"$nin":[1]}}"#, metadata(json!({"a": 1.0})), false),
        (r#"{"metadata.a":1}"#, metadata(json!({"a": "1"})), false),
        (r#"{"metadata.a":"x"}"#, metadata(json!({"a": ["x"]})), false),
        (r#"{"metadata.a":{"$ne":"x"}}"#, metadata(json!({"a": ["x"]})), true),
        (r#"{"metadata.a":{"$lt":"10 apples"}}"#, metadata(json!({"a": "9.5"})), true),
        (r#"{"metadata.a":{"$lte":10}}"#, metadata(json!({"a": [10, 99]})), true),
        (r#"{"metadata.a":{"$lte":10}}"#, json!({}), false),
        (r#"{"metadata.a":{"$gte":0}}"#, metadata(json!({"a": null})), false),
        (r#"{"metadata.a":{"$gte":0}}"#, metadata(json!({"a": true})), false),
        (r#"{"metadata.a":{"$gt":1,"$ne":5,"$in":[4,5]}}"#, metadata(json!({"a": 5})), false),
        (r#"{"metadata.a":{"$regex":"^1$"}}"#, metadata(json!({"a": 1})), true),
        (r#"{"params.messages":{"$regex":"object"}}"#, params(json!({"messages": [{"role": "user"}]})), true),
        (r#"{"params.stream":true}"#, params(json!({"stream": true})), true),
        (r#"{"headers.X-Tier":"gold"}"#, json!({"headers": {"x-tier": "gold"}}), true),
        (r#"{"headers.x-tier":{"$ne":"gold"}}"#, json!({}), true),
        (r#"{"url.pathname":"/v1/chat/completions"}"#, json!({}), true),
        (
            r#"{"$or":[{"$and":[{"metadata.a":1},{"params.b":2}]},{"headers.c":"3"}]}"#,
            json!({"metadata": {"a": 1}, "params": {"b": 2}}),
            true,
        ),
    ] {
        assert_eq!(holds(query, request.clone()), wanted, "{query} of {request}");
    }
}

/// Wrong queries, each with the beginning of its problem.
fn mistakes(scalar: impl Fn(&str, &str) -> String) -> Vec<(&'static str, String)> {
    vec![
        ("[]", "must be an object, not an array".to_owned()),
        (r#"{"$not":{}}"#, "$not: is no operator of queries; $and and $or may stand here".to_owned()),
        (r#"{"$eq":1}"#, "$eq: is no operator of queries; it stands in the object of a key".to_owned()),
        (
            r#"{"metadata.a":{"$not":1}}"#,
            "metadata.a.$not: is no operator of a key; there are $eq, ".to_owned(),
        ),
        (r#"{"metadata.a":{"$exists":1}}"#, "metadata.a.$exists: is no operator of a key".to_owned()),
        (r#"{"metadata.a":{"$EQ":1}}"#, "metadata.a.$EQ: is no operator of a key".to_owned()),
        (r#"{"metadata.a":{"$or":[]}}"#, "metadata.a.$or: is no operator".to_owned()),
        (r#"{"metadata.a":{"b":1}}"#, "metadata.a.b: is no operator".to_owned()),
        (r#"{"metadata.a":["x"]}"#, scalar("metadata.a", "an array")),
        (r#"{"metadata.a":{"$eq":{}}}"#, scalar("metadata.a.$eq", "an object")),
        (r#"{"metadata.a":{"$ne":[1]}}"#, scalar("metadata.a.$ne", "an array")),
        (r#"{"metadata.a":{"$in":"x"}}"#, "metadata.a.$in: must be an array, not a string".to_owned()),
        (r#"{"metadata.a":{"$nin":null}}"#, "metadata.a.$nin: must be an array, not null".to_owned()),
        (r#"{"metadata.a":{"$in":[1,{}]}}"#, scalar("metadata.a.$in[1]", "an object")),
        (r#"{"metadata.a":{"$gt":"abc"}}"#, "metadata.a.$gt: must be a number, or a text that".to_owned()),
        (r#"{"metadata.a":{"$gte":true}}"#, "metadata.a.$gte: must be a number".to_owned()),
        (r#"{"metadata.a":{"$lt":[1]}}"#, "metadata.a.$lt: must be a number".to_owned()),
        (r#"{"metadata.a":{"$lte":null}}"#, "metadata.a.$lte: must be a number".to_owned()),
        (r#"{"metadata.a":{"$regex":5}}"#, "metadata.a.$regex: must be a string, not a number".to_owned()),
        (
            r#"{"params.model":{"$regex":"("}}"#,
            "params.model.$regex: is no pattern we can read: uncl".to_owned(),
        ),
        (
            r#"{"params.a":{"$regex":"a(?=b)"}}"#,
            "params.a.$regex: is a pattern we do not take: look-".to_owned(),
        ),
        (
            r#"{"params.a":{"$regex":"(a)\\1"}}"#,
            "params.a.$regex: is a pattern we do not take: back".to_owned(),
        ),
        (r#"{"params.a":{"$regex":"\\pL{900}"}}"#, "params.a.$regex: is too large a pattern".to_owned()),
        (r#"{"plan":1}"#, "plan: is no value of a request; there are metadata.*, ".to_owned()),
        (r#"{"":1}"#, "is no value of a request".to_owned()),
        (r#"{"body.model":1}"#, "body.model: is no value of a request".to_owned()),
        (r#"{"url.host":1}"#, "url.host: is no value of a request".to_owned()),
        (r#"{"metadata":1}"#, "metadata: must name a field after metadata.".to_owned()),
        (r#"{"params.":1}"#, "params.: must name a field after params.".to_owned()),
        (r#"{"headers..x":1}"#, "headers..x: must name a field after headers.".to_owned()),
        (r#"{"headers.x y":1}"#, "headers.x y: must be a header name".to_owned()),
        (
            r#"{"headers.Authorization":"x"}"#,
            "headers.Authorization: is a credential or a header of".to_owned(),
        ),
        (r#"{"headers.cookie":"x"}"#, "headers.cookie: is a credential".to_owned()),
        (
            r#"{"headers.X-Gateway-Api-Key":"x"}"#,
            "headers.X-Gateway-Api-Key: is a credential or a".to_owned(),
        ),
        (r#"{"$or":{}}"#, "$or: must be an array, not an object".to_owned()),
        (r#"{"$and":null}"#, "$and: must be an array, not null".to_owned()),
        (r#"{"$and":[{},1]}"#, "$and[1]: must be an object, not a number".to_owned()),
        (r#"{"$or":[{"$and":[{"a":1}]}]}"#, "$or[0].$and[0].a: is no value of a request".to_owned()),
        (r#"{"metadata.a":1,"metadata.a":2}"#, "metadata.a: stands twice".to_owned()),
        (r#"{"metadata.a":{"$gt":1,"$gt":2}}"#, "metadata.a.$gt: stands twice".to_owned()),
    ]
}

#[test]
fn every_mistake_has_its_path() {
    const KINDS: &str = "must be a string, a number, a boolean or null, not ";
    let scalar = |path: &str, noun: &str| format!("{path}: {KINDS}{noun}");
    for (query, wanted) in mistakes(scalar) {
        let found = read(query).expect_err(query);
        assert_eq!(found.len(), 1, "{query}: {found:?}");
        assert!(found[0].starts_with(&wanted), "{query}: {found:?}, not {wanted:?}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let found = read(r#"{"plan":{"$in":1},"$or":[{"$x":1}],"metadata.a":{"$gt":"b","$eq":1}}"#).unwrap_err();
    let paths: Vec<&str> = found.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
    assert_eq!(paths, ["plan", "plan.$in", "$or[0].$x", "metadata.a.$gt"]);
}

#[test]
fn depth_and_patterns_are_bounded() {
    let nest = |levels: usize| format!("{}{{}}{}", r#"{"$or":["#.repeat(levels), "]}".repeat(levels));
    assert!(read(&nest(MAX_DEPTH)).is_ok());
    let found = read(&nest(MAX_DEPTH + 1)).unwrap_err();
    assert!(found.len() == 1 && found[0].contains("stands too deep"), "{found:?}");

    let many = |count: usize| {
        let parts: Vec<_> = (0..count).map(|n| format!(r#""params.p{n}":{{"$regex":"^{n}"}}"#)).collect();
        format!("{{{}}}", parts.join(","))
    };
    assert!(read(&many(MAX_PATTERNS)).unwrap().patterns().bytes > MAX_PATTERNS * 256);
    let found = read(&many(MAX_PATTERNS + 2)).unwrap_err();
    assert!(found.len() == 2 && found[0].contains("is too much"), "{found:?}");

    let operand = |len: usize| format!(r#"{{"params.a":{{"$in":["{}"]}}}}"#, "x".repeat(len));
    assert!(read(&operand(MAX_OPERAND)).is_ok());
    let found = read(&operand(MAX_OPERAND + 1)).unwrap_err();
    assert!(found.len() == 1 && found[0].contains("$in[0]: must be at most 16384 bytes"), "{found:?}");
}

#[test]
fn ordinary_patterns_are_accepted() {
    for pattern in [
        r"^(gpt|o)-?[0-9]+(\.[0-9]+)?(-mini|-nano)?$",
        r"(?i)\bclaude\b",
        r"^\w+@\w+\.\w{2,4}$",
        r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
        r"^\/v1\/(chat\/completions|embeddings)$",
        r"^.{1,200}$",
    ] {
        let text = json!({"params.a": {"$regex": pattern}}).to_string();
        assert!(read(&text).is_ok(), "{text}: {:?}", read(&text));
    }
}

#[test]
fn no_operand_is_repeated_or_shown() {
    let query = read(r#"{"metadata.a":{"$eq":"canary","$in":["canary"],"$regex":"canary"}}"#).unwrap();
    let shown = format!("{query:?}");
    assert!(shown.contains("Metadata(\"a\")") && !shown.contains("canary"), "{shown}");
    for pattern in
        ["canary(", "(?=canary)", "(?<canary>a)(?<canary>b)", "canary{2,1}", "\\\\p{canary}", "[z-canary]"]
    {
        let found = read(&format!(r#"{{"metadata.a":{{"$regex":"{pattern}"}}}}"#)).unwrap_err();
        assert!(!found[0].contains("canary"), "{found:?}");
    }
}

/// Any JSON value built from parts of queries, valid or not.
fn any_query() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["^a+$", "(", "[a-z]{3}", "\\d", "11"]).prop_map(Value::from),
    ];
    let names = ["$and", "$or", "metadata.a", "params.b", "headers.c", "url.pathname", "params.b.c", "nope"];
    let names: Vec<&str> = names.into_iter().chain(OPERATORS).collect();
    scalar.prop_recursive(5, 48, 5, move |inner| {
        let key =
            prop_oneof![8 => prop::sample::select(names.clone()).prop_map(str::to_owned), 1 => ".{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4).prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

/// A query of simple parts and its expected result for the request of `nested_queries_are_evaluated`.
fn query_with_result() -> impl Strategy<Value = (Value, bool)> {
    let simple = prop_oneof![
        Just((json!({"metadata.a": 1}), true)),
        Just((json!({"metadata.a": "1"}), false)),
        Just((json!({"params.b": {"$gt": 5, "$lt": 7}}), true)),
        Just((json!({"params.b": {"$gt": 5, "$lt": 6}}), false)),
        Just((json!({"headers.c": {"$regex": "^g"}}), true)),
        Just((json!({"url.pathname": {"$in": ["/"]}}), false)),
    ];
    simple.prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner, 0..4);
        (list, any::<bool>()).prop_map(|(queries, all)| {
            let (queries, truths): (Vec<Value>, Vec<bool>) = queries.into_iter().unzip();
            if all {
                (json!({"$and": queries}), truths.iter().all(|truth| *truth))
            } else {
                (json!({"$or": queries}), truths.iter().any(|truth| *truth))
            }
        })
    })
}

proptest! {
    #[test]
    fn any_query_is_evaluated(value in any_query(), fact in any_query()) {
        if let Ok(query) = read(&value.to_string()) {
            query.holds(&TestFacts::new(json!({"metadata": {"a": fact.clone()}, "params": {"b": fact}})));
        }
    }

    #[test]
    fn nested_queries_are_evaluated((query, wanted) in query_with_result()) {
        let request = json!({"metadata": {"a": 1}, "params": {"b": 6}, "headers": {"c": "gold"}});
        prop_assert_eq!(holds(&query.to_string(), request), wanted);
    }

    /// `$ne` and `$nin` are the exact opposites of `$eq` and `$in` for any value.
    #[test]
    fn opposites_are_opposite(operand in "[0-9a]{0,2}", value in any_query(), numeric in any::<bool>()) {
        let operand = match operand.parse::<i64>() {
            Ok(number) if numeric => Value::from(number),
            _ => Value::from(operand),
        };
        let request = || metadata(json!({"a": value}));
        for (one, other, operand) in [("$eq", "$ne", operand.clone()), ("$in", "$nin", json!([operand]))] {
            let query = |operator: &str| json!({"metadata.a": {operator: operand}}).to_string();
            prop_assert!(holds(&query(one), request()) != holds(&query(other), request()));
        }
    }
}
