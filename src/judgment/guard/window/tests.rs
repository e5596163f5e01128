//! Windows over streams: they deny exactly when the check on the whole text does, and nothing denied is ever sent on.

use super::*;
use crate::guard::hook::hold_behind_workspace;
use crate::guard::{HookCompiler, StreamText, StreamUse, Subject};
use proptest::prelude::*;
use serde_json::{Value, json};
use words::api::operation::Operation;
use words::config::hooks::{Guardrail, HookKind, HookPhase};
use words::config::node::Node;
use words::config::pattern::PatternBudget;
use words::config::policies::HookLists;
use words::config::read::{Cursor, Problems};

fn hooks(guardrails: &Value) -> Arc<HookSet> {
    let problems = Problems::default();
    let patterns = PatternBudget::default();
    let node = Node::from_json(guardrails.to_string().as_bytes()).unwrap();
    let root = Cursor::root(&node, &problems);
    let list = root
        .list()
        .unwrap()
        .iter()
        .filter_map(|at| Guardrail::read(at, HookPhase::After, HookKind::Guardrail))
        .collect();
    let lists = HookLists { guardrails: Some(list), ..HookLists::default() };
    let compiler =
        HookCompiler { saved: &|_| None, patterns: &patterns, problems: &problems, is_strict: true };
    let compiled = compiler.compile(&[], &lists, HookPhase::After);
    let found: Vec<String> = problems.into_vec().iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{found:?}");
    compiled.unwrap()
}

fn answer(text: &str) -> StreamText {
    StreamText { choice: 0, text: text.to_owned(), part: Part::Answer }
}

fn state(hooks: &Arc<HookSet>, fail_on_error: bool) -> Arc<WindowState> {
    let request = Subject::of_request(Operation::ChatCompletions, "{}");
    WindowState::new(Arc::clone(hooks), &request, Vec::new().into(), fail_on_error)
}

/// What the client gets of a text in these pieces, and whether the rest was denied.
fn stream(hooks: &Arc<HookSet>, pieces: &[&str]) -> (String, bool) {
    let state = state(hooks, false);
    let mut filters = state.filters(Hook::is_windowed);
    let mut sent = String::new();
    let mut pass = |filters: &mut [WindowFilter], piece: Option<&str>| -> bool {
        let mut text = piece.unwrap_or_default().to_owned();
        for filter in filters {
            let mut out = String::new();
            for flow in [
                (!text.is_empty()).then(|| filter.text(0, &text, &mut out)),
                piece.is_none().then(|| filter.finish(0, &mut out)),
            ] {
                if matches!(flow, Some(FilterFlow::Deny(_))) {
                    return false;
                }
            }
            text = out;
        }
        sent.push_str(&text);
        true
    };
    let mut is_denied = false;
    for piece in pieces.iter().map(|piece| Some(*piece)).chain([None]) {
        if !pass(&mut filters, piece) {
            is_denied = true;
            break;
        }
    }
    (sent, is_denied)
}

fn whole(hooks: &HookSet, text: &str) -> bool {
    let subject = Subject::of_request(Operation::ChatCompletions, "{}").with_stream(vec![answer(text)]);
    let check = &hooks.hooks[0].checks[0];
    let Ok(crate::guard::Prepared::Local(check)) = &check.prepared else { panic!("{check:?}") };
    check.run(&subject).verdict
}

/// Cuts a text at these places, as far as they are between two characters.
fn cut<'t>(text: &'t str, places: &[usize]) -> Vec<&'t str> {
    let mut at: Vec<usize> =
        places.iter().map(|place| text.floor_char_boundary(place % (text.len() + 1))).collect();
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).filter(|pair| pair[0] < pair[1]).filter_map(|pair| text.get(pair[0]..pair[1])).collect()
}

fn denying() -> Vec<Arc<HookSet>> {
    [
        json!([{"contains": {"operator": "none", "words": ["secret", "écu", "ab"]}, "deny": true}]),
        json!([{"regexMatch": {"rule": "\\bsec[a-z]{1,3}\\b", "not": true}, "deny": true}]),
        json!([{"regexMatch": {"rule": "^ab|b$", "not": true}, "deny": true}]),
    ]
    .iter()
    .map(hooks)
    .collect()
}

