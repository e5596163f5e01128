//! `default.sentenceCount`, `default.wordCount` and `default.characterCount`: whether a text is neither too short nor too long.
//!
//! Characters are counted as JavaScript does, in units of UTF-16.

use super::{BOTH, NOT, excerpt};
use crate::guard::check::{CheckKind, LocalCheck, Prepared};
use crate::guard::finding::Finding;
use crate::guard::parameters::{Parameters, Type, Unusable, required};
use crate::guard::subject::Subject;
use serde_json::{Map, Value, json};

pub(crate) const SENTENCE_COUNT: CheckKind = CheckKind {
    id: "default.sentenceCount",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the number of `.`, `!` and `?` is in the range. An empty text has none.",
    source: "",
    parameters: &[
        required("minSentences", Type::Number, "The fewest sentences."),
        required("maxSentences", Type::Number, "The most sentences."),
        NOT,
    ],
    prepare: |parameters| prepare(&SENTENCES, parameters),
};

pub(crate) const WORD_COUNT: CheckKind = CheckKind {
    id: "default.wordCount",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the number of words, separated by white space, is in the range.",
    source: "",
    parameters: &[
        required("minWords", Type::Number, "The fewest words, a whole number."),
        required("maxWords", Type::Number, "The most words, a whole number."),
        NOT,
    ],
    prepare: |parameters| prepare(&WORDS, parameters),
};

pub(crate) const CHARACTER_COUNT: CheckKind = CheckKind {
    id: "default.characterCount",
    aliases: &[],
    phases: BOTH,
    about: "Passes where the number of characters, in units of UTF-16, is in the range.",
    source: "",
    parameters: &[
        required("minCharacters", Type::Number, "The fewest characters, a whole number."),
        required("maxCharacters", Type::Number, "The most characters, a whole number."),
        NOT,
    ],
    prepare: |parameters| prepare(&CHARACTERS, parameters),
};

/// What is counted.
#[derive(Debug)]
struct Unit {
    /// In the plural.
    name: &'static str,
    min: &'static str,
    max: &'static str,
    /// The member of the result with the number.
    member: &'static str,
    count: fn(&str) -> usize,
    is_whole: bool,
    counts_empty: bool,
    missing: &'static str,
}

const SENTENCES: Unit = Unit {
    name: "sentences",
    min: "minSentences",
    max: "maxSentences",
    member: "sentenceCount",
    count: |text| memchr::memchr3_iter(b'.', b'!', b'?', text.as_bytes()).count(),
    is_whole: false,
    counts_empty: true,
    missing: "Missing sentence count range",
};

const WORDS: Unit = Unit {
    name: "words",
    min: "minWords",
    max: "maxWords",
    member: "wordCount",
    count: word_count,
    is_whole: true,
    counts_empty: false,
    missing: "Invalid or missing word count range",
};

const CHARACTERS: Unit = Unit {
    name: "characters",
    min: "minCharacters",
    max: "maxCharacters",
    member: "characterCount",
    count: |text| {
        // A character is one unit, and one of four bytes is two.
        let units = |byte: &u8| usize::from(byte & 0xc0 != 0x80) + usize::from(*byte >= 0xf0);
        text.as_bytes().iter().map(units).sum()
    },
    is_whole: true,
    counts_empty: false,
    missing: "Invalid or missing character count range",
};

fn word_count(text: &str) -> usize {
    if !text.is_ascii() {
        return text.split_whitespace().count();
    }
    let is_blank = |byte: u8| matches!(byte, b'\t'..=b'\r' | b' ');
    let mut after_blank = true;
    let begins = |byte: &u8| {
        let begins = after_blank && !is_blank(*byte);
        after_blank = is_blank(*byte);
        usize::from(begins)
    };
    text.as_bytes().iter().map(begins).sum()
}

#[derive(Debug)]
struct Count {
    unit: &'static Unit,
    min: f64,
    max: f64,
    /// The range as it was written.
    range: (Value, Value),
    not: bool,
}

fn prepare(unit: &'static Unit, parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let bound = |name: &'static str| {
        let number = parameters.number(name).filter(|number| !unit.is_whole || number.fract() == 0.0);
        let missing = || Unusable {
            data: Some(json!({"explanation": format!("An error occurred: {}", unit.missing)})),
            ..Unusable::new(name, unit.missing)
        };
        number.ok_or_else(missing)
    };
    let written = |name| parameters.get(name).cloned().unwrap_or_default();
    let min = bound(unit.min)?;
    let max = bound(unit.max)?;
    let range = (written(unit.min), written(unit.max));
    Ok(Prepared::Local(Box::new(Count { unit, min, max, range, not: parameters.flag("not") })))
}

