//! The proof against `serde_json`: tables, every length of a string, and random texts with mistakes in them.

use super::*;
use crate::json::outline::Outline;
use crate::json::string::unquote;
use proptest::prelude::*;
use serde_json::Value;

type Read = Option<Vec<(String, String)>>;

/// Names and values as `serde_json` reads them.
fn by_serde(text: &[u8]) -> Read {
    let outline: Outline<'_> = serde_json::from_slice(text).ok()?;
    Some(outline.0.into_iter().map(|(name, value)| (name.into_owned(), value.get().to_owned())).collect())
}

/// The same by the proof. A name must become text; a value need not.
fn by_proof(text: &[u8]) -> Read {
    let mut members = Vec::new();
    let read = |range: Range<usize>| std::str::from_utf8(&text[range]).unwrap().to_owned();
    outline(text, |member| {
        let quoted = &text[member.name.start - 1..member.name.end + 1];
        assert_eq!(member.name_has_escapes, quoted.contains(&b'\\'));
        members.push((unquote(quoted)?.into_owned(), read(member.value)));
        Some(())
    })?;
    Some(members)
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Every sort of value, right and wrong, as a member and inside a list.
#[rustfmt::skip]
const VALUES: [&str; 72] = [
    "0", "-0", "1", "-1", "01", "-01", "00", "-", "+1", "1.", "1.0", ".5", "-.5", "1.5.5", "1e5", "1E+5", "1e-05",
    "1e", "1e+", "1.e5", "1.5e5", "0e0", "0.0", "1e999", "123456789012345678901234567890", "1_0", "0x1", "1a",
    "true", "false", "null", "tru", "truee", "True", "nul", "nullnull", "NaN", "Infinity", "\"\"", "\"a\"",
    "\"a", "a\"", "\"\\\"", "\"\\\\\"", "\"\\u0041\"", "\"\\u004\"", "\"\\u00g0\"", "\"\\ud800\"", "\"\\x\"",
    "\"\\/\\b\\f\\n\\r\\t\"", "\"\t\"", "\"\n\"", "\"\u{7f}\"", "\"é\"", "\"所有\"", "\"\u{1f600}\"", "[]", "[ ]", "[1]", "[1,]",
    "[,1]", "[1 2]", "[1", "1]", "{}", "{ }", "{\"a\":1}", "{\"a\":1,}", "{\"a\"}", "{a:1}", "{1:1}", "",
];

#[test]
fn accepts_what_serde_accepts() {
    for value in VALUES {
        for text in [
            format!("{{\"a\":{value}}}"),
            format!(" {{ \"a\" : {value} , \"b\" : [ {value} , {{ \"c\" : {value} }} ] }} "),
            format!("{{\"a\":{value}}} x"),
            format!("{{{value}:1}}"),
            format!("{{\"a\":{{{value}:1}}}}"),
            format!("{{\"a\":1 {value}}}"),
            value.to_owned(),
        ] {
            assert_eq!(by_proof(text.as_bytes()), by_serde(text.as_bytes()), "{text}");
        }
    }
}

#[test]
fn a_string_ends_where_it_ends() {
    for length in 0..300 {
        let plain = "x".repeat(length);
        for end in ["\"}", "\\\"\"}", "\u{1f}\"}", "é\"}", "\u{0}", "\\", "\\u12", ""] {
            let text = format!("{{\"a\":\"{plain}{end}");
            assert_eq!(by_proof(text.as_bytes()), by_serde(text.as_bytes()), "{text}");
        }
        // Half a character, and one that is none.
        for wrong in [&b"\xe2\x82"[..], b"\xff", b"\xed\xa0\x80"] {
            let text = [b"{\"a\":\"", plain.as_bytes(), wrong, b"\"}"].concat();
            assert_eq!((by_proof(&text), by_serde(&text)), (None, None), "{}", shown(&text));
        }
    }
}

/// Lists and objects in one another, the outermost first: true for an object.
fn nested(kinds: &[bool]) -> String {
    let open: String = kinds.iter().map(|is_object| if *is_object { "{\"a\":" } else { "[" }).collect();
    let close: String = kinds.iter().rev().map(|is_object| char::from(closing(*is_object))).collect();
    format!("{{\"a\":{open}1{close}}}")
}

#[test]
fn values_nest_as_deep_as_they_like() {
    for depth in [127, 128, 129, 100_000] {
        let text = nested(&vec![false; depth]);
        assert!(by_proof(text.as_bytes()).is_some() && by_serde(text.as_bytes()).is_some(), "{depth}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~éλ所\u{1f600}\n\"\\\\]{0,90}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map("[a-c\"\\\\é]{0,4}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A change at a place: what is there makes way for these bytes.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, Vec<u8>)> {
    let sensitive = prop::sample::select(&b"{}[]\",:\\/ \n\t01-+.eEtfnu\x00\x1f\x7f\x80\xc3\xa9\xff"[..]);
    (any::<prop::sample::Index>(), 0..3usize, prop::collection::vec(sensitive, 0..3))
}

proptest! {
    #[test]
    fn changed_texts_are_judged_as_serde_judges(
        members in prop::collection::hash_map("[a-c\"\\\\é]{0,4}", value(), 0..4),
        pretty in any::<bool>(),
        changes in prop::collection::vec(change(), 0..3),
    ) {
        let object = Value::Object(members.into_iter().collect());
        let text = if pretty { serde_json::to_vec_pretty(&object) } else { serde_json::to_vec(&object) };
        let mut text = text.unwrap();
        for (place, removed, inserted) in changes {
            let at = place.index(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, inserted);
            if text.is_empty() {
                text.push(b'{');
            }
        }
        prop_assert_eq!(by_proof(&text), by_serde(&text), "{}", shown(&text));
    }

    #[test]
    fn nonsense_is_judged_as_serde_judges(
        text in prop::collection::vec(prop::sample::select(&b"{}[]\",:\\ 1a-.eu\n\xc3"[..]), 0..30),
    ) {
        let text = [b"{\"a\":", &text[..], b"}"].concat();
        prop_assert_eq!(by_proof(&text), by_serde(&text), "{}", shown(&text));
    }

    #[test]
    fn nesting_is_closed_in_order(kinds in prop::collection::vec(any::<bool>(), 1..200), place in any::<prop::sample::Index>()) {
        let text = nested(&kinds);
        prop_assert!(by_proof(text.as_bytes()).is_some());
        let mut wrong = text.into_bytes();
        let closings = wrong.len() - kinds.len() - 1..wrong.len() - 1;
        let at = closings.start + place.index(kinds.len());
        wrong[at] = if wrong[at] == b'}' { b']' } else { b'}' };
        prop_assert_eq!((by_proof(&wrong), by_serde(&wrong)), (None, None));
    }
}