proptest! {
    #[test]
    fn a_window_denies_exactly_when_the_check_on_the_whole_text_does(
        text in "([abcé ]{0,12}|sec|secret| |ret|écu|b\n){0,8}",
        places in prop::collection::vec(0_usize..200, 0..12),
    ) {
        for hooks in denying() {
            let pieces = cut(&text, &places);
            let (sent, is_denied) = stream(&hooks, &pieces);
            prop_assert_eq!(!is_denied, whole(&hooks, &text) || text.is_empty(), "{:?} in {:?}", text, pieces);
            if is_denied {
                // What was sent has nothing of what is denied: it passes with anything harmless behind it.
                prop_assert!(text.starts_with(&sent));
                let finder = hooks.hooks[0].checks[0].finder().unwrap();
                let found = finder.find(&text, 0..text.len());
                prop_assert!(found.iter().all(|found| sent.len() <= found.range.start), "{:?} {:?}", sent, found);
            } else {
                prop_assert_eq!(sent, text.clone());
            }
        }
    }

    #[test]
    fn what_is_replaced_is_the_same_whole_and_streamed(
        text in "([abc ]{0,9}|secret|x1|sec|ret ){0,8}",
        places in prop::collection::vec(0_usize..200, 0..12),
    ) {
        let hooks = hooks(&json!([{"regexReplace": {"rule": "secret|x[0-9]{1,2}", "redactText": "***"}}]));
        let (sent, is_denied) = stream(&hooks, &cut(&text, &places));
        prop_assert!(!is_denied);
        let (at_once, _) = stream(&hooks, &[&text]);
        prop_assert_eq!(&sent, &at_once);
        prop_assert!(!sent.contains("secret"));
    }
}

proptest! {
    /// Redaction as a whole and through a window, over texts full of what begins like something to redact and is not.
    #[test]
    fn personal_data_is_redacted_the_same_whole_and_streamed(
        text in "(4111 1111 1111 1111|4111 1111 |1112|ann@|example.com|[a-c1. @-]{0,5}|10.0.0.1|, |DE89 3704 0044 |0532 0130 00|\n){0,8}",
        places in prop::collection::vec(0_usize..200, 0..12),
    ) {
        let categories = ["CREDIT_CARD", "EMAIL_ADDRESS", "IP_ADDRESS", "IBAN"];
        let hooks = hooks(&json!([{"pii": {"redact": true, "categories": categories}}]));
        let (sent, is_denied) = stream(&hooks, &cut(&text, &places));
        prop_assert!(!is_denied);
        let mut subject =
            Subject::of_request(Operation::ChatCompletions, "{}").with_stream(vec![answer(&text)]);
        let Ok(crate::guard::Prepared::Local(check)) = &hooks.hooks[0].checks[0].prepared else { panic!() };
        let finding = check.run(&subject);
        subject.apply(&finding.change);
        prop_assert_eq!(&sent, &subject.texts[0].text, "{:?}", text);
    }
}

#[test]
fn placeholders_get_their_texts_back_wherever_they_are_cut() {
    let placeholders = vec![("{{EMAIL_ADDRESS_1}}".to_owned(), "ann@example.com".to_owned())];
    let text = "write to {{EMAIL_ADDRESS_1}}, not {{EMAIL_ADDRESS_2}}";
    for size in 1..text.len() {
        let mut filter = WindowFilter::restoring(&placeholders);
        let mut out = String::new();
        for piece in text.as_bytes().chunks(size) {
            filter.text(0, std::str::from_utf8(piece).unwrap(), &mut out);
        }
        filter.finish(0, &mut out);
        assert_eq!(out, "write to ann@example.com, not {{EMAIL_ADDRESS_2}}");
    }
    let placeholders = Placeholders::new(&placeholders);
    let restored = |text: &str| restored(text, &placeholders);
    assert_eq!(restored(text).unwrap(), "write to ann@example.com, not {{EMAIL_ADDRESS_2}}");
    assert_eq!(restored("{{{EMAIL_ADDRESS_1}}}").unwrap(), "{ann@example.com}");
    assert_eq!(restored("{{EMAIL_{{EMAIL_ADDRESS_1}}").unwrap(), "{{EMAIL_ann@example.com");
    for text in ["nothing", "{{", "{{}}", "{{EMAIL_ADDRESS_1", "{{é}}"] {
        assert_eq!(restored(text), None, "{text}");
    }
}

