//! How much of what is labelled in public sets the detecting checks find, and how much else: the figures that their
//! documentation states.
//!
//! The sets and where they come from: `guard_detection/README.md`. Not here: single cases, which are beside the detectors.

use judgment::guard::{Finding, LocalCheck, Parameters, Prepared, Subject, check_kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use words::api::operation::Operation;
use words::config::pattern::PatternBudget;

/// A check with these parameters.
fn local(id: &str, parameters: &Value) -> Box<dyn LocalCheck> {
    let patterns = PatternBudget::default();
    let parameters = Parameters { members: parameters.as_object().unwrap(), patterns: &patterns };
    match (check_kind(id).unwrap().prepare)(&parameters).unwrap() {
        Prepared::Local(check) => check,
        Prepared::Remote(_) => panic!("{id} is decided elsewhere"),
    }
}

fn run(check: &dyn LocalCheck, text: &str) -> Finding {
    let body = json!({"messages": [{"role": "user", "content": text}]});
    check.run(&Subject::of_request(Operation::ChatCompletions, &body.to_string()))
}

fn lines(set: &str) -> impl Iterator<Item = Value> {
    set.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// What was found of what is there, and what else was found.
#[derive(Debug, Default)]
struct Score {
    found: u32,
    missed: u32,
    wrong: u32,
}

impl Score {
    fn recall(&self) -> f64 {
        f64::from(self.found) / f64::from((self.found + self.missed).max(1))
    }

    fn precision(&self) -> f64 {
        f64::from(self.found) / f64::from((self.found + self.wrong).max(1))
    }
}

/// (category, start, end)
fn places(spans: &Value, category: &str, start: &str, end: &str) -> Vec<(String, u64, u64)> {
    let member = |span: &Value, name: &str, index: usize| span.get(name).unwrap_or(&span[index]).clone();
    let place = |span: &Value| {
        let numbers = (member(span, start, 1).as_u64(), member(span, end, 2).as_u64());
        (member(span, category, 0).as_str().unwrap().to_owned(), numbers.0.unwrap(), numbers.1.unwrap())
    };
    spans.as_array().unwrap().iter().map(place).collect()
}

#[test]
fn pii_is_found_as_the_documentation_states() {
    let check = local("default.pii", &json!({}));
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    for line in lines(include_str!("guard_detection/pii.jsonl")) {
        let finding = run(check.as_ref(), line["text"].as_str().unwrap());
        let found = places(&finding.data.unwrap()["found"], "category", "start", "end");
        let labelled = places(&line["spans"], "", "", "");
        let overlaps = |one: &(String, u64, u64), other: &(String, u64, u64)| {
            one.0 == other.0 && one.1 < other.2 && other.1 < one.2
        };
        for label in &labelled {
            let score = scores.entry(label.0.clone()).or_default();
            if found.iter().any(|found| overlaps(found, label)) {
                score.found += 1;
            } else {
                score.missed += 1;
            }
        }
        for wrong in found.iter().filter(|found| !labelled.iter().any(|label| overlaps(label, found))) {
            scores.entry(wrong.0.clone()).or_default().wrong += 1;
        }
    }
    for (category, recall) in [
        ("EMAIL_ADDRESS", 1.0),
        ("PHONE_NUMBER", 0.82),
        ("CREDIT_CARD", 1.0),
        ("IBAN", 1.0),
        ("IP_ADDRESS", 1.0),
        ("SSN", 1.0),
    ] {
        let score = &scores[category];
        assert!(score.recall() >= recall && score.precision() >= 1.0, "{category}: {score:?}");
    }
    assert_eq!(scores.len(), 6, "nothing of other categories is there: {scores:?}");
}

#[test]
fn prompt_injections_are_found_as_the_documentation_states() {
    let check = local("default.promptInjection", &json!({}));
    let mut corpus = Score::default();
    let mut wild = Score::default();
    for line in lines(include_str!("guard_detection/injections.jsonl")) {
        let score = if line["category"] == "wild" { &mut wild } else { &mut corpus };
        let is_found = !run(check.as_ref(), line["text"].as_str().unwrap()).verdict;
        match (line["label"] == "malicious", is_found) {
            (true, true) => score.found += 1,
            (true, false) => score.missed += 1,
            (false, true) => score.wrong += 1,
            (false, false) => {}
        }
    }
    assert!(corpus.recall() >= 0.58 && corpus.precision() >= 1.0, "{corpus:?}");
    assert!(wild.recall() >= 0.7, "{wild:?}");
    let ordinary = lines(include_str!("guard_detection/pii.jsonl"));
    let wrong = ordinary.filter(|line| !run(check.as_ref(), line["text"].as_str().unwrap()).verdict).count();
    assert_eq!(wrong, 0, "of 1,000 ordinary sentences");
}
