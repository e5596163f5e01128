//! Resumes for every pair of vendors and every dialect, cut after every event.

use super::samples::{CLIENTS, Client, Sample, VENDORS, Vendor};
use crate::provider::rescue::{ResumeMode, from_sent_events};
use crate::provider::rewriter::Rewriter;
use bytes::Bytes;
use words::api::operation::Operation;

fn samples() -> Vec<Sample> {
    let call: &[(&str, &[&str])] = &[("look", &["{\"a\"", ":1", "}"])];
    let two: &[(&str, &[&str])] = &[("look", &["{\"a\":1}"]), ("wait", &["{}"])];
    vec![
        Sample::new(&[], &["The ", "Thames", " runs ", "\n\n", "east, ", "to the séa."], &[]),
        Sample::new(&["Hm, ", "well. "], &["One ", "two  ", "three four five ", "six."], &[]),
        Sample::new(&["Hm. "], &["I shall ", "look."], call),
        Sample::new(&[], &[], two),
    ]
}

/// The same response in other chunks than the first.
fn rechunked(sample: &Sample) -> Sample {
    let whole = sample.text.concat();
    let chunks: Vec<String> =
        whole.chars().collect::<Vec<_>>().chunks(7).map(|chunk| chunk.iter().collect()).collect();
    Sample { thinking: sample.thinking.clone(), text: chunks, calls: sample.calls.clone() }
}

/// Resumes with a second response; returns what the client gets.
fn resume(
    rewriter: &mut Rewriter,
    second: Vendor,
    sample: &Sample,
    mode: ResumeMode,
    about: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    rewriter.resume(second.decoder(), mode);
    assert!(!rewriter.is_mismatch(), "{about}");
    for event in second.stream(sample) {
        rewriter.push(event.as_bytes(), &mut out);
        assert!(!rewriter.is_mismatch(), "{about}: {event}");
    }
    rewriter.finish(&mut out);
    assert!(rewriter.is_complete(), "{about}");
    let summary = rewriter.summary().unwrap();
    let (model, output) = match second {
        Vendor::OpenAi => ("gpt", 11),
        Vendor::Anthropic => ("claude", 22),
        Vendor::Gemini => ("gemini", 33),
    };
    assert_eq!(summary.model.as_deref(), Some(model), "{about}");
    assert_eq!(summary.usage.unwrap().output, output, "{about}");
    out
}

/// The rest of a response, for a model that got the sent text without trailing white space as a prefill.
fn rest(sample: &Sample, sent: &str) -> Sample {
    let whole = sample.text.concat();
    let rest = whole.strip_prefix(sent.trim_end()).unwrap();
    Sample { text: vec![rest.to_owned()], ..sample.clone() }
}

#[test]
fn a_translated_stream_resumes_after_any_event() {
    for client in CLIENTS {
        for first in VENDORS {
            for sample in samples() {
                let events = first.stream(&sample);
                for cut in 0..events.len() {
                    for (second, mode) in pairs() {
                        translated(client, first, second, &sample, &events[..cut], mode);
                    }
                }
            }
        }
    }
}

fn pairs() -> Vec<(Vendor, ResumeMode)> {
    let both = |vendor| [(vendor, ResumeMode::Restart), (vendor, ResumeMode::Continue)];
    VENDORS.into_iter().flat_map(both).collect()
}

fn translated(
    client: Client,
    first: Vendor,
    second: Vendor,
    sample: &Sample,
    sent: &[String],
    mode: ResumeMode,
) {
    let about = format!("{client:?} {first:?} {} {second:?} {mode:?} {sample:?}", sent.len());
    let mut rewriter = Rewriter::chat(first.decoder(), client.encoder(), "7");
    rewriter.keep_transcript();
    rewriter.hold_errors();
    let mut out = Vec::new();
    sent.iter().for_each(|event| rewriter.push(event.as_bytes(), &mut out));
    rewriter.finish(&mut out);
    if !rewriter.is_complete() {
        let transcript = rewriter.transcript().unwrap();
        let more = match mode {
            ResumeMode::Continue if transcript.calls().is_empty() => rest(sample, transcript.text()),
            _ => rechunked(sample),
        };
        out.extend(resume(&mut rewriter, second, &more, mode, &about));
    }
    client.check(&out, sample, &about);
}

