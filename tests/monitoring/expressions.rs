//! PromQL as text: which metrics, labels and values an expression names, and whether they exist.
//!
//! Not a parser of PromQL, which `promtool` and Prometheus are: it reads words, and knows what each may be.

use super::catalogue::{Family, Values, family_of};
use std::collections::{BTreeMap, BTreeSet};

/// Functions and aggregations that boards and rules use.
const FUNCTIONS: [&str; 15] = [
    "sum",
    "max",
    "min",
    "count",
    "topk",
    "rate",
    "increase",
    "changes",
    "histogram_quantile",
    "time",
    "avg",
    "label_values",
    "clamp_min",
    "count_over_time",
    "max_over_time",
];
const KEYWORDS: [&str; 5] = ["and", "or", "unless", "offset", "bool"];
/// What is followed by a list of labels.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Labels that Prometheus adds to every series.
const OF_TARGETS: [&str; 2] = ["job", "instance"];

/// A recorded series: its name and its labels.
pub(super) type Recorded = BTreeMap<String, BTreeSet<String>>;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Other(char),
}

fn tokens(expression: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_:$.".contains(c);
        let length = if first == '"' {
            let end = rest[1..].find('"').unwrap_or_else(|| panic!("no end of a text: {expression}"));
            found.push(Token::Text(rest[1..=end].to_owned()));
            end + 2
        } else if is_part(first) {
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            // Numbers and durations name nothing.
            if first.is_ascii_alphabetic() || first == '_' {
                found.push(Token::Word(rest[..end].to_owned()));
            }
            end
        } else {
            found.push(Token::Other(first));
            first.len_utf8()
        };
        rest = rest[length..].trim_start();
    }
    found
}

/// What an expression may name.
pub(super) struct Checker<'a> {
    pub(super) families: &'a BTreeMap<String, Family>,
    pub(super) recorded: &'a Recorded,
}

/// What was found in an expression.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) problems: Vec<String>,
    /// Every label that one of its series has.
    pub(super) labels: BTreeSet<String>,
    pub(super) series: BTreeSet<String>,
}

impl Checker<'_> {
    pub(super) fn check(&self, expression: &str) -> Found {
        let mut found = Found::default();
        let mut groups = Vec::new();
        let tokens = tokens(expression);
        let mut rest = tokens.as_slice();
        while let Some((token, after)) = rest.split_first() {
            rest = after;
            let Token::Word(word) = token else { continue };
            let is_called = after.first() == Some(&Token::Other('('));
            if BEFORE_LABELS.contains(&word.as_str()) && is_called {
                let end = after.iter().position(|token| *token == Token::Other(')')).unwrap();
                groups.extend(after[..end].iter().filter_map(|token| match token {
                    Token::Word(label) => Some(label.clone()),
                    _ => None,
                }));
                rest = &after[end..];
            } else if KEYWORDS.contains(&word.as_str()) || FUNCTIONS.contains(&word.as_str()) {
                // An aggregation may have its labels before its argument, so that no `(` follows.
            } else {
                rest = self.series(word, after, &mut found);
            }
        }
        let unknown = groups.iter().filter(|label| !found.labels.contains(*label));
        found
            .problems
            .extend(unknown.map(|label| format!("no series has the label {label}")).collect::<Vec<_>>());
        found.problems.iter_mut().for_each(|problem| problem.push_str(&format!(" in {expression}")));
        found
    }

    /// Reads a selector; `after` is what follows its name. Returns what follows the selector.
    fn series<'t>(&self, name: &str, after: &'t [Token], found: &mut Found) -> &'t [Token] {
        let labels = self.labels(name);
        let Some(labels) = labels else {
            found.problems.push(format!("there is no metric {name}"));
            return after;
        };
        found.series.insert(name.to_owned());
        found.labels.extend(labels.keys().cloned());
        let Some(inside) = after.strip_prefix(&[Token::Other('{')]) else { return after };
        let end = inside.iter().position(|token| *token == Token::Other('}')).unwrap();
        for matcher in inside[..end].split(|token| *token == Token::Other(',')) {
            let (Some(Token::Word(label)), Some(Token::Text(value))) = (matcher.first(), matcher.last())
            else {
                assert!(matcher.is_empty(), "{matcher:?}");
                continue;
            };
            let is_pattern = matcher.contains(&Token::Other('~'));
            match labels.get(label) {
                None => found.problems.push(format!("{name} has no label {label}")),
                Some(values) if !is_possible(values, value, is_pattern) => {
                    found.problems.push(format!("{name} has no {label}={value:?}"));
                }
                Some(_) => {}
            }
        }
        &inside[end..]
    }

    /// The labels of a series, as Prometheus has it.
    fn labels(&self, name: &str) -> Option<BTreeMap<String, Values>> {
        let targets = OF_TARGETS.map(|label| (label.to_owned(), Values::Any));
        let with = |labels: &[&str]| {
            let labels = labels.iter().map(|label| ((*label).to_owned(), Values::Any));
            labels.chain(targets.clone()).collect::<BTreeMap<_, _>>()
        };
        if let Some(labels) = self.recorded.get(name) {
            // Only what the record groups by is left.
            return Some(
                labels.iter().map(|label| (label.clone(), self.values_of_recorded(name, label))).collect(),
            );
        }
        match name {
            "up" => return Some(with(&[])),
            "ALERTS" => return Some(with(&["alertname", "alertstate", "severity"])),
            _ => {}
        }
        let (_, family) = family_of(self.families, name)?;
        let mut labels = family.labels.clone();
        labels.extend(targets.clone());
        if name.ends_with("_bucket") {
            labels.insert("le".to_owned(), Values::Any);
        }
        Some(labels)
    }

    /// `turnpike:attempts:increase1m` counts `turnpike_attempts_total`.
    fn values_of_recorded(&self, name: &str, label: &str) -> Values {
        let counted = name.split(':').nth(1).unwrap_or_default();
        let family = self.families.get(&format!("turnpike_{counted}_total"));
        family.and_then(|family| family.labels.get(label).cloned()).unwrap_or(Values::Any)
    }
}

