//! Every pair of vendors, every dialect, a cut behind every event.

use super::tales::{CALLERS, Caller, Tale, VENDORS, Vendor};
use crate::api::operation::Operation;
use crate::provider::rescue::{Asked, replayed};
use crate::provider::rewriter::Rewriter;
use bytes::Bytes;

fn tales() -> Vec<Tale> {
    let call: &[(&str, &[&str])] = &[("look", &["{\"a\"", ":1", "}"])];
    let two: &[(&str, &[&str])] = &[("look", &["{\"a\":1}"]), ("wait", &["{}"])];
    vec![
        Tale::of(&[], &["The ", "Thames", " runs ", "\n\n", "east, ", "to the séa."], &[]),
        Tale::of(&["Hm, ", "well. "], &["One ", "two  ", "three four five ", "six."], &[]),
        Tale::of(&["Hm. "], &["I shall ", "look."], call),
        Tale::of(&[], &[], two),
    ]
}

/// What the second answer says, cut otherwise than the first, thinking of something else.
fn again(tale: &Tale) -> Tale {
    let whole = tale.text.concat();
    let pieces: Vec<String> =
        whole.chars().collect::<Vec<_>>().chunks(7).map(|piece| piece.iter().collect()).collect();
    Tale { thinking: tale.thinking.clone(), text: pieces, calls: tale.calls.clone() }
}

/// Goes on with a second answer; gives back what the caller gets.
fn go_on(rewriter: &mut Rewriter, second: Vendor, tale: &Tale, asked: Asked, about: &str) -> Vec<u8> {
    let mut out = Vec::new();
    rewriter.resume(second.reader(), asked);
    assert!(!rewriter.misfit(), "{about}");
    for event in second.stream(tale) {
        rewriter.push(event.as_bytes(), &mut out);
        assert!(!rewriter.misfit(), "{about}: {event}");
    }
    rewriter.finish(&mut out);
    assert!(rewriter.is_complete(), "{about}");
    let learned = rewriter.learned().unwrap();
    let (model, output) = match second {
        Vendor::OpenAi => ("gpt", 11),
        Vendor::Anthropic => ("claude", 22),
        Vendor::Gemini => ("gemini", 33),
    };
    assert_eq!(learned.model.as_deref(), Some(model), "{about}");
    assert_eq!(learned.usage.unwrap().output, output, "{about}");
    out
}

/// The rest of a tale for a model that was given what was told, without white space at its end.
fn rest(tale: &Tale, told: &str) -> Tale {
    let whole = tale.text.concat();
    let rest = whole.strip_prefix(told.trim_end()).unwrap();
    Tale { text: vec![rest.to_owned()], ..tale.clone() }
}

#[test]
fn a_translated_stream_is_gone_on_with_wherever_it_broke() {
    for caller in CALLERS {
        for first in VENDORS {
            for tale in tales() {
                let events = first.stream(&tale);
                for cut in 0..events.len() {
                    for (second, asked) in pairs() {
                        translated(caller, (first, second), (&tale, &events[..cut]), asked);
                    }
                }
            }
        }
    }
}

fn pairs() -> Vec<(Vendor, Asked)> {
    let both = |vendor| [(vendor, Asked::ToBeginAnew), (vendor, Asked::ToGoOn)];
    VENDORS.into_iter().flat_map(both).collect()
}

fn translated(
    caller: Caller,
    (first, second): (Vendor, Vendor),
    (tale, sent): (&Tale, &[String]),
    asked: Asked,
) {
    let about = format!("{caller:?} {first:?} {} {second:?} {asked:?} {tale:?}", sent.len());
    let mut rewriter = Rewriter::chat(first.reader(), caller.writer(), "7");
    rewriter.remember();
    rewriter.hold_errors();
    let mut out = Vec::new();
    sent.iter().for_each(|event| rewriter.push(event.as_bytes(), &mut out));
    rewriter.finish(&mut out);
    if !rewriter.is_complete() {
        let told = rewriter.told().unwrap();
        let more = match asked {
            Asked::ToGoOn if told.calls().is_empty() => rest(tale, told.text()),
            _ => again(tale),
        };
        out.extend(go_on(&mut rewriter, second, &more, asked, &about));
    }
    caller.check(&out, tale, &about);
}

