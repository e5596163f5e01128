//! `default.contains`: whether the text has any, all or none of some words.
//!
//! Case counts, and a word is found inside of others.

mod all_terms;

use super::{BOTH, NOT};
use crate::guard::check::{CheckKind, Finder, LocalCheck, Match, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, optional, required};
use crate::guard::subject::Subject;
use all_terms::AllTerms;
use serde_json::json;
use std::ops::Range;

pub(crate) const CONTAINS: CheckKind = CheckKind {
    id: "default.contains",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the text has `any`, `all` or `none` of the words, as parts of it and with their case.",
    source: "",
    parameters: &[
        required("words", Type::List, "What is looked for: at most 10,000, of 1 MiB together."),
        optional(
            "operator",
            Type::OneOf(&["any", "all", "none"]),
            r#""any""#,
            "How many of them must be there.",
        ),
        NOT,
    ],
    prepare,
};

/// The most words, and the most bytes of all together.
const MAX_TERMS: usize = 10_000;
const MAX_BYTES: usize = 1 << 20;
/// So many are looked for one by one, which is faster than all at once.
const FEW: usize = 16;

#[derive(Debug)]
struct Contains {
    terms: Vec<String>,
    /// Where they are many: all of them, but those that are empty.
    all: Option<AllTerms>,
    operator: Operator,
    not: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Any,
    All,
    None,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let terms = parameters.texts("words").ok_or_else(|| Unusable::new("words", "Missing words"))?;
    let operator = match parameters.text("operator") {
        Some("all") => Operator::All,
        Some("none") => Operator::None,
        _ => Operator::Any,
    };
    let terms: Vec<String> = terms.into_iter().map(str::to_owned).collect();
    if terms.len() > MAX_TERMS || terms.iter().map(String::len).sum::<usize>() > MAX_BYTES {
        let message = format!("There may be at most {MAX_TERMS} words, of {MAX_BYTES} bytes together");
        return Err(Unusable::new("words", message));
    }
    let all = (terms.len() > FEW).then(|| AllTerms::new(&terms));
    Ok(Prepared::Local(Box::new(Contains { terms, all, operator, not: parameters.flag("not") })))
}

impl Contains {
    fn finding_of(&self, is_found: &dyn Fn(usize, &str) -> bool) -> Finding {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for (place, term) in self.terms.iter().enumerate() {
            if is_found(place, term) { found.push(term) } else { missing.push(term) }
        }
        let (operator, holds) = match self.operator {
            Operator::Any => ("any", !found.is_empty()),
            Operator::All => ("all", missing.is_empty()),
            Operator::None => ("none", found.is_empty()),
        };
        let verdict = holds != self.not;
        let explanation = match (self.operator, holds) {
            (Operator::Any, true) => "At least one of the words was found.",
            (Operator::Any, false) => "None of the words was found.",
            (Operator::All, true) => "All words were found.",
            (Operator::All, false) => "Some of the words are missing.",
            (Operator::None, true) => "None of the words was found, as it must be.",
            (Operator::None, false) => "Some of the words were found, which may not be there.",
        };
        let data = json!({
            "explanation": explanation,
            "operator": operator,
            "foundWords": found,
            "missingWords": missing,
        });
        Finding::of(verdict, data)
    }

    /// Whether it fails as soon as one word is found.
    fn forbids(&self) -> bool {
        matches!((self.operator, self.not), (Operator::None, false) | (Operator::Any, true))
    }
}

impl LocalCheck for Contains {
    fn run(&self, subject: &Subject) -> Finding {
        match subject.text() {
            Some(text) => match &self.all {
                None => self.finding_of(&|_, term| text.contains(term)),
                Some(all) => {
                    let found = all.found_in(text);
                    self.finding_of(&|place, term| term.is_empty() || found.contains(&place))
                }
            },
            None => {
                let message = "Missing text to search";
                let data = json!({"explanation": format!("An error occurred: {message}")});
                Finding::failed("Error", message).with_data(data)
            }
        }
    }

    fn finder(&self) -> Option<&dyn Finder> {
        self.forbids().then_some(self)
    }
}

impl Finder for Contains {
    fn find(&self, text: &str, range: Range<usize>) -> Vec<Match> {
        let part = text.get(range.clone()).unwrap_or_default();
        if let Some(all) = &self.all {
            if all.count() < self.terms.len() {
                // An empty word is everywhere.
                let range = range.start..range.start;
                return vec![Match { range, replacement: None, detail: json!("") }];
            }
            let found = all.first_in(part).and_then(|(place, found)| Some((self.terms.get(place)?, found)));
            let of = |(term, found): (&String, Range<usize>)| Match {
                range: range.start + found.start..range.start + found.end,
                replacement: None,
                detail: json!(term),
            };
            return found.map(of).into_iter().collect();
        }
        let place = |term: &String| {
            let start = range.start + part.find(term.as_str())?;
            Some(Match { range: start..start + term.len(), replacement: None, detail: json!(term) })
        };
        let mut found: Vec<Match> = self.terms.iter().filter_map(place).collect();
        found.sort_by_key(|found| found.range.start);
        found.truncate(1);
        found
    }

