//! What `default.jwt` wants of a token's claims, and whether they have it.

use super::text_of;
use crate::guard::parameters::{Parameters, Unusable};
use crate::guard::regex::Regex;
use serde_json::{Map, Value, json};

/// The rules of a check.
#[derive(Debug, Default)]
pub(super) struct ClaimRules {
    required: Vec<String>,
    values: Vec<(String, ClaimRule)>,
    /// Members that header and claims must have with the same value.
    same: Vec<String>,
}

/// What one claim must have.
#[derive(Debug)]
enum ClaimRule {
    /// It is one of these.
    Exact(Vec<String>),
    /// A value of it contains one of these.
    Contains(Vec<String>),
    /// Each of these is contained in a value of it.
    ContainsAll(Vec<String>),
    /// A value of it matches one of these.
    Regex(Vec<Regex>),
}

/// What was found wrong, and what results show of it.
pub(super) struct ClaimsJudgement {
    pub failures: Vec<String>,
    pub validations: Map<String, Value>,
}

impl ClaimRules {
    pub fn read(parameters: &Parameters<'_>) -> Result<Self, Unusable> {
        let list = |name| -> Vec<String> {
            parameters.texts(name).unwrap_or_default().into_iter().map(str::to_owned).collect()
        };
        let mut values = Vec::new();
        for (claim, rule) in parameters.object("claimValues").into_iter().flatten() {
            let problem = |why: &str| Unusable::new("claimValues", format!("claimValues.{claim}{why}"));
            let rule = rule
                .as_object()
                .ok_or_else(|| problem(" must be an object with values and matchType").refused())?;
            let expected = match rule.get("values") {
                Some(Value::Array(items)) => items.iter().map(text_of).collect(),
                Some(Value::Null) | None => return Err(problem(".values is missing").refused()),
                Some(value) => vec![text_of(value)],
            };
            let rule = match rule.get("matchType").and_then(Value::as_str).unwrap_or("exact") {
                "exact" => ClaimRule::Exact(expected),
                "contains" => ClaimRule::Contains(expected),
                "containsAll" => ClaimRule::ContainsAll(expected),
                "regex" => {
                    let compile = |pattern: &String| Regex::compile(pattern, parameters.patterns);
                    let patterns = expected.iter().map(compile).collect::<Result<_, _>>();
                    ClaimRule::Regex(patterns.map_err(|why| problem(&format!(".values: a pattern {why}")))?)
                }
                _ => return Err(problem(".matchType must be one of exact, contains, containsAll, regex")),
            };
            values.push((claim.clone(), rule));
        }
        Ok(Self { required: list("requiredClaims"), values, same: list("headerPayloadMatch") })
    }

    pub fn judge(&self, header: &Map<String, Value>, claims: &Map<String, Value>) -> ClaimsJudgement {
        let present = |name: &str| claims.get(name).filter(|value| !value.is_null());
        let missing: Vec<&str> =
            self.required.iter().map(String::as_str).filter(|name| present(name).is_none()).collect();
        let failed = self.values.iter().filter_map(|(name, rule)| match present(name) {
            None => Some(format!("{name} (missing)")),
            Some(value) => (!rule.holds(&values_of(name, value))).then(|| name.clone()),
        });
        let failed: Vec<String> = failed.collect();
        let same = self.same.iter().map(String::as_str);
        let mismatched: Vec<&str> = same.filter(|name| header.get(*name) != claims.get(*name)).collect();
        let mut failures = Vec::new();
        let mut validations = Map::new();
        validations.insert("signatureValid".to_owned(), true.into());
        for (is_wanted, member, list, what, names) in [
            (
                !self.required.is_empty(),
                "requiredClaims",
                "missing",
                "Missing required claims",
                json!(missing),
            ),
            (!self.values.is_empty(), "claimValues", "failed", "Invalid claim values", json!(failed)),
            (
                !self.same.is_empty(),
                "headerPayloadMatch",
                "mismatched",
                "Header-payload mismatch",
                json!(mismatched),
            ),
        ] {
            let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
            if is_wanted {
                let outcome = if names.is_empty() {
                    json!({"valid": true})
                } else {
                    json!({"valid": false, list: names})
                };
                validations.insert(member.to_owned(), outcome);
            }
            if !names.is_empty() {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                failures.push(format!("{what}: {}", names.join(", ")));
            }
        }
        ClaimsJudgement { failures, validations }
    }
}

