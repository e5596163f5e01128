//! What `default.pii` finds, replaces and reports, and that a window that moves over a text finds the same.

use super::*;
use proptest::prelude::*;
use words::api::operation::Operation;

fn subject(phase: HookPhase, texts: &[&str]) -> Subject {
    let messages: Vec<Value> = texts.iter().map(|text| json!({"role": "user", "content": text})).collect();
    let choices: Vec<Value> = texts.iter().map(|text| json!({"message": {"content": text}})).collect();
    let request = Subject::of_request(Operation::ChatCompletions, &json!({"messages": messages}).to_string());
    match phase {
        HookPhase::Before => request,
        HookPhase::After => request.with_response(&json!({"choices": choices}).to_string()),
    }
}

fn pii(redacts: bool, restores: bool) -> Pii {
    Pii { scan: Scan::new(Categories::all(), redacts), redacts, restores, not: false }
}

fn found(text: &str) -> Vec<(&'static str, &str)> {
    let found = Scan::new(Categories::all(), true).find(text, 0..text.len());
    found.into_iter().map(|hit| (hit.category.as_str(), text.get(hit.range).unwrap())).collect()
}

const SAMPLE: &str = "Ann <ann@example.com>, +1 415 555 2671, pays with 4111 1111 1111 1111 from 203.0.113.7; SSN \
    536-90-4399, IBAN DE89 3704 0044 0532 0130 00.";

#[test]
fn each_kind_is_found_at_its_place() {
    assert_eq!(
        found(SAMPLE),
        [
            ("EMAIL_ADDRESS", "ann@example.com"),
            ("PHONE_NUMBER", "+1 415 555 2671"),
            ("CREDIT_CARD", "4111 1111 1111 1111"),
            ("IP_ADDRESS", "203.0.113.7"),
            ("SSN", "536-90-4399"),
            ("IBAN", "DE89 3704 0044 0532 0130 00"),
        ]
    );
    assert_eq!(found("mail 5551234567@example.com or (call (555) 123-4567)").len(), 2);
    assert_eq!(found("地址：ann@example.com，電話 +886 2 2345 6789。").len(), 2);
    assert_eq!(found("my Mobile is 07289025797, SSN 536904399, version 1.2.3.4").len(), 2);
    assert_eq!(found(r"fax\n555-123-4567\nann@example.com")[0], ("PHONE_NUMBER", "555-123-4567"));
    assert_eq!(
        found("at 2001:db8::1 and ::ffff:192.0.2.1"),
        [("IP_ADDRESS", "2001:db8::1"), ("IP_ADDRESS", "::ffff:192.0.2.1"),]
    );
}

#[test]
fn a_result_shows_kinds_and_places_and_never_the_text() {
    let finding = pii(false, false).run(&subject(HookPhase::Before, &["x", SAMPLE]));
    assert!(!finding.verdict && finding.error.is_none() && !finding.is_transformed());
    let data = finding.data.unwrap();
    assert_eq!(data["categories"]["EMAIL_ADDRESS"], 1);
    assert_eq!(data["found"][0], json!({"category": "EMAIL_ADDRESS", "start": 7, "end": 22}));
    for secret in ["ann@", "415", "4111", "203.0", "536-", "DE89"] {
        assert!(!data.to_string().contains(secret), "{data}");
    }
    assert!(
        pii(false, false).run(&subject(HookPhase::After, &["nothing", SAMPLE])).verdict,
        "only what is judged"
    );
    assert!(pii(false, false).run(&subject(HookPhase::Before, &[""])).error.is_some());
    let not = Pii { not: true, ..pii(false, false) };
    assert!(not.run(&subject(HookPhase::Before, &[SAMPLE])).verdict);
    assert!(!not.run(&subject(HookPhase::Before, &["nothing"])).verdict);
}

#[test]
fn redaction_replaces_in_every_text_and_passes() {
    let finding =
        pii(true, false).run(&subject(HookPhase::After, &["to a@b.io and a@b.io", "none", "10.1.2.3"]));
    assert!(finding.verdict);
    assert_eq!(finding.data.unwrap()["categories"], json!({"EMAIL_ADDRESS": 2, "IP_ADDRESS": 1}));
    let texts = vec![
        Some("to {{EMAIL_ADDRESS}} and {{EMAIL_ADDRESS}}".to_owned()),
        None,
        Some("{{IP_ADDRESS}}".to_owned()),
    ];
    assert_eq!(finding.change, Change::Texts(texts));
    assert!(!pii(true, false).run(&subject(HookPhase::Before, &["none"])).is_transformed());
}

