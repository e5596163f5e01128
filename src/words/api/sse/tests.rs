//! Tests of the framing against a second, naive implementation of the standard. Not of what events mean.

use super::*;
use proptest::prelude::*;

type Owned = (Option<String>, Vec<u8>);

/// The events with data, whether one was over the limit, and all bytes that were returned.
fn split_all(chunks: &[&[u8]], limit: usize) -> (Vec<Owned>, bool, Vec<u8>) {
    let mut events = Vec::new();
    let mut too_long = false;
    let mut bytes = Vec::new();
    let mut parser = SseParser::with_limit(limit);
    let mut take = |run: Run<'_>| {
        too_long |= run.is_oversized();
        let raw: usize = run.events().map(|event| event.raw.len()).sum();
        assert!(raw == run.bytes().len() || run.is_oversized(), "events cover their run");
        for event in run.events() {
            assert_eq!(run.bytes().get(event.start..event.end()), Some(event.raw));
            events.extend(event.data.map(|data| (event.name.map(str::to_owned), data.into_owned())));
        }
        bytes.extend_from_slice(run.bytes());
    };
    for chunk in chunks {
        take(parser.push(chunk));
    }
    take(parser.finish());
    (events, too_long, bytes)
}

fn split(chunks: &[&[u8]], limit: usize) -> (Vec<Owned>, bool) {
    let (events, too_long, bytes) = split_all(chunks, limit);
    assert_eq!(bytes, chunks.concat(), "no byte is lost");
    (events, too_long)
}

#[test]
fn blank_lines_are_one_event_however_many_they_are() {
    let mut parser = SseParser::default();
    let blank = b"\n".repeat(64 << 10);
    let run = parser.push(&blank);
    assert_eq!((run.events().count(), run.is_oversized()), (1, false));
    let run = parser.push(b"\r\n\n\rdata: a\n\n\n\n\ndata: b\n\n");
    let data: Vec<_> = run.data().collect();
    assert_eq!(data, [&b"a"[..], b"b"]);
    assert_eq!(run.events().count(), 4);
}

/// The standard read literally: no chunks, no borrowing.
fn naive(text: &[u8]) -> Vec<Owned> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut lines = vec![Vec::new()];
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\r' if text.get(at + 1) == Some(&b'\n') => {
                at += 1;
                lines.push(Vec::new());
            }
            b'\r' | b'\n' => lines.push(Vec::new()),
            byte => lines.last_mut().unwrap().push(byte),
        }
        at += 1;
    }
    lines.push(Vec::new());
    let mut events = Vec::new();
    let mut name = None;
    let mut data = Vec::<Vec<u8>>::new();
    for line in lines {
        if line.is_empty() {
            if !data.is_empty() {
                events.push((name.clone(), data.join(&b'\n')));
            }
            (name, data) = (None, Vec::new());
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value).to_vec();
        match &line[..colon] {
            b"data" => data.push(value),
            b"event" => name = String::from_utf8(value).ok().filter(|name| !name.is_empty()),
            _ => {}
        }
    }
    events
}

#[test]
fn events_are_parsed_as_the_standard_defines() {
    type Wanted = &'static [(Option<&'static str>, &'static str)];
    let cases: &[(&str, Wanted)] = &[
        ("data: a\n\ndata: b\r\n\r\ndata:c\r\r", &[(None, "a"), (None, "b"), (None, "c")]),
        ("\u{feff}data: a\n\n", &[(None, "a")]),
        ("\u{feff}\ndata: a\n\n", &[(None, "a")]),
        (": PROCESSING\n\n: x\ndata: a\n\n", &[(None, "a")]),
        ("event: ping\ndata: {}\nid: 7\nretry: 3\n\n", &[(Some("ping"), "{}")]),
        ("data: a\ndata\ndata:  b\r\n\n", &[(None, "a\n\n b")]),
        ("event: lonely\n\ndata: a\n\n", &[(None, "a")]),
        ("database: a\ndat: a\n\n", &[]),
        ("event: a\nevent: b\ndata: 1\n\n", &[(Some("b"), "1")]),
        ("data: [DONE]", &[(None, "[DONE]")]),
        ("data: [DONE]\n", &[(None, "[DONE]")]),
        ("\n\n\r\n\r\rdata: a\r\n\n", &[(None, "a")]),
        ("data:\n\n", &[(None, "")]),
    ];
    for (text, wanted) in cases {
        let wanted: Vec<Owned> =
            wanted.iter().map(|(name, data)| (name.map(str::to_owned), data.as_bytes().to_vec())).collect();
        assert_eq!(split(&[text.as_bytes()], 1 << 20).0, wanted, "{text:?}");
        assert_eq!(naive(text.as_bytes()), wanted, "naive {text:?}");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(split(&bytes, 1 << 20).0, wanted, "byte by byte {text:?}");
    }
}

#[test]
fn an_event_over_the_limit_is_dropped_and_later_ones_are_parsed() {
    let text = format!("data: a\n\ndata: {}\n\ndata: b\n\n", "x".repeat(100));
    for size in [1, 7, 50, 1000] {
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        let (events, too_long) = split(&chunks, 64);
        assert!(too_long, "chunks of {size}");
        assert_eq!(events, [(None, b"a".to_vec()), (None, b"b".to_vec())], "chunks of {size}");
    }
}

