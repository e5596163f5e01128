//! Regular expressions of checks: what they find, with a bounded cost whatever the pattern and the text.
//!
//! The syntax is that of `config::pattern`: JavaScript's without look-around and back-references, which would take more than
//! linear time and are refused with that reason. Not here: the tables that find matches (`config::pattern::Searcher`, with what
//! was measured of them).

use super::check::Match;
use serde_json::{Map, Value, json};
use std::ops::{ControlFlow, Range};
use words::config::pattern::{PatternBudget, Searcher};

/// As much of a match as a result shows, bytes.
pub(super) const MAX_SHOWN: usize = 4 << 10;
/// How much longer than the original a text with replacements may become, bytes.
const MAX_GROWTH: usize = 1 << 20;

/// A regular expression.
#[derive(Debug)]
pub(super) struct Regex {
    searcher: Searcher,
}

impl Regex {
    /// # Errors
    /// What is wrong with the pattern, to be put behind the parameter's name.
    pub fn compile(rule: &str, budget: &PatternBudget) -> Result<Self, String> {
        Searcher::compile(rule, budget).map(|searcher| Self { searcher })
    }

    /// As [`Regex::compile`], of a pattern that may be written `/pattern/flags`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn compile_literal(rule: &str, budget: &PatternBudget) -> Result<Self, String> {
        let literal = rule.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'));
        let is_flags = |flags: &str| flags.bytes().all(|flag| b"dgimsuvy".contains(&flag));
        let Some((pattern, flags)) = literal.filter(|(_, flags)| is_flags(flags)) else {
            return Self::compile(rule, budget);
        };
        let mut inline = String::new();
        for flag in flags.chars() {
            match flag {
                'i' | 'm' | 's' if !inline.contains(flag) => inline.push(flag),
                // All matches are replaced, and characters are whole, anyway.
                'g' | 'u' | 'v' | 'd' | 'i' | 'm' | 's' => {}
                _ => return Err(format!("has the flag {flag}; the flags are g, i, m, s, u, v and d")),
            }
        }
        if inline.is_empty() {
            Self::compile(pattern, budget)
        } else {
            Self::compile(&format!("(?{inline}){pattern}"), budget)
        }
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.searcher.is_match(text, 0..text.len())
    }

    /// The first match as JavaScript describes it: `matchedText`, `index`, `groups` and `captures`. Null: there is none.
    pub fn details(&self, text: &str) -> Value {
        match self.searcher.first(text, 0..text.len()) {
            Ok(Some(place)) => {
                let index = text.get(..place.start).unwrap_or_default().encode_utf16().count();
                let mut details = self.details_at(text, &place);
                details.insert("index".to_owned(), index.into());
                details.into()
            }
            Ok(None) => Value::Null,
            // There is a match, of which only this is certain.
            Err(()) => json!({"matchedText": null, "index": null, "groups": {}, "captures": []}),
        }
    }

    fn details_at(&self, text: &str, place: &Range<usize>) -> Map<String, Value> {
        let part = |range: &Range<usize>| shown(text.get(range.clone()).unwrap_or_default());
        let mut groups = Map::new();
        let mut captures = Vec::new();
        for group in self.searcher.groups(text, place).unwrap_or_default() {
            let found = group.range.as_ref().map_or(Value::Null, |range| part(range).into());
            if let Some(name) = group.name {
                groups.insert(name.to_owned(), found.clone());
            }
            captures.push(found);
        }
        let mut details = Map::new();
        details.insert("matchedText".to_owned(), part(place).into());
        details.insert("groups".to_owned(), groups.into());
        details.insert("captures".to_owned(), captures.into());
        details
    }

    /// The first match within a range of a text, of which the position in the whole text is unknown.
    pub(crate) fn find_first(&self, text: &str, range: Range<usize>) -> Option<Match> {
        match self.searcher.first(text, range.clone()) {
            Ok(found) => found.map(|place| {
                let detail = self.details_at(text, &place).into();
                Match { range: place, replacement: None, detail }
            }),
            Err(()) => Some(Match { range, replacement: None, detail: Value::Null }),
        }
    }

    /// All matches within a range, each to be replaced. Where there are more than can be found in time, the rest of the range
    /// counts as one match: nothing that should be replaced may remain.
    pub(crate) fn find_all(&self, text: &str, range: Range<usize>, with: &str) -> Vec<Match> {
        let mut found = Vec::new();
        let replaced = |range| Match { range, replacement: Some(with.to_owned()), detail: Value::Null };
        let last = self.visit(text, range, with, |place| found.push(replaced(place)));
        found.extend(last.map(replaced));
        found
    }

    /// The text with all matches replaced, by the same rule; `None`: there is none.
    pub fn replace(&self, text: &str, with: &str) -> Option<String> {
        let mut replaced = String::new();
        let mut at = 0;
        let mut is_changed = false;
        let mut replace = |place: Range<usize>| {
            replaced.push_str(text.get(at..place.start).unwrap_or_default());
            replaced.push_str(with);
            at = place.end;
            is_changed = true;
        };
        if let Some(rest) = self.visit(text, 0..text.len(), with, &mut replace) {
            replace(rest);
        }
        if !is_changed {
            return None;
        }
        replaced.push_str(text.get(at..).unwrap_or_default());
        Some(replaced)
    }

    /// Calls `visit` with all matches that can be found in time and replaced without making the text much too long. What is
    /// left of the range then.
    fn visit(
        &self,
        text: &str,
        range: Range<usize>,
        with: &str,
        mut visit: impl FnMut(Range<usize>),
    ) -> Option<Range<usize>> {
        let end = range.end;
        let mut at = range.start;
        let mut growth = 0;
        let is_whole = self.searcher.all(text, range, |place| {
            growth += with.len();
            at = place.end;
            visit(place);
            if growth > MAX_GROWTH { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (!is_whole && at < end).then_some(at..end)
    }

    /// The longest match in bytes; `None` where there is no bound.
    pub fn longest(&self) -> Option<usize> {
        self.searcher.longest()
    }
}

/// As much of a match as a result shows.
fn shown(text: &str) -> String {
    if text.len() > MAX_SHOWN {
        format!("{}...", text.get(..text.floor_char_boundary(MAX_SHOWN)).unwrap_or_default())
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(rule: &str) -> Regex {
        Regex::compile_literal(rule, &PatternBudget::default()).unwrap()
    }

    #[test]
    fn flags_are_javascripts() {
        assert!(compile("/A/gi").is_match("a") && !compile("A").is_match("a"));
        assert!(compile("/^b$/m").is_match("a\nb") && compile("/a.b/s").is_match("a\nb"));
        assert!(
            compile("/v1/chat").is_match("/v1/chat") && compile("//").is_match(""),
            "no literal, and one"
        );
        let problem = Regex::compile_literal("/a/y", &PatternBudget::default()).unwrap_err();
        assert_eq!(problem, "has the flag y; the flags are g, i, m, s, u, v and d");
    }

    #[test]
    fn refused_syntax_has_its_reason() {
        for (pattern, wanted) in [
            ("a(?=b)", "look-around"),
            ("(?<!a)b", "look-around"),
            (r"(a)\1", "backreferences are not supported"),
            ("(", "unclosed group"),
            ("[ab].{60}c", "too large"),
        ] {
            let problem = Regex::compile(pattern, &PatternBudget::default()).unwrap_err();
            assert!(problem.contains(wanted), "{pattern}: {problem}");
        }
        assert!(compile("(?<name>a)").is_match("a"));
    }

    #[test]
    fn details_count_as_javascript() {
        let details = compile(r"(?<year>\d{4})-(\d\d)(x)?").details("😀 on 2024-12!");
        let wanted = json!({"matchedText": "2024-12", "index": 6, "groups": {"year": "2024"}, "captures": ["2024", "12", null]});
        assert_eq!(details, wanted);
        assert_eq!(compile("x").details("y"), Value::Null);
        let long = compile("a+").details(&"a".repeat(10_000));
        assert_eq!(long["matchedText"].as_str().unwrap().len(), MAX_SHOWN + 3);
    }

    #[test]
    fn all_matches_are_replaced() {
        for (rule, text, wanted) in [
            ("b", "abcb", Some("a*c*")),
            ("x*", "axb", Some("*a**b*")),
            ("/É/i", "é", Some("*")),
            ("<.*?>", "a<b>c<d>", Some("a*c*")),
            ("q", "abc", None),
            ("", "", Some("*")),
        ] {
            assert_eq!(compile(rule).replace(text, "*").as_deref(), wanted, "{rule} {text}");
        }
    }

    /// What cannot be searched in time, or would make the text too long, is replaced as a whole.
    #[test]
    fn the_rest_of_a_text_is_replaced_where_matches_are_too_many() {
        let replaced = compile("a.*b|a").replace(&"a".repeat(64 << 10), "*").unwrap();
        assert!((2..1000).contains(&replaced.len()) && !replaced.contains('a'), "{}", replaced.len());
        let with = "*".repeat(1000);
        let replaced = compile("a").replace(&"a".repeat(10_000), &with).unwrap();
        assert!(replaced.len() < 2 * MAX_GROWTH && !replaced.contains('a'));
        let found = compile("a").find_all(&"a".repeat(10_000), 10..10_000, &with);
        assert_eq!((found.first().unwrap().range.clone(), found.last().unwrap().range.end), (10..11, 10_000));
    }
}
