//! `default.regexMatch`: whether a pattern is found in the text.

use super::{BOTH, NOT, excerpt};
use crate::guard::check::{CheckKind, Finder, LocalCheck, Match, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::regex::Regex;
use crate::guard::subject::Subject;
use serde_json::{Value, json};
use std::ops::Range;

pub(crate) const REGEX_MATCH: CheckKind = CheckKind {
    id: "default.regexMatch",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the pattern is found in the text.",
    source: "",
    parameters: &[
        required("rule", Type::Text, "A regular expression, without look-around and back-references."),
        NOT,
    ],
    prepare,
};

#[derive(Debug)]
struct RegexMatch {
    rule: String,
    regex: Regex,
    not: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let rule = parameters.text("rule").unwrap_or_default();
    let not = parameters.flag("not");
    if rule.is_empty() {
        return Err(unusable(rule, not, "Missing regex pattern"));
    }
    let regex = Regex::compile(rule, parameters.patterns);
    let regex = regex.map_err(|problem| unusable(rule, not, &format!("rule {problem}")))?;
    Ok(Prepared::Local(Box::new(RegexMatch { rule: rule.to_owned(), regex, not })))
}

fn unusable(rule: &str, not: bool, message: &str) -> Unusable {
    Unusable { data: Some(failure(rule, not, message)), ..Unusable::new("rule", message) }
}

fn failure(rule: &str, not: bool, message: &str) -> Value {
    json!({
        "explanation": format!("An error occurred while processing the regex: {message}"),
        "regexPattern": rule,
        "not": not,
    })
}

impl RegexMatch {
    fn finding_of(&self, is_match: bool, details: Value, excerpt: Option<String>) -> Finding {
        let verdict = is_match != self.not;
        let how = if is_match { "was found" } else { "was not found" };
        let mut data = json!({
            "explanation": format!("The pattern {} {how} in the text.", self.rule),
            "regexPattern": self.rule,
            "not": self.not,
            "verdict": verdict,
            "matchDetails": details,
        });
        if let (Some(excerpt), Value::Object(members)) = (excerpt, &mut data) {
            members.insert("textExcerpt".to_owned(), excerpt.into());
        }
        Finding::of(verdict, data)
    }
}

impl LocalCheck for RegexMatch {
    fn run(&self, subject: &Subject) -> Finding {
        let Some(text) = subject.text() else {
            let message = "Missing text to match";
            return Finding::failed("Error", message).with_data(failure(&self.rule, self.not, message));
        };
        let details = self.regex.details(text);
        self.finding_of(!details.is_null(), details, Some(excerpt(text)))
    }

    fn finder(&self) -> Option<&dyn Finder> {
        self.not.then_some(self)
    }
}

impl Finder for RegexMatch {
    fn find(&self, text: &str, range: Range<usize>) -> Vec<Match> {
        self.regex.find_first(text, range).into_iter().collect()
    }

    fn longest(&self) -> Option<usize> {
        self.regex.longest()
    }

    fn finding(&self, found: &[Match]) -> Finding {
        let details = found.first().map_or(Value::Null, |found| found.detail.clone());
        self.finding_of(!found.is_empty(), details, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, prepare, request, response, run};

    #[test]
    fn the_rows_of_the_reference() {
        let finding = run(&REGEX_MATCH, json!({"rule": "("}), &request("any"));
        assert!(!finding.verdict && error(&finding).starts_with("rule is no pattern we can read"));
        let explanation = finding.data.unwrap()["explanation"].clone();
        assert!(explanation.as_str().unwrap().starts_with("An error occurred "));
        assert_eq!(error(&run(&REGEX_MATCH, json!({"rule": ""}), &request("any"))), "Missing regex pattern");
        assert_eq!(error(&run(&REGEX_MATCH, json!({}), &request("any"))), "Missing regex pattern");
        assert_eq!(error(&run(&REGEX_MATCH, json!({"rule": "a"}), &request(""))), "Missing text to match");
        let finding = run(&REGEX_MATCH, json!({"rule": "a"}), &response(&"a".repeat(200)));
        assert_eq!(data(&finding)["textExcerpt"], format!("{}...", "a".repeat(100)));
        let wanted = json!({"matchedText": "a", "index": 0, "groups": {}, "captures": []});
        assert!(finding.verdict && data(&finding)["matchDetails"] == wanted);
        for (rule, not, verdict) in [("b", false, false), ("b", true, true), ("a", true, false)] {
            let finding = run(&REGEX_MATCH, json!({"rule": rule, "not": not}), &request("xay"));
            assert_eq!((finding.verdict, &data(&finding)["not"]), (verdict, &json!(not)), "{rule} {not}");
            assert_eq!(data(&finding)["matchDetails"].is_null(), rule == "b");
        }
    }

    #[test]
    fn what_may_not_be_there_is_found_in_streams() {
        let forbids = prepare(&REGEX_MATCH, json!({"rule": r"\bbomb\b", "not": true})).unwrap();
        let Prepared::Local(check) = forbids else { panic!() };
        let finder = check.finder().unwrap();
        assert_eq!(finder.longest(), Some(4));
        assert_eq!(finder.find("a bombe, a bomb!", 0..16)[0].range, 11..15);
        assert!(finder.find("a bombe", 0..6).is_empty() && finder.find("abomb", 1..5).is_empty());
        let found = finder.find("a bomb", 2..6);
        assert!(!finder.finding(&found).verdict && finder.finding(&[]).verdict);
        let Prepared::Local(check) = prepare(&REGEX_MATCH, json!({"rule": "a"})).unwrap() else { panic!() };
        assert!(check.finder().is_none());
    }
}