#[test]
fn a_passthrough_stream_resumes_after_any_event() {
    for client in CLIENTS {
        let own = match client.operation {
            Operation::Messages => Vendor::Anthropic,
            _ => Vendor::OpenAi,
        };
        for sample in samples() {
            let events = own.stream(&sample);
            for cut in 0..events.len() {
                let sent: Vec<Bytes> = events[..cut].iter().map(|event| Bytes::from(event.clone())).collect();
                for (second, mode) in pairs() {
                    let about = format!("{client:?} {cut} {second:?} {mode:?} {sample:?}");
                    let Some(mut rewriter) = from_sent_events(client.operation, client.context(), &sent)
                    else {
                        // Only a response whose finish reason was sent cannot be resumed.
                        assert!(cut + 2 >= events.len(), "{about}");
                        continue;
                    };
                    let transcript = rewriter.transcript().unwrap();
                    let more = match mode {
                        ResumeMode::Continue if transcript.calls().is_empty() => {
                            rest(&sample, transcript.text())
                        }
                        _ => rechunked(&sample),
                    };
                    let mut out = sent.concat();
                    out.extend(resume(&mut rewriter, second, &more, mode, &about));
                    client.check(&out, &sample, &about);
                }
            }
        }
    }
}

#[test]
fn streams_that_cannot_be_resumed_are_rejected() {
    let client = CLIENTS[2];
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
        assert!(from_sent_events(client.operation, client.context(), &sent).is_none(), "{case:?}");
    }
    for operation in [Operation::Responses, Operation::Completions, Operation::Embeddings] {
        assert!(from_sent_events(operation, client.context(), &[]).is_none());
    }
    // Heartbeats are not events. A stream of which nothing was sent can be resumed.
    for sent in [vec![], vec![Bytes::from_static(b": keep-alive\n\n")]] {
        assert!(from_sent_events(client.operation, client.context(), &sent).is_some());
    }
}

#[test]
fn a_third_response_resumes_when_the_second_breaks_too() {
    let sample = Sample::new(&[], &["One two ", "three four ", "five six ", "seven."], &[]);
    for client in CLIENTS {
        let mut rewriter = Rewriter::chat(Vendor::Anthropic.decoder(), client.encoder(), "7");
        rewriter.keep_transcript();
        rewriter.hold_errors();
        let mut out = Vec::new();
        for event in &Vendor::Anthropic.stream(&sample)[..3] {
            rewriter.push(event.as_bytes(), &mut out);
        }
        let error = b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"no\"}}\n\n";
        rewriter.push(error, &mut out);
        assert_eq!(rewriter.error().map(|error| error.status), Some(529));
        assert!(!rewriter.is_complete());
        // An error before any new text writes nothing.
        let before = out.len();
        rewriter.resume(Vendor::OpenAi.decoder(), ResumeMode::Restart);
        assert!(rewriter.error().is_none());
        rewriter.push(b"data: {\"error\":{\"message\":\"busy\",\"code\":503}}\n\n", &mut out);
        rewriter.finish(&mut out);
        assert!(rewriter.error().is_some() && !rewriter.is_complete() && !rewriter.is_mismatch());
        assert_eq!(out.len(), before);
        // A response that breaks after new text: that text is in the transcript.
        rewriter.resume(Vendor::OpenAi.decoder(), ResumeMode::Restart);
        for event in &Vendor::OpenAi.stream(&sample)[..4] {
            rewriter.push(event.as_bytes(), &mut out);
        }
        rewriter.finish(&mut out);
        assert!(!rewriter.is_complete());
        assert_eq!(rewriter.transcript().unwrap().text(), "One two three four five six ");
        let about = format!("{client:?}");
        out.extend(resume(&mut rewriter, Vendor::Gemini, &rechunked(&sample), ResumeMode::Restart, &about));
        client.check(&out, &sample, &about);
    }
}
