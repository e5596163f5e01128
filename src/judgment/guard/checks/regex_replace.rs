//! `default.regexReplace`: puts another text in place of every match of a pattern.

use super::BOTH;
use crate::guard::check::{CheckKind, Finder, LocalCheck, Match, Prepared};
use crate::guard::finding::{Change, Finding};
use crate::guard::parameters::{Parameters, Type, Unusable, optional, required};
use crate::guard::regex::Regex;
use crate::guard::subject::Subject;
use serde_json::{Value, json};
use std::ops::Range;

pub(crate) const REGEX_REPLACE: CheckKind = CheckKind {
    id: "default.regexReplace",
    aliases: &[],
    phases: BOTH,
    about: "Replaces every match in every text of all messages. Passes, unless it may not find anything.",
    source: "",
    parameters: &[
        required(
            "rule",
            Type::Text,
            "A regular expression, without look-around and back-references: plain, or as `/pattern/flags` with the flags i, m and s.",
        ),
        optional(
            "redactText",
            Type::Text,
            r#""[REDACTED]""#,
            "What stands there instead, as it is: at most 1,000 bytes.",
        ),
        optional("failOnDetection", Type::Flag, "false", "Whether a match fails the check."),
    ],
    prepare,
};

const MAX_REPLACEMENT: usize = 1000;

#[derive(Debug)]
struct RegexReplace {
    rule: String,
    regex: Regex,
    with: String,
    fails: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let rule = parameters.text("rule").unwrap_or_default();
    if rule.is_empty() {
        return Err(unusable("rule", rule, "Missing regex pattern"));
    }
    let with = parameters.text("redactText").filter(|text| !text.is_empty()).unwrap_or("[REDACTED]");
    if with.len() > MAX_REPLACEMENT {
        let message = format!("redactText is too long: at most {MAX_REPLACEMENT} bytes");
        return Err(unusable("redactText", rule, &message));
    }
    let regex = Regex::compile_literal(rule, parameters.patterns);
    let regex = regex.map_err(|problem| unusable("rule", rule, &format!("rule {problem}")))?;
    let rule = rule.to_owned();
    let with = with.to_owned();
    let fails = parameters.flag("failOnDetection");
    Ok(Prepared::Local(Box::new(RegexReplace { rule, regex, with, fails })))
}

fn unusable(parameter: &'static str, rule: &str, message: &str) -> Unusable {
    let verdict = true;
    Unusable { data: Some(failure(rule, message)), verdict, ..Unusable::new(parameter, message) }
}

fn failure(rule: &str, message: &str) -> Value {
    let explanation = format!("An error occurred while processing the regex: {message}");
    json!({"explanation": explanation, "regexPattern": rule})
}

impl RegexReplace {
    fn finding_of(&self, is_match: bool) -> Finding {
        let verdict = !(is_match && self.fails);
        let explanation = if is_match {
            format!("The pattern {} matched and was replaced with {}.", self.rule, self.with)
        } else {
            format!("The pattern {} did not match any text.", self.rule)
        };
        let data = json!({"explanation": explanation, "regexPattern": self.rule, "verdict": verdict});
        Finding::of(verdict, data)
    }
}

impl LocalCheck for RegexReplace {
    fn run(&self, subject: &Subject) -> Finding {
        if subject.texts.iter().all(|text| text.text.is_empty()) {
            let message = "Missing text to match";
            let failed = Finding::failed("Error", message).with_data(failure(&self.rule, message));
            return Finding { verdict: true, ..failed };
        }
        let replace = |text: &String| self.regex.replace(text, &self.with);
        let texts: Vec<_> = subject.texts.iter().map(|text| replace(&text.text)).collect();
        let is_match = texts.iter().any(Option::is_some);
        let change = if is_match { Change::Texts(texts) } else { Change::None };
        self.finding_of(is_match).with_change(change)
    }

    fn may_change(&self) -> bool {
        true
    }

    fn finder(&self) -> Option<&dyn Finder> {
        Some(self)
    }
}

impl Finder for RegexReplace {
    fn find(&self, text: &str, range: Range<usize>) -> Vec<Match> {
        self.regex.find_all(text, range, &self.with)
    }

    fn longest(&self) -> Option<usize> {
        self.regex.longest()
    }

    fn finding(&self, found: &[Match]) -> Finding {
        self.finding_of(!found.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, prepare, request, request_with, run};

    #[test]
    fn every_text_is_rewritten() {
        let message = |text| json!({"role": "user", "content": text});
        let messages = [message("a 123-45-6789"), message("b"), message("SSN 987-65-4321")];
        let subject = request_with(&json!({"messages": messages}));
        let finding = run(&REGEX_REPLACE, json!({"rule": r"\d{3}-\d{2}-\d{4}"}), &subject);
        let wanted = vec![Some("a [REDACTED]".to_owned()), None, Some("SSN [REDACTED]".to_owned())];
        assert_eq!((finding.verdict, &finding.change), (true, &Change::Texts(wanted)));
        let finding = run(
            &REGEX_REPLACE,
            json!({"rule": "/SSN/i", "redactText": "$&", "failOnDetection": true}),
            &subject,
        );
        assert_eq!(finding.change, Change::Texts(vec![None, None, Some("$& 987-65-4321".to_owned())]));
        assert!(!finding.verdict);
        let finding = run(&REGEX_REPLACE, json!({"rule": "x", "failOnDetection": true}), &subject);
        assert!(finding.verdict && !finding.is_transformed());
        assert_eq!(data(&finding)["explanation"], "The pattern x did not match any text.");
    }

    #[test]
    fn errors_pass() {
        for (parameters, text, message) in [
            (json!({}), "a", "Missing regex pattern"),
            (json!({"rule": "a"}), "", "Missing text to match"),
            (
                json!({"rule": "a", "redactText": "x".repeat(1001)}),
                "a",
                "redactText is too long: at most 1000 bytes",
            ),
        ] {
            let finding = run(&REGEX_REPLACE, parameters, &request(text));
            assert_eq!((error(&finding), finding.verdict), (message, true));
        }
    }

    #[test]
    fn streams_are_rewritten_or_stopped() {
        let check = |fails| match prepare(&REGEX_REPLACE, json!({"rule": "b+", "failOnDetection": fails})) {
            Ok(Prepared::Local(check)) => check,
            other => panic!("{other:?}"),
        };
        let replaces = check(false);
        let stops = check(true);
        let found = replaces.finder().unwrap().find("abbabb", 0..5);
        let places: Vec<_> = found.iter().map(|found| found.range.clone()).collect();
        assert_eq!(places, [1..3, 4..5]);
        assert!(found.iter().all(|found| found.replacement.as_deref() == Some("[REDACTED]")));
        assert!(replaces.finder().unwrap().finding(&found).verdict);
        assert!(!stops.finder().unwrap().finding(&found).verdict);
        assert_eq!(replaces.finder().unwrap().longest(), None);
    }
}