/// Whether a label can have this value, or every alternative of a pattern one of its values. Variables of boards are any value.
fn is_possible(values: &Values, wanted: &str, is_pattern: bool) -> bool {
    let Values::Listed(listed) = values else { return true };
    let matches = |pattern: &str, value: &str| {
        let is_it = |(one, other): (char, char)| one == other || is_pattern && one == '.';
        pattern.len() == value.len() && pattern.chars().zip(value.chars()).all(is_it)
    };
    let exists = |pattern: &str| listed.iter().any(|value| matches(pattern, value));
    match is_pattern {
        true => wanted.split('|').all(exists),
        false => exists(wanted),
    }
}

#[test]
fn false_names_are_found() {
    let families = super::catalogue::families();
    let recorded =
        Recorded::from([("turnpike:attempts:increase1m".to_owned(), BTreeSet::from(["outcome".to_owned()]))]);
    let checker = Checker { families: &families, recorded: &recorded };
    for (expression, problem) in [
        ("sum by (status) (rate(turnpike_requests_total{job=\"x\",status=~\"5..|200\"}[1m]))", None),
        ("turnpike_held_bytes / turnpike_held_bytes_limit > 0.8", None),
        ("histogram_quantile(0.9, sum by (le) (rate(turnpike_overhead_seconds_bucket[1m])))", None),
        ("turnpike:attempts:increase1m{outcome=\"429\"} > 2", None),
        ("turnpike_request_total", Some("no metric turnpike_request_total")),
        ("turnpike_overhead_seconds", Some("no metric turnpike_overhead_seconds")),
        ("turnpike_requests_total_count", Some("no metric")),
        ("sum by (provder) (turnpike_requests_total)", Some("no series has the label provder")),
        ("turnpike_requests_total{code=\"x\"}", Some("no label code")),
        ("turnpike_hedges_total{outcome=\"one\"}", Some("no outcome=\"one\"")),
        ("turnpike_hedges_total{outcome=~\"won|lots\"}", Some("no outcome")),
        ("turnpike:attempts:increase1m{outcome=\"wrong\"}", Some("no outcome")),
        ("turnpike:attempts:increase1m{provider=\"x\"}", Some("no label provider")),
        ("rates(turnpike_requests_total[1m])", Some("no metric rates")),
    ] {
        let problems = checker.check(expression).problems;
        match problem {
            None => assert!(problems.is_empty(), "{problems:?}"),
            Some(problem) => {
                assert!(problems.iter().any(|one| one.contains(problem)), "{expression}: {problems:?}");
            }
        }
    }
}