#[test]
fn a_stream_that_passed_unchanged_is_gone_on_with_wherever_it_broke() {
    for caller in CALLERS {
        let own = match caller.operation {
            Operation::Messages => Vendor::Anthropic,
            _ => Vendor::OpenAi,
        };
        for tale in tales() {
            let events = own.stream(&tale);
            for cut in 0..events.len() {
                let sent: Vec<Bytes> = events[..cut].iter().map(|event| Bytes::from(event.clone())).collect();
                for (second, asked) in pairs() {
                    let about = format!("{caller:?} {cut} {second:?} {asked:?} {tale:?}");
                    let Some(mut rewriter) = replayed(caller.operation, caller.setting(), &sent) else {
                        // Only an answer that told its finish is none to go on with.
                        assert!(cut + 2 >= events.len(), "{about}");
                        continue;
                    };
                    let told = rewriter.told().unwrap();
                    let more = match asked {
                        Asked::ToGoOn if told.calls().is_empty() => rest(&tale, told.text()),
                        _ => again(&tale),
                    };
                    let mut out = sent.concat();
                    out.extend(go_on(&mut rewriter, second, &more, asked, &about));
                    caller.check(&out, &tale, &about);
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_gone_on_with_is_not_replayed() {
    let caller = CALLERS[2];
    let cases: [&[&str]; 5] = [
        &["event: ping\ndata: {\"type\":\"ping\"}\n"],
        &["data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"no\"}}\n\n"],
        &[
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"server_tool_use\"}}\n\n",
        ],
        &["data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"],
        &["data: hello\n\n"],
    ];
    for case in cases {
        let sent: Vec<Bytes> = case.iter().map(|&event| Bytes::from_static(event.as_bytes())).collect();
        assert!(replayed(caller.operation, caller.setting(), &sent).is_none(), "{case:?}");
    }
    for operation in [Operation::Responses, Operation::Completions, Operation::Embeddings] {
        assert!(replayed(operation, caller.setting(), &[]).is_none());
    }
    // Heartbeats are no events, and nothing at all is a beginning.
    for sent in [vec![], vec![Bytes::from_static(b": keep-alive\n\n")]] {
        assert!(replayed(caller.operation, caller.setting(), &sent).is_some());
    }
}

#[test]
fn a_third_answer_goes_on_when_the_second_breaks_too() {
    let tale = Tale::of(&[], &["One two ", "three four ", "five six ", "seven."], &[]);
    for caller in CALLERS {
        let mut rewriter = Rewriter::chat(Vendor::Anthropic.reader(), caller.writer(), "7");
        rewriter.remember();
        rewriter.hold_errors();
        let mut out = Vec::new();
        for event in &Vendor::Anthropic.stream(&tale)[..3] {
            rewriter.push(event.as_bytes(), &mut out);
        }
        let error = b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"no\"}}\n\n";
        rewriter.push(error, &mut out);
        assert_eq!(rewriter.fault().map(|fault| fault.status), Some(529));
        assert!(!rewriter.is_complete());
        // An error before anything new leaves no trace.
        let before = out.len();
        rewriter.resume(Vendor::OpenAi.reader(), Asked::ToBeginAnew);
        assert!(rewriter.fault().is_none());
        rewriter.push(b"data: {\"error\":{\"message\":\"busy\",\"code\":503}}\n\n", &mut out);
        rewriter.finish(&mut out);
        assert!(rewriter.fault().is_some() && !rewriter.is_complete() && !rewriter.misfit());
        assert_eq!(out.len(), before);
        // One that tells something new is cut; what it told is known.
        rewriter.resume(Vendor::OpenAi.reader(), Asked::ToBeginAnew);
        for event in &Vendor::OpenAi.stream(&tale)[..4] {
            rewriter.push(event.as_bytes(), &mut out);
        }
        rewriter.finish(&mut out);
        assert!(!rewriter.is_complete());
        assert_eq!(rewriter.told().unwrap().text(), "One two three four five six ");
        let about = format!("{caller:?}");
        out.extend(go_on(&mut rewriter, Vendor::Gemini, &again(&tale), Asked::ToBeginAnew, &about));
        caller.check(&out, &tale, &about);
    }
}