/// No config undoes what the guardrails of a workspace decide, as with whole responses.
#[test]
fn hooks_of_the_workspace_see_what_those_of_a_config_have_written() {
    let rewrites = json!({"regexReplace": {"rule": "b_mb", "redactText": "bomb"}});
    for (own, wanted) in [
        (json!({"contains": {"operator": "none", "words": ["bomb"]}, "deny": true}), ("", true)),
        (json!({"regexReplace": {"rule": "bomb", "redactText": "***"}}), ("a *** or bo_mb", false)),
    ] {
        for text in ["a b_mb or bo_mb", "a bomb or bo_mb"] {
            let mut hooks = hooks(&json!([own, rewrites]));
            Arc::get_mut(&mut hooks).unwrap().hooks[0].is_of_workspace = true;
            for size in [1, 3, text.len()] {
                let places: Vec<usize> = (0..text.len()).step_by(size).collect();
                let (sent, is_denied) = stream(&hooks, &cut(text, &places));
                assert!(!sent.contains("bomb"), "{sent}");
                assert_eq!((if is_denied { "" } else { &sent }, is_denied), wanted, "{text}");
            }
        }
    }
}

/// As with whole responses: what the workspace redacts is no more there for checks that judge, wherever they stand.
#[test]
fn windows_that_judge_see_what_the_workspaces_left() {
    let judges = json!({"contains": {"operator": "none", "words": ["secret"]}, "deny": true});
    let changes = json!({"regexReplace": {"rule": "secret", "redactText": "***"}});
    let lists = [[&judges, &changes], [&changes, &judges]];
    for (list, of_workspace, is_denied) in [
        (lists[0], 0, true),
        (lists[1], 0, true),
        (lists[1], 1, false),
        (lists[0], 2, false),
        (lists[1], 2, false),
    ] {
        let mut hooks = hooks(&json!(list));
        for hook in Arc::get_mut(&mut hooks).unwrap().hooks.iter_mut().take(of_workspace) {
            hook.is_of_workspace = true;
        }
        let (text, denied) = stream(&hooks, &["a sec", "ret", " b"]);
        assert_eq!(denied, is_denied, "{list:?} {of_workspace}");
        assert!(!text.contains("secret") && (denied || text == "a *** b"), "{text}");
    }
}

/// No window looks at a stream, or changes it, before a hook of the workspace that must see all of it.
#[test]
fn hooks_behind_one_of_the_workspace_that_holds_hold_as_well() {
    let holds = json!({"wordCount": {"minWords": 1, "maxWords": 2}, "deny": true});
    let changes = json!({"regexReplace": {"rule": "a.*b"}});
    let window = json!({"contains": {"operator": "none", "words": ["secret"]}, "deny": true});
    for (first, of_workspace, wanted) in [
        (&holds, [true, false], StreamUse::Whole),
        (&holds, [true, true], StreamUse::Window),
        (&holds, [false, false], StreamUse::Window),
        (&changes, [true, false], StreamUse::Whole),
        (&changes, [true, true], StreamUse::Whole),
        (&changes, [false, true], StreamUse::Window),
    ] {
        let mut hooks = hooks(&json!([first, window]));
        let hooks = &mut Arc::get_mut(&mut hooks).unwrap().hooks;
        for (hook, own) in hooks.iter_mut().zip(of_workspace) {
            hook.is_of_workspace = own;
        }
        hold_behind_workspace(hooks);
        assert_eq!(hooks[1].stream_use(), wanted, "{first} {of_workspace:?}");
    }
}

/// What was found in one part is not counted again in the next.
#[test]
fn a_match_is_counted_once() {
    let hooks = hooks(&json!([{"pii": {"redact": true, "categories": ["EMAIL_ADDRESS"]}}]));
    let state = state(&hooks, false);
    let mut filters = state.filters(Hook::is_windowed);
    let mut out = String::new();
    filters[0].text(0, "mail a@b.io", &mut out);
    filters[0].finish(0, &mut out);
    filters[0].follow(1, 0);
    filters[0].text(1, " and bye", &mut out);
    filters[0].finish(1, &mut out);
    assert_eq!(out, "mail {{EMAIL_ADDRESS}} and bye");
    assert_eq!(state.found.lock()[0][0].matches.len(), 1);
}