#[test]
fn placeholders_that_are_restored_are_numbered_by_value() {
    let subject = subject(HookPhase::Before, &["a@b.io, c@d.io", "again a@b.io"]);
    let finding = pii(true, true).run(&subject);
    let texts = vec![
        Some("{{EMAIL_ADDRESS_1}}, {{EMAIL_ADDRESS_2}}".to_owned()),
        Some("again {{EMAIL_ADDRESS_1}}".to_owned()),
    ];
    let originals = [("{{EMAIL_ADDRESS_1}}", "a@b.io"), ("{{EMAIL_ADDRESS_2}}", "c@d.io")];
    let originals =
        originals.map(|(placeholder, original)| (placeholder.to_owned(), original.to_owned())).to_vec();
    assert_eq!(finding.change, Change::Placeholders(texts, originals));
}

#[test]
fn the_numbers_of_several_checks_go_on() {
    let mut subject = subject(HookPhase::Before, &["a@b.io, 203.0.113.7"]);
    let only = |category| Pii {
        scan: Scan::new([category].into_iter().collect(), true),
        redacts: true,
        restores: true,
        not: false,
    };
    for (category, text) in [
        (Category::EmailAddress, "{{EMAIL_ADDRESS_1}}, 203.0.113.7"),
        (Category::IpAddress, "{{EMAIL_ADDRESS_1}}, {{IP_ADDRESS_1}}"),
    ] {
        let finding = only(category).run(&subject);
        subject.apply(&finding.change);
        assert_eq!(subject.text(), Some(text));
    }
    subject.apply(&Change::Texts(vec![Some("{{EMAIL_ADDRESS_1}} c@d.io a@b.io".to_owned())]));
    let finding = pii(true, true).run(&subject);
    let text = "{{EMAIL_ADDRESS_1}} {{EMAIL_ADDRESS_2}} {{EMAIL_ADDRESS_1}}".to_owned();
    let new = vec![("{{EMAIL_ADDRESS_2}}".to_owned(), "c@d.io".to_owned())];
    assert_eq!(finding.change, Change::Placeholders(vec![Some(text)], new));
}

/// Finds as a stream does: a range at a time, each with the text that follows it and what came before as context.
fn windowed(check: &Pii, text: &str, cuts: &[usize]) -> Vec<(usize, usize)> {
    let longest = check.longest().unwrap();
    let mut done = 0;
    let mut found = Vec::new();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    ends.sort_unstable();
    ends.push(text.len());
    for received in ends {
        let is_last = received == text.len();
        // Everything may be released that no match can begin in which is not complete yet.
        let limit = if is_last { received } else { received.saturating_sub(longest + 1) };
        let (Some(so_far), true) = (text.get(..received), limit >= done) else { continue };
        for hit in check.find(so_far, done..received) {
            if hit.range.start < limit {
                done = hit.range.end;
                found.push((hit.range.start, hit.range.end));
            }
        }
        done = done.max(limit);
    }
    found
}

proptest! {
    #[test]
    fn a_moving_window_finds_what_the_whole_text_has(
        parts in prop::collection::vec(prop_oneof![
            Just("ann@example.com".to_owned()), Just("call 555 1234".to_owned()), Just("+1 415 555 2671".to_owned()),
            Just("4111 1111 1111 1111".to_owned()), Just("DE89 3704 0044 0532 0130 00".to_owned()),
            Just("2001:db8::1".to_owned()), Just("password=hunter2hunter".to_owned()), Just("536-90-4399".to_owned()),
            "[a-z ]{1,300}", "[0-9 .-]{1,20}", "\\PC{1,10}",
        ], 1..12),
        separator in prop_oneof![Just(" "), Just(""), Just(", ")],
        cuts in prop::collection::vec(0_usize..4000, 0..8),
    ) {
        let text = parts.join(separator);
        let check = pii(false, false);
        let whole: Vec<(usize, usize)> =
            check.find(&text, 0..text.len()).into_iter().map(|hit| (hit.range.start, hit.range.end)).collect();
        prop_assert_eq!(windowed(&check, &text, &cuts), whole);
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,200}", start in 0_usize..200, length in 0_usize..200) {
        let check = pii(true, true);
        for hit in check.find(&text, start..start + length) {
            prop_assert!(text.get(hit.range.clone()).is_some(), "{:?}", hit.range);
        }
    }
}