    fn longest(&self) -> Option<usize> {
        self.terms.iter().map(String::len).max().or(Some(0))
    }

    fn finding(&self, found: &[Match]) -> Finding {
        self.finding_of(&|_, term| found.iter().any(|found| found.detail == *term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, prepare, request, response, run};

    #[test]
    fn the_rows_of_the_reference() {
        let text = "adding some text before this word1 and some after";
        for (operator, terms, text, verdict, found) in [
            ("any", &["word1", "word2"][..], text, true, json!(["word1"])),
            ("all", &["word1", "word2"], text, false, json!(["word1"])),
            ("none", &["word2", "word3"], text, true, json!([])),
            ("none", &["word1"], text, false, json!(["word1"])),
            ("any", &[], "some text", false, json!([])),
            ("all", &["text", "word1"], "Adding some TEXT Word1 and some text", false, json!(["text"])),
        ] {
            for not in [false, true] {
                let parameters = json!({"words": terms, "operator": operator, "not": not});
                let finding = run(&CONTAINS, parameters, &response(text));
                assert_eq!(
                    (finding.verdict, &data(&finding)["foundWords"]),
                    (verdict != not, &found),
                    "{terms:?}"
                );
                assert_eq!(data(&finding)["operator"], operator);
            }
        }
        let finding = run(&CONTAINS, json!({"words": ["b"]}), &request("abc"));
        assert!(finding.verdict && data(&finding)["missingWords"] == json!([]));
        assert_eq!(error(&run(&CONTAINS, json!({"words": ["a"]}), &request(""))), "Missing text to search");
        assert_eq!(error(&run(&CONTAINS, json!({}), &request("a"))), "Missing words");
    }

    #[test]
    fn forbidden_terms_are_found_in_streams() {
        let check = |parameters| match prepare(&CONTAINS, parameters) {
            Ok(Prepared::Local(check)) => check,
            other => panic!("{other:?}"),
        };
        let forbids = check(json!({"words": ["bomb", "é"], "operator": "none"}));
        let finder = forbids.finder().unwrap();
        let found = finder.find("a bomb é", 1..9);
        assert_eq!((found[0].range.clone(), finder.longest()), (2..6, Some(4)));
        assert!(!finder.finding(&found).verdict && finder.finding(&[]).verdict);
        assert!(finder.find("a bomb", 0..5).is_empty());
        assert!(check(json!({"words": ["a"], "not": true})).finder().is_some());
        assert!(check(json!({"words": ["a"], "operator": "all"})).finder().is_none());
    }

    /// Words within words, and the same ones as single searches find.
    #[test]
    fn many_terms_are_found_as_few_are() {
        let mut terms: Vec<String> = (1..200).map(|count| "a".repeat(count)).collect();
        terms.extend(["bomb", "om", "", "é", "never"].map(str::to_owned));
        for text in ["aaa bomb é", "nothing of it", "om", &"a".repeat(500)] {
            let finding = run(&CONTAINS, json!({"words": terms}), &response(text));
            let wanted: Vec<&String> = terms.iter().filter(|term| text.contains(term.as_str())).collect();
            assert_eq!(data(&finding)["foundWords"], json!(wanted), "{text}");
        }
        terms.retain(|term| !term.is_empty());
        let check = match prepare(&CONTAINS, json!({"words": terms, "operator": "none"})) {
            Ok(Prepared::Local(check)) => check,
            other => panic!("{other:?}"),
        };
        let finder = check.finder().unwrap();
        let found = finder.find("x bomb", 1..6);
        assert_eq!((found[0].range.clone(), &found[0].detail), (3..5, &json!("om")));
        assert!(!finder.finding(&found).verdict && finder.find("x bomb", 0..2).is_empty());
    }

    #[test]
    fn there_are_not_too_many_terms() {
        for terms in [vec!["a".to_owned(); MAX_TERMS + 1], vec!["a".repeat(MAX_BYTES), "a".to_owned()]] {
            let finding = run(&CONTAINS, json!({"words": terms}), &response("a"));
            assert!(error(&finding).starts_with("There may be at most 10000 words"));
        }
    }
}
