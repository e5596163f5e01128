//! Patterns: the same matches as the `regex` crate finds, what differs from it, and what they may cost at most.
//!
//! `cargo bench --bench route` prints the times of the worst patterns.

use super::*;
use proptest::prelude::{Strategy, prop, prop_assert_eq, prop_oneof, proptest};

fn compile(pattern: &str) -> Result<Pattern, String> {
    Pattern::compile(pattern, &PatternBudget::default())
}

#[track_caller]
fn is_match(pattern: &str, text: &str) -> bool {
    compile(pattern).unwrap_or_else(|problem| panic!("{pattern}: {problem}")).is_match(&Excerpt::of(text))
}

/// Patterns that take as much as they can: to read, to build, and to match.
pub(super) fn hostile_patterns() -> Vec<String> {
    let az: String = ('a'..='z').collect();
    let all: String = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let options = |text: &str| text.chars().map(|c| format!("{c}?")).collect::<String>();
    let choice = |each: &dyn Fn(char) -> String| all.chars().map(each).collect::<Vec<_>>().join("|");
    let mut patterns = vec![
        ".*".repeat(500),
        format!("{}x", ".*".repeat(500)),
        r"(?i)[\x00-\u{10ffff}]".repeat(300),
        format!("(?i){}", r"\PL".repeat(1_000)),
        r"\pL".repeat(2_700),
        format!("(?i)[{}]", r"\pL&&".repeat(1_000)),
        format!("(?i)[{}a]", r"\pL&&".repeat(1_000)),
        format!("(?i){}a{}", "[^".repeat(60), "]".repeat(60)),
        format!("{}a{}", "(".repeat(40), "{9})".repeat(40)),
        format!("{}{}", "(?:".repeat(40), "){1000}".repeat(40)),
        "a|".repeat(4_000),
        all.repeat(130),
        format!("(?:{}a)*[ab]{{200}}x", "|".repeat(1_000)),
    ];
    for k in [1, 2, 5, 10, 20, 50, 200, 900] {
        patterns.extend([
            format!("a{{{k}}}"),
            format!(r"\w{{{k}}}"),
            format!(r"\pL{{{k}}}"),
            format!("[ab].{{{k}}}c"),
            format!("(a?){{{k}}}x"),
            format!("(?:a*){{{k}}}x"),
            format!("(?:{}){{{k}}}!", options(&az)),
            format!("(?:{}){{{k}}}!", options(&all)),
            format!("(?:{all}){{{k}}}"),
            choice(&|c| format!("{c}.{{{k}}}")),
            choice(&|c| format!(r"{c}\w{{{k}}}x")),
            format!("(?:{}){{0,{k}}}!{all}", choice(&|c| c.to_string())),
            format!("(?:{})*[{az}]{{{k}}}[A-M]{{{k}}}!", choice(&|c| format!("{c}+"))),
            format!(r"[a-m](\w|\pL){{{k}}}({all})"),
            format!("(?:(?:{}[a-z]))*[a-m]\\w{{{k}}}({all})", options(&all).repeat(5)),
            format!(r"\b(?:\d[ -]*?){{{k},}}\b"),
        ]);
    }
    patterns
}

#[test]
fn the_costs_of_a_config_are_bounded() {
    let mut accepted = 0;
    for pattern in hostile_patterns() {
        let budget = PatternBudget::default();
        let outcome = Pattern::compile(&pattern, &budget);
        assert!(budget.steps.get() <= MAX_STEPS, "{pattern:.60}");
        match outcome {
            Ok(pattern) => {
                accepted += 1;
                let bytes = pattern.usage().bytes;
                assert!(bytes <= MAX_LEN + 512 + 4 * MAX_STEPS, "{bytes}");
            }
            Err(problem) => {
                let wanted = ["is too large a pattern", "maximum number of nested"];
                assert!(wanted.iter().any(|wanted| problem.contains(wanted)), "{pattern:.60}: {problem}");
            }
        }
    }
    assert!(accepted > 40, "{accepted}");
    let budget = PatternBudget::default();
    let large = |n: usize| format!(r"\w{{200}}!{n}");
    let outcomes: Vec<_> = (0..MAX_PATTERNS).map(|n| Pattern::compile(&large(n), &budget)).collect();
    assert!(outcomes[0].is_ok());
    let problem = outcomes.last().unwrap().as_ref().unwrap_err();
    assert!(problem.starts_with("is too much: the patterns of the whole config"), "{problem}");
    assert!(budget.steps.get() <= MAX_STEPS_OF_CONFIG, "{}", budget.steps.get());
}