impl ClaimRule {
    fn holds(&self, values: &[String]) -> bool {
        let contained = |wanted: &String| values.iter().any(|value| value.contains(wanted.as_str()));
        match self {
            // A list is never exactly a value.
            Self::Exact(wanted) => matches!(values, [value] if wanted.contains(value)),
            Self::Contains(wanted) => wanted.iter().any(contained),
            Self::ContainsAll(wanted) => wanted.iter().all(contained),
            Self::Regex(patterns) => {
                patterns.iter().any(|pattern| values.iter().any(|value| pattern.is_match(value)))
            }
        }
    }
}

/// The values of a claim: the items of a list, or the parts of `scope` between spaces (RFC 6749).
fn values_of(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(text_of).collect(),
        Value::String(text) if name.eq_ignore_ascii_case("scope") => {
            text.split_whitespace().map(str::to_owned).collect()
        }
        value => vec![text_of(value)],
    }
}

/// Claims by the names of the headers that would carry them.
pub(super) fn extracted(claims: &Map<String, Value>, names: &[String], prefix: &str) -> Map<String, Value> {
    let shown = |value: &Value| match value {
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        value => text_of(value),
    };
    let present =
        names.iter().filter_map(|name| Some((name, claims.get(name).filter(|value| !value.is_null())?)));
    present.map(|(name, value)| (format!("{prefix}{name}"), shown(value).into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::pattern::PatternBudget;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[track_caller]
    fn rules(parameters: Value) -> Result<ClaimRules, Unusable> {
        ClaimRules::read(&Parameters { members: &object(parameters), patterns: &PatternBudget::default() })
    }

    #[test]
    fn claims_are_judged_by_their_rules() {
        let header = object(json!({"kid": "k", "tenant": "t"}));
        let claims = object(
            json!({"sub": "u1", "scope": "read write", "roles": ["admin", "dev"], "n": 5, "tenant": "t"}),
        );
        for (parameters, wanted) in [
            (json!({"requiredClaims": ["sub", "email"]}), "Missing required claims: email"),
            (json!({"requiredClaims": ["sub"]}), ""),
            (json!({"headerPayloadMatch": ["tenant"]}), ""),
            (json!({"headerPayloadMatch": ["kid"]}), "Header-payload mismatch: kid"),
            (json!({"claimValues": {"sub": {"values": "u1"}}}), ""),
            (json!({"claimValues": {"sub": {"values": ["u2", "u1"]}}}), ""),
            (json!({"claimValues": {"n": {"values": 5}}}), ""),
            (json!({"claimValues": {"roles": {"values": "admin"}}}), "Invalid claim values: roles"),
            (json!({"claimValues": {"roles": {"values": ["dev", "x"], "matchType": "contains"}}}), ""),
            (
                json!({"claimValues": {"scope": {"values": ["read", "write"], "matchType": "containsAll"}}}),
                "",
            ),
            (
                json!({"claimValues": {"scope": {"values": ["read", "admin"], "matchType": "containsAll"}}}),
                "Invalid claim values: scope",
            ),
            (json!({"claimValues": {"sub": {"values": "^u[0-9]$", "matchType": "regex"}}}), ""),
            (json!({"claimValues": {"email": {"values": "a"}}}), "Invalid claim values: email (missing)"),
        ] {
            let judgement = rules(parameters.clone()).unwrap().judge(&header, &claims);
            assert_eq!(judgement.failures.join("; "), wanted, "{parameters}");
            assert_eq!(judgement.validations["signatureValid"], true);
        }
        let judgement =
            rules(json!({"requiredClaims": ["email"], "headerPayloadMatch": ["tenant"]})).unwrap();
        let wanted = json!({
            "signatureValid": true,
            "requiredClaims": {"valid": false, "missing": ["email"]},
            "headerPayloadMatch": {"valid": true},
        });
        assert_eq!(Value::from(judgement.judge(&header, &claims).validations), wanted);
        let names = ["sub".to_owned(), "roles".to_owned(), "none".to_owned()];
        assert_eq!(
            Value::from(extracted(&claims, &names, "x-")),
            json!({"x-sub": "u1", "x-roles": "admin,dev"})
        );
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        for (values, wanted) in [
            (json!({"a": "b"}), "claimValues.a must be an object with values and matchType"),
            (json!({"a": {}}), "claimValues.a.values is missing"),
            (
                json!({"a": {"values": "b", "matchType": "like"}}),
                "claimValues.a.matchType must be one of exact, contains, containsAll, regex",
            ),
            (
                json!({"a": {"values": "(", "matchType": "regex"}}),
                "claimValues.a.values: a pattern is no pattern we can read: unclosed group",
            ),
        ] {
            assert_eq!(rules(json!({"claimValues": values})).unwrap_err().error.message, wanted);
        }
    }
}