#[test]
fn text_is_held_back_only_as_long_as_a_match_may_begin_in_it() {
    let hooks = hooks(&json!([{"contains": {"operator": "none", "words": ["secret"]}, "deny": true}]));
    let state = state(&hooks, false);
    let mut filters = state.filters(Hook::is_windowed);
    let mut out = String::new();
    filters[0].text(0, "a long text without it", &mut out);
    assert_eq!(out.len(), "a long text without it".len() - "secret".len() - 1);
}

/// What the client gets of parts that end one after another and are one text, and whether the rest was denied.
fn stream_of_parts(hooks: &Arc<HookSet>, parts: &[&str], are_choices: bool) -> (String, bool) {
    let state = state(hooks, false);
    let mut filters = state.filters(Hook::is_windowed);
    let mut sent = String::new();
    for (number, part) in (0..).zip(parts) {
        let choice = if are_choices { number } else { 0 };
        let mut out = String::new();
        if are_choices && number > 0 {
            filters[0].follow(choice, choice - 1);
        }
        for flow in [filters[0].text(choice, part, &mut out), filters[0].finish(choice, &mut out)] {
            if matches!(flow, FilterFlow::Deny(_)) {
                return (sent, true);
            }
        }
        assert_eq!(filters[0].held(choice), 0);
        sent.push_str(&out);
    }
    (sent, false)
}

proptest! {
    /// The end of a part does not hide what begins in it.
    #[test]
    fn parts_that_end_are_one_text(
        text in "([abcé ]{0,12}|sec|secret| |ret|écu|b\n){1,8}",
        places in prop::collection::vec(0_usize..200, 0..12),
    ) {
        let denies = &denying()[0];
        let replaces = hooks(&json!([{"regexReplace": {"rule": "secret|écu", "redactText": "***"}}]));
        for are_choices in [false, true] {
            let parts = cut(&text, &places);
            let (sent, is_denied) = stream_of_parts(denies, &parts, are_choices);
            prop_assert_eq!(!is_denied, whole(denies, &text) || text.is_empty(), "{:?}", parts);
            for word in ["secret", "écu", "ab"] {
                prop_assert!(!sent.contains(word), "{:?}", parts);
            }
            let (sent, _) = stream_of_parts(&replaces, &parts, are_choices);
            for word in ["secret", "écu"] {
                prop_assert!(!sent.contains(word), "{:?}", parts);
            }
        }
    }
}

/// As the check of a whole response that has no text.
#[test]
fn a_stream_without_text_is_judged_as_a_document_without_text() {
    let of = |parameters: Value| hooks(&json!([{"contains": parameters, "deny": true}]));
    let passes = json!({"operator": "none", "words": ["bomb"]});
    let fails = json!({"operator": "none", "words": ["bomb"], "failOnError": true});
    for (hooks, by_settings, is_denied) in
        [(of(passes.clone()), false, false), (of(passes), true, true), (of(fails), false, true)]
    {
        let state = state(&hooks, by_settings);
        let mut filters = state.filters(Hook::is_windowed);
        let flow = filters[0].finish(0, &mut String::new());
        assert_eq!(matches!(flow, FilterFlow::Deny(_)), is_denied, "{hooks:?}");
        let result = &state.results(Hook::is_windowed)[0];
        assert_eq!(result.verdict, !is_denied);
        assert_eq!(result.checks[0].error.as_ref().unwrap().message, "Missing text to search");
        // Another choice may have none.
        assert!(matches!(filters[0].finish(1, &mut String::new()), FilterFlow::Continue));
    }
    let redacts = hooks(&json!([{"pii": {"redact": true, "failOnError": true}, "deny": true}]));
    assert_eq!(stream(&redacts, &[]), (String::new(), false));
}

#[test]
fn an_empty_word_is_in_every_text() {
    let hooks = hooks(&json!([{"contains": {"operator": "none", "words": [""]}, "deny": true}]));
    assert_eq!(stream(&hooks, &["a", "b"]), (String::new(), true));
    assert!(!whole(&hooks, "ab"));
}