impl LocalCheck for Count {
    fn run(&self, subject: &Subject) -> Finding {
        let unit = self.unit;
        let prose = subject.prose();
        let text = prose.as_deref().unwrap_or_default();
        if text.is_empty() && !unit.counts_empty {
            let message = "Missing text to analyze";
            let data = json!({"explanation": format!("An error occurred: {message}")});
            return Finding::failed("Error", message).with_data(data);
        }
        let count = (unit.count)(text);
        // No text has 2^52 characters.
        let is_within = (self.min..=self.max).contains(&(count as f64));
        let verdict = is_within != self.not;
        let (min, max) = &self.range;
        let place = if is_within { "within" } else { "outside" };
        let mut data = Map::new();
        for (name, value) in [
            ("explanation", format!("The text has {count} {}: {place} {min} to {max}.", unit.name).into()),
            (unit.member, count.into()),
            (unit.min, min.clone()),
            (unit.max, max.clone()),
            ("not", self.not.into()),
            ("verdict", verdict.into()),
            ("textExcerpt", excerpt(text).into()),
        ] {
            data.insert(name.to_owned(), value);
        }
        Finding::of(verdict, data.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{data, error, request, run};

    #[test]
    fn counts_are_those_of_a_count_by_characters() {
        for text in
            ["", " ", "a", " a  b\u{b}c\td ", "é\u{a0}b 😀 c", "a\u{1c}b", "\u{2028}x y", "a\r\nb\u{c}"]
        {
            assert_eq!(word_count(text), text.split_whitespace().count(), "{text:?}");
            assert_eq!((CHARACTERS.count)(text), text.encode_utf16().count(), "{text:?}");
        }
    }

    #[test]
    fn sentences_as_in_the_reference() {
        let text = "This is a sentence. This is another sentence.";
        for (min, max, not, text, verdict, count) in [
            (1, 3, false, text, true, 2),
            (3, 4, false, text, false, 2),
            (3, 4, true, text, true, 2),
            (1, 3, false, "", false, 0),
            (0, 3, false, "", true, 0),
            (1, 1, false, "Really?", true, 1),
        ] {
            let parameters = json!({"minSentences": min, "maxSentences": max, "not": not});
            let finding = run(&SENTENCE_COUNT, parameters, &request(text));
            assert_eq!(
                (finding.verdict, &data(&finding)["sentenceCount"]),
                (verdict, &json!(count)),
                "{text}"
            );
        }
        for parameters in [json!({}), json!({"minSentences": 1}), json!({"maxSentences": 3})] {
            let finding = run(&SENTENCE_COUNT, parameters, &request(text));
            assert_eq!((error(&finding), finding.verdict), ("Missing sentence count range", false));
        }
    }

    #[test]
    fn other_ranges_are_whole() {
        let range = |name: &str, min: Value, max: Value| json!({format!("min{name}"): min, format!("max{name}"): max});
        for (kind, name, missing) in [
            (&WORD_COUNT, "Words", "Invalid or missing word count range"),
            (&CHARACTER_COUNT, "Characters", "Invalid or missing character count range"),
        ] {
            for (min, max) in [(json!(1), Value::Null), (Value::Null, json!(1)), (json!(1.5), json!(2))] {
                assert_eq!(error(&run(kind, range(name, min, max), &request("a"))), missing);
            }
            let finding = run(kind, range(name, json!(0), json!(9)), &request(""));
            assert_eq!((error(&finding), finding.verdict), ("Missing text to analyze", false));
        }
        for (text, count, characters) in [(" one  two\nthree ", 3, 16), ("é😀", 1, 3)] {
            let finding = run(&WORD_COUNT, range("Words", json!(count), json!(3.0)), &request(text));
            assert_eq!((finding.verdict, &data(&finding)["wordCount"]), (true, &json!(count)));
            let finding = run(&CHARACTER_COUNT, range("Characters", json!(0), json!(3)), &request(text));
            assert_eq!(
                (finding.verdict, &data(&finding)["characterCount"]),
                (characters <= 3, &json!(characters))
            );
        }
    }
}