/// What was checked when it was saved is made when it is used, by whoever is first, and counts then.
#[test]
fn a_deferred_pattern_is_made_once_and_costs_nothing_before() {
    let deferred = PatternBudget::new(true);
    let pattern = Pattern::compile("^a+$", &deferred).unwrap();
    assert!(!pattern.is_made() && deferred.steps.get() == 0);
    let same = pattern.clone();
    let budget = PatternBudget::default();
    pattern.make(&budget).unwrap();
    let spent = budget.steps.get();
    assert!(spent > 0 && same.is_made() && same.usage().bytes > 4);
    same.make(&budget).unwrap();
    assert_eq!(budget.steps.get(), spent, "made before");
    // What could not be made says so again.
    let wrong = Pattern::compile("(", &deferred).unwrap();
    assert!((0..2).all(|_| wrong.make(&budget).is_err()) && !wrong.is_match(&Excerpt::of("(")));
}

/// Patterns as people write them, each with a text that it matches and one that it does not.
pub(super) const ORDINARY: [(&str, &str, &str); 30] = [
    (r"^(gpt|o)-?[0-9]+(\.[0-9]+)?(-mini|-nano)?$", "gpt-4.1-mini", "gpt-4.1-maxi"),
    (r"(?i)\bclaude\b", "ask CLAUDE!", "claudette"),
    (r"^\w+@\w+\.\w{2,4}$", "a_1@b.com", "a@b.c"),
    (
        r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
        "123e4567-e89b-12d3-a456-426614174000",
        "123e4567-e89b",
    ),
    (r"^\/v1\/(chat\/completions|embeddings)$", "/v1/embeddings", "/v1/embeddings/x"),
    (r"^.{1,200}$", "häuser", "a\nb"),
    (r"\b\d{3}-\d{2}-\d{4}\b", "is 123-45-6789.", "1123-45-6789"),
    (r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}", "mail me@x.example now", "me@x"),
    (r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|3[47][0-9]{13})", "card 4111111111111111", "411111111111"),
    (r"(?:\d{1,3}\.){3}\d{1,3}", "at 10.0.0.1:80", "10.0.0"),
    (r"(?i)ignore.{0,10}instructions", "IGNORE all instructions", "ignore these long and silly instructions"),
    (r"(?i)ignore (all )?(previous|prior|above) (instructions|prompts)", "Ignore prior prompts", "ignore us"),
    (r"(?i)(password|secret|api[_-]?key)\s*[:=]\s*\S+", "API_KEY = x", "api key = "),
    (r"sk-[A-Za-z0-9]{20,}", "sk-abcdefghijklmnopqrstuv", "sk-abc"),
    (r"AKIA[0-9A-Z]{16}", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7"),
    (r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", "eyJa.b.c", "eyJa.b"),
    (r"\+?1?[-. ]?\(?\d{3}\)?[-. ]?\d{3}[-. ]?\d{4}", "call (555) 123-4567", "555 12"),
    (r"\p{Han}", "漢字", "kanji"),
    (r"[\p{L}\p{N}]+", "!é!", "!?"),
    ("[\\u4e00-\\u9fff]", "漢", "a"),
    (r"^\s*$", " \u{a0}\n", " x"),
    ("foo.*bar", "a foo and a bar", "foo\nbar"),
    (r"foo[\s\S]*bar", "foo\nbar", "bar foo"),
    (r"(?i)[\s\S]X", "\nx", "x"),
    (r"(?m)^b$", "a\nb\nc", "ab"),
    (r"\w{200}", "", ""),
    (r"^[a-z0-9-]{1,64}$", "a-1", "A"),
    (r"(?i)\b(drop|delete|truncate)\s+(table|database)\b", "DROP  table users", "drop tables"),
    (r"^(?i:en|de|fr)(-[a-z]{2})?$", "DE-at", "de-AT"),
    (r"(?i)(kill|bomb|weapon|drug|hack|attack|murder|terror|explosive|gun|shoot)", "Explosives", "flowers"),
];

#[test]
fn ordinary_patterns_match() {
    for (pattern, matching, other) in ORDINARY {
        if !matching.is_empty() {
            assert!(is_match(pattern, matching), "{pattern} of {matching}");
        }
        assert!(!is_match(pattern, other), "{pattern} of {other}");
    }
    assert!(is_match(r"\w{200}", &"a".repeat(200)) && !is_match(r"\w{200}", &"a".repeat(199)));
    let cards = compile(ORDINARY[8].0).unwrap();
    let cards = cards.made.get().unwrap();
    assert!(cards.is_backwards && cards.table.at_end.len() < 100);
}

#[test]
fn word_characters_and_digits_are_of_ascii() {
    assert!(!is_match(r"\w|\d", "é٣") && is_match(r"^\W\D$", "é٣") && is_match(r"^[\W_][^\d]$", "é٣"));
    assert!(is_match(r"\bclaude\b", "éclaudeé") && is_match(r"^\Bé\B$", "é"));
    assert!(is_match(r"\s", "\u{2003}") && is_match("(?i)É", "é"), "as in JavaScript");
}

/// What follows the excerpt is not seen, and neither is the end of the text.
#[test]
fn a_long_text_is_cut() {
    let text = |tail: &str| format!("{}{tail}", "a".repeat(Excerpt::MAX_BYTES - 1));
    for (pattern, tail, wanted) in [
        ("x", "x", true),
        ("x", "xy", true),
        ("x", "yx", false),
        ("x$", "x", true),
        ("x$", "xy", false),
        ("a$", "xy", false),
        ("é", "é", false),
        (r"a\b", "é", true),
        (r"(?m)x$", "x\n", false),
        (r"^a", "xy", true),
        (r"[a-z]{40}[b-z]", "xy", true),
    ] {
        assert_eq!(is_match(pattern, &text(tail)), wanted, "{pattern} {tail}");
    }
    // The same for a table that reads backwards.
    let cards = format!("{}|x$", ORDINARY[8].0);
    assert!(compile(&cards).unwrap().made.get().unwrap().is_backwards);
    let digits = |tail: &str| format!("{}4111111111111111{tail}", "a".repeat(Excerpt::MAX_BYTES - 16));
    assert!(is_match(&cards, &digits("")) && is_match(&cards, &digits("x")));
    assert!(!is_match(&cards, &format!("a{}", digits("")).replace("4111", "4a11")));
    assert!(is_match(&cards, &text("x")) && !is_match(&cards, &text("xy")) && !is_match(&cards, &text("yx")));
}

/// Any pattern of a few parts. `word`: also with parts that differ from the `regex` crate's on other texts than ASCII.
pub(super) fn any_pattern(word: bool) -> impl Strategy<Value = String> {
    let mut parts = vec![
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        "",
        "^",
        "$",
        r"\n",
        r"\r",
        "(?m:^)",
        "(?m:$)",
        "(?mR:^)",
        "(?mR:$)",
        "é",
        r"\pL",
        r"\PL",
        r"[\s\S]",
        "(?i:A)",
        "(?i:[^b])",
        r"\s",
        "(?s:.)",
        "1",
        "_",
        r"\A",
        r"\z",
    ];
    if word {
        parts.extend([
            r"\w",
            r"\W",
            r"\d",
            r"\D",
            r"\b",
            r"\B",
            r"[\w-]",
            r"[^\d_]",
            r"\b{start}",
            r"\b{end}",
            r"\b{start-half}",
            r"\b{end-half}",
        ]);
    }
    prop::sample::select(parts).prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => list.clone().prop_map(|parts| parts.concat()),
            2 => list.prop_map(|parts| format!("(?:{})", parts.join("|"))),
            3 => (inner, prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"]))
                .prop_map(|(part, count)| format!("(?:{part}){count}")),
        ]
    })
}

