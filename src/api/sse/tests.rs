//! Framing, held against a second, naive reading of the standard. Not here: what events mean.

use super::*;
use proptest::prelude::*;

type Owned = (Option<String>, Vec<u8>);

fn owned(events: &mut Vec<Owned>) -> impl FnMut(Event<'_>) + '_ {
    |event| events.push((event.name.map(str::to_owned), event.data.to_vec()))
}

fn split(chunks: &[&[u8]], limit: usize) -> (Vec<Owned>, bool) {
    let mut events = Vec::new();
    let mut parser = SseParser::with_limit(limit);
    let mut too_long = false;
    for chunk in chunks {
        too_long |= parser.push(chunk, &mut owned(&mut events)).is_err();
    }
    parser.finish(&mut owned(&mut events));
    (events, too_long)
}

/// The standard read literally: no chunks, no borrowing.
fn naive(text: &[u8]) -> Vec<Owned> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
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
    let (mut events, mut name, mut data) = (Vec::new(), None, Vec::<Vec<u8>>::new());
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
    let chunk = b"event: e\ndata: abc\n\n";
    let mut parser = SseParser::default();
    let mut count = 0;
    let pushed = parser.push(chunk, &mut |event| {
        count += 1;
        assert!(chunk.as_ptr_range().contains(&event.data.as_ptr()));
    });
    assert_eq!((pushed, count, parser.carry.capacity()), (Ok(()), 1, 0));
}

#[test]
fn a_large_event_does_not_keep_its_memory() {
    let mut parser = SseParser::default();
    let large = vec![b'x'; 1 << 20];
    for chunk in [&b"data: "[..], &large, b"\n\n"] {
        parser.push(chunk, &mut |_| {}).unwrap();
    }
    assert!(parser.carry.capacity() <= KEPT_CAPACITY);
}

#[test]
fn written_events_parse_back() {
    for (name, data) in [(None, "a"), (Some("error"), "{\"a\":1}"), (None, "a\nb\n"), (None, "")] {
        let mut out = Vec::new();
        write_event(&mut out, name, data.as_bytes());
        assert_eq!(split(&[&out], 1 << 20).0, [(name.map(str::to_owned), data.as_bytes().to_vec())]);
    }
}

/// Text made of the pieces that matter, so that random cuts fall between them.
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
    fn arbitrary_bytes_never_panic(
        text in prop::collection::vec(any::<u8>(), 0..300),
        sizes in prop::collection::vec(0usize..40, 0..20),
    ) {
        let (events, _) = cut(&text, &sizes);
        prop_assert_eq!(events, naive(&text));
    }
}
