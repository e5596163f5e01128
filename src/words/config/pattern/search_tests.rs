//! Places that are found: the same as the `regex` crate finds, within ranges, and what they may cost.

use super::search::Searcher;
use super::tests::{ORDINARY, any_pattern, hostile_patterns};
use super::{Group, MAX_STEPS, PatternBudget};
use proptest::prelude::proptest;
use std::ops::{ControlFlow, Range};

fn compile(pattern: &str) -> Result<Searcher, String> {
    Searcher::compile(pattern, &PatternBudget::default())
}

fn all(searcher: &Searcher, text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    searcher.all(text, range, |place| {
        found.push(place);
        ControlFlow::Continue(())
    });
    found
}

/// As JavaScript's `matchAll`: the `regex` crate drops an empty match behind another one.
fn wanted(pattern: &regex::Regex, text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(place) = pattern.find_at(text, at) {
        found.push(place.range());
        at = place.end();
        if place.is_empty() {
            let Some(next) = text.get(at..).unwrap().chars().next() else { break };
            at += next.len_utf8();
        }
    }
    found
}

fn agree(pattern: &str, text: &str) {
    let Ok(judge) = regex::Regex::new(pattern) else { return };
    let Ok(searcher) = compile(pattern) else { return };
    let wanted = wanted(&judge, text);
    assert_eq!(all(&searcher, text, 0..text.len()), wanted, "{pattern:?} of {text:?}");
    assert_eq!(searcher.first(text, 0..text.len()), Ok(wanted.first().cloned()), "{pattern:?} of {text:?}");
    assert_eq!(searcher.is_match(text, 0..text.len()), !wanted.is_empty(), "{pattern:?} of {text:?}");
    if let Some(longest) = searcher.longest() {
        assert!(wanted.iter().all(|place| place.len() <= longest));
    }
}

/// In a range the text around it is context: what is found there is what an anchored search finds at each position.
fn agree_in_a_range(pattern: &str, text: &str, range: Range<usize>) {
    use regex_automata::{Anchored, Input, nfa::thompson::pikevm::PikeVM};
    let Ok(searcher) = compile(pattern) else { return };
    let start = text.floor_char_boundary(range.start);
    let end = text.floor_char_boundary(range.end);
    let range = start..end.max(start);
    let mut nfa = regex_automata::nfa::thompson::Compiler::new();
    nfa.configure(regex_automata::nfa::thompson::Config::new().utf8(false));
    let judge = PikeVM::new_from_nfa(nfa.build_from_hir(searcher.hir()).unwrap()).unwrap();
    let mut cache = judge.create_cache();
    let mut first = None;
    for at in (range.start..=range.end).filter(|at| text.is_char_boundary(*at)) {
        let input = Input::new(text).range(at..range.end).anchored(Anchored::Yes);
        first = first.or(judge.find(&mut cache, input).map(|found| found.range()));
    }
    assert_eq!(
        searcher.first(text, range.clone()),
        Ok(first.clone()),
        "{pattern:?} in {range:?} of {text:?}"
    );
    assert_eq!(searcher.is_match(text, range), first.is_some());
}

proptest! {
    #[test]
    fn places_in_ascii_texts(pattern in any_pattern(true), text in "[ab1_A \n\r-]{0,10}", start in 0..10usize, end in 0..10usize) {
        agree(&pattern, &text);
        let end = end.min(text.len());
        agree_in_a_range(&pattern, &text, start.min(end)..end);
    }

    #[test]
    fn places_in_other_texts(pattern in any_pattern(false), text in "[ab\n\réÉ😀\u{212a}]{0,8}", start in 0..10usize, end in 0..10usize) {
        agree(&pattern, &text);
        let end = end.min(text.len());
        agree_in_a_range(&pattern, &text, start.min(end)..end);
    }
}

#[test]
fn ordinary_patterns_are_taken() {
    for (pattern, matching, other) in ORDINARY {
        let searcher = compile(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
        let is_match = |text: &str| searcher.is_match(text, 0..text.len());
        assert!(matching.is_empty() || is_match(matching), "{pattern}");
        assert!(!is_match(other), "{pattern}");
        agree(pattern, matching);
    }
    let few: Vec<_> = ORDINARY.iter().map(|(pattern, _, _)| *pattern).filter(|p| p.len() < 60).collect();
    let budget = PatternBudget::default();
    let taken = few.iter().filter(|pattern| Searcher::compile(pattern, &budget).is_ok()).count();
    assert!(taken > few.len() / 2, "{taken} of {}", few.len());
}

/// Patterns of which each match is followed by a long part that is read in vain.
const SLOW: [&str; 4] = ["a.*b|a", "(a*)*b|a", "a?a?a?a?a*b|a", "[a-z].*9|[a-z]"];

#[test]
fn all_matches_of_a_slow_pattern_are_given_up() {
    let text = "a".repeat(64 << 10);
    for pattern in SLOW {
        let searcher = compile(pattern).unwrap();
        let mut found = 0;
        let whole = searcher.all(&text, 0..text.len(), |_| {
            found += 1;
            ControlFlow::Continue(())
        });
        assert!(!whole && (1..100).contains(&found), "{pattern}: {found}");
        assert_eq!(searcher.first(&text, 0..text.len()), Ok(Some(0..1)));
    }
}

#[test]
fn tables_are_bounded_whatever_the_pattern() {
    let mut accepted = 0;
    for pattern in hostile_patterns() {
        let budget = PatternBudget::default();
        if let Ok(searcher) = Searcher::compile(&pattern, &budget) {
            accepted += 1;
            assert!(searcher.bytes() <= 4 * MAX_STEPS + 4096, "{}", searcher.bytes());
        }
        assert!(budget.steps.get() <= MAX_STEPS, "{pattern:.60}");
    }
    assert!(accepted > 40, "{accepted}");
}

#[test]
fn groups_are_found_within_their_match() {
    let searcher = compile(r"(?<user>\w+)@(\w+)(?:\.(x))?").unwrap();
    let text = "é, bob@example!";
    let place = searcher.first(text, 0..text.len()).unwrap().unwrap();
    let group = |name, range| Group { name, range };
    let wanted = vec![group(Some("user"), Some(4..7)), group(None, Some(8..15)), group(None, None)];
    assert_eq!(searcher.groups(text, &place), Some(wanted));
    let long = format!("{}@b", "a".repeat(100_000));
    let place = searcher.first(&long, 0..long.len()).unwrap().unwrap();
    assert_eq!((place.clone(), searcher.groups(&long, &place)), (0..100_002, None));
}