fn agree(pattern: &str, text: &str, cut: usize) {
    let Ok(wanted) = regex::Regex::new(pattern) else { return };
    for backwards in [false, true] {
        let mut fuel = Fuel(MAX_STEPS);
        let Ok(hir) = syntax::parse(pattern, &mut fuel) else { panic!("{pattern}") };
        let nfa =
            if backwards { reversed_nfa(&hir, &mut fuel) } else { nfa(&hir, WhichCaptures::None, &mut fuel) };
        let table = nfa.and_then(|nfa| builder::build(&nfa, Purpose::Exists, &mut fuel));
        let Ok(table) = table else { continue };
        let compiled = Made { table, is_backwards: backwards };
        assert_eq!(
            compiled.is_match(&Excerpt::of(text)),
            wanted.is_match(text),
            "{pattern:?} of {text:?}, {backwards}"
        );
        // A text of which more follows is one that goes on with a space, of which nothing is seen.
        let cut = text.floor_char_boundary(cut);
        let begin = text.get(..cut).unwrap_or_default();
        let longer = format!("{begin} ");
        let found = wanted.find_iter(&longer).any(|found| found.end() <= cut);
        if found {
            assert!(
                compiled.is_match(&Excerpt::beginning_of(begin)),
                "{pattern:?} of {begin:?}, {backwards}"
            );
        }
    }
}

proptest! {
    #[test]
    fn ascii_texts_match_as_with_the_regex_crate(pattern in any_pattern(true), text in "[ab1_A \n\r-]{0,8}", cut in 0..8usize) {
        agree(&pattern, &text, cut);
    }

    #[test]
    fn other_texts_match_as_with_the_regex_crate(pattern in any_pattern(false), text in "[ab\n\réÉ😀\u{212a}]{0,8}", cut in 0..8usize) {
        agree(&pattern, &text, cut);
    }

    #[test]
    fn any_text_is_a_pattern_or_a_problem(pattern in r"[a-c\[\]^$.|?*+(){}\\pLwdb0-9,:&~i-]{0,24}") {
        let taken = compile(&pattern).is_ok();
        // What the other parser takes and we do not is too large.
        prop_assert_eq!(taken, taken && regex::Regex::new(&pattern).is_ok());
    }
}