#[test]
fn an_event_within_one_chunk_is_borrowed_from_it() {
    for text in ["event: e\ndata: abc\n\n", "data: abc\n\n", "data: abc\r\rdata: x\r\n\r\n"] {
        let chunk = Bytes::from_static(text.as_bytes());
        let mut parser = SseParser::default();
        let run = parser.push(&chunk);
        for event in run.events() {
            let Some(Cow::Borrowed(data)) = event.data else { panic!("{text:?} was copied") };
            assert!(chunk.as_ptr_range().contains(&data.as_ptr()));
        }
        let bytes = run.into_bytes(&chunk);
        assert_eq!((bytes.as_ptr(), bytes.len()), (chunk.as_ptr(), chunk.len()));
        assert_eq!(parser.carry.capacity(), 0);
    }
}

#[test]
fn each_run_ends_with_an_event_as_soon_as_it_is_whole() {
    let text = ": hello\r\n\r\ndata: a\n\nevent: x\rdata:low\r\rdata: b\n\n\ndata: end";
    for size in 1..=text.len() {
        let mut parser = SseParser::default();
        let mut output = Vec::new();
        for chunk in text.as_bytes().chunks(size) {
            let run = parser.push(chunk);
            let ends = ["\n\n", "\r\r", "\n\r\n"].map(str::as_bytes);
            assert!(run.bytes().is_empty() || ends.iter().any(|end| run.bytes().ends_with(end)), "{run:?}");
            output.extend_from_slice(run.bytes());
        }
        let rest = parser.finish();
        assert!(matches!(rest.bytes(), b"data: end" | b"\ndata: end"), "{size}: {rest:?}");
        output.extend_from_slice(rest.bytes());
        assert_eq!(output, text.as_bytes(), "{size}");
    }
}

#[test]
fn a_line_feed_after_a_closing_carriage_return_belongs_to_the_next_event() {
    let mut parser = SseParser::default();
    assert_eq!(parser.push(b"data: a\r\r").bytes(), b"data: a\r\r");
    let run = parser.push(b"\ndata: b\r\n\r\n");
    assert_eq!(run.bytes(), b"\ndata: b\r\n\r\n");
    assert_eq!(run.data().collect::<Vec<_>>(), [&b"b"[..]]);
}

#[test]
fn a_crlf_cut_in_the_middle_stays_whole() {
    let mut parser = SseParser::default();
    assert_eq!(parser.push(b"data: a\r\n\r").bytes(), b"");
    assert_eq!(parser.push(b"").bytes(), b"");
    assert_eq!(parser.push(b"\n").bytes(), b"data: a\r\n\r\n");
    assert_eq!(parser.push(b"data: b\n\r").bytes(), b"");
    assert_eq!(parser.push(b"data").bytes(), b"data: b\n\r");
    assert_eq!(parser.push(b": c\r\n\r").bytes(), b"");
    assert_eq!(parser.finish().bytes(), b"data: c\r\n\r");
}

#[test]
fn an_event_over_the_limit_passes_without_being_held() {
    let text = format!("data: a\n\ndata: {}\n\ndata: b\n\n", "x".repeat(1000));
    let mut parser = SseParser::with_limit(64);
    let mut held = 0;
    for chunk in text.as_bytes().chunks(50) {
        let run = parser.push(chunk);
        held = held.max(parser.carry.len());
        assert!(run.is_oversized() || run.events().all(|event| event.data.is_some()));
    }
    assert!(held <= 64, "{held}");
}

#[test]
fn a_byte_order_mark_is_in_the_bytes_and_not_in_the_data() {
    let mut parser = SseParser::default();
    assert!(parser.push(b"\xef\xbb").bytes().is_empty());
    let run = parser.push(b"\xbfdata: a\n\n");
    assert_eq!(run.bytes(), b"\xef\xbb\xbfdata: a\n\n");
    assert_eq!(run.data().collect::<Vec<_>>(), [&b"a"[..]]);
}

#[test]
fn written_events_parse_back() {
    for (name, data) in [(None, "a"), (Some("error"), "{\"a\":1}"), (None, "a\nb\n"), (None, "")] {
        let mut out = Vec::new();
        write_event(&mut out, name, data.as_bytes());
        assert_eq!(split(&[&out], 1 << 20).0, [(name.map(str::to_owned), data.as_bytes().to_vec())]);
    }
}

/// Text made of significant fragments, so that random chunk boundaries fall between and inside them.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop::sample::select(vec![
        "\u{feff}",
        "data: {\"a\":1}",
        "data:x",
        "data",
        "event: ping",
        "event:",
        ": note",
        "id: 1",
        "retry: 5",
        " ",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\r\n\r\n",
        "ü",
    ]);
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.concat().into_bytes())
}

fn cut(text: &[u8], sizes: &[usize]) -> (Vec<Owned>, bool) {
    let mut rest = text;
    let mut chunks = Vec::new();
    for &size in sizes {
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    chunks.push(rest);
    split(&chunks, 1 << 20)
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_events(text in stream(), sizes in prop::collection::vec(0usize..9, 0..60)) {
        let (events, _) = cut(&text, &sizes);
        prop_assert_eq!(&events, &split(&[&text], 1 << 20).0);
        prop_assert_eq!(events, naive(&text));
    }

    #[test]
    fn no_byte_is_lost_when_events_are_over_the_limit(
        text in stream(),
        sizes in prop::collection::vec(0usize..9, 0..60),
        limit in 1usize..30,
    ) {
        let mut rest = &text[..];
        let mut chunks = Vec::new();
        for size in sizes {
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks.push(rest);
        prop_assert_eq!(split_all(&chunks, limit).2, text);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        text in prop::collection::vec(any::<u8>(), 0..300),
        sizes in prop::collection::vec(0usize..40, 0..20),
    ) {
        let (events, _) = cut(&text, &sizes);
        prop_assert_eq!(events, naive(&text));
    }
}
