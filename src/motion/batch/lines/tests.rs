//! Tests of the line reader: ends, marks, blanks, cuts at any place, lines that are too long.

use super::*;
use futures_util::stream;
use proptest::prelude::*;

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Number and text of each line; `None` for one that is too long.
fn lines(pieces: &[&[u8]], max: usize) -> Vec<(u32, Option<Vec<u8>>)> {
    let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let mut reader = LineReader::new(stream::iter(pieces), max);
    let mut found = Vec::new();
    while let Some(line) = run(reader.next()).unwrap() {
        found.push(match line {
            Ok(line) => (line.number, Some(line.bytes.to_vec())),
            Err(error) => {
                assert_eq!(error.code, "line_too_long");
                (error.line.unwrap(), None)
            }
        });
    }
    found
}

fn line(number: u32, text: &str) -> (u32, Option<Vec<u8>>) {
    (number, Some(text.as_bytes().to_vec()))
}

#[test]
fn ends_marks_and_blank_lines() {
    for (text, expected) in [
        ("", vec![]),
        ("\n\r\n \t\n", vec![]),
        ("a\nb\n", vec![line(1, "a"), line(2, "b")]),
        ("a\r\nb", vec![line(1, "a"), line(2, "b")]),
        ("\u{feff}a\n\u{feff}b", vec![line(1, "a"), line(2, "\u{feff}b")]),
        ("\u{feff}", vec![]),
        ("\n\na\n\n\nb\n\n", vec![line(3, "a"), line(6, "b")]),
        ("a\rb\n", vec![line(1, "a\rb")]),
        (" a \n", vec![line(1, " a ")]),
    ] {
        assert_eq!(lines(&[text.as_bytes()], 10), expected, "{text:?}");
    }
}

#[test]
fn reading_goes_on_where_it_ended() {
    let text = "\u{feff}{\"a\": 1}\r\n\nb\nccc\n\nd";
    for size in 1..text.len() {
        let pieces = |from: usize| {
            let pieces = text.as_bytes()[from..].chunks(size);
            stream::iter(pieces.map(|piece| Ok(Bytes::copy_from_slice(piece))).collect::<Vec<_>>())
        };
        let mut numbers = Vec::new();
        let mut at = Position::default();
        loop {
            let mut reader = LineReader::at(pieces(at.byte as usize), 20, at);
            let Some(line) = run(reader.next()).unwrap() else { break };
            numbers.push((line.unwrap().number, reader.position().byte));
            at = reader.position();
        }
        assert_eq!(numbers, [(1, 13), (3, 16), (4, 20), (6, 22)], "{size}");
    }
}

#[test]
fn a_line_may_have_exactly_as_many_bytes_as_allowed() {
    for text in ["12345\nx", "12345\r\nx", "\u{feff}12345\r\nx"] {
        assert_eq!(lines(&[text.as_bytes()], 5), vec![line(1, "12345"), line(2, "x")], "{text:?}");
    }
    for text in ["123456\nx", "123456\r\nx", "\u{feff}123456\r\nx"] {
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(lines(&bytes, 5), vec![(1, None), line(2, "x")], "{text:?}");
    }
    assert_eq!(lines(&[b"a\n", b"1234567", b"890"], 5), vec![line(1, "a"), (2, None)]);
}

#[test]
fn a_line_of_a_gibibyte_is_dropped_as_it_arrives() {
    const MIB: usize = 1024 * 1024;
    let piece = Bytes::from(vec![b'x'; MIB]);
    let long = stream::iter(std::iter::repeat_n(piece, 1024).map(Ok));
    let ends = stream::iter([Ok(Bytes::from_static(b"\n{}\n"))]);
    let mut reader = LineReader::new(long.chain(ends), MIB);
    let error = run(reader.next()).unwrap().unwrap().unwrap_err();
    assert_eq!((error.code, error.line), ("line_too_long", Some(1)));
    assert!(reader.partial.capacity() <= 2 * MIB, "{}", reader.partial.capacity());
    let next = run(reader.next()).unwrap().unwrap().unwrap();
    assert_eq!((next.number, &*next.bytes), (2, b"{}".as_slice()));
}

#[test]
fn a_blob_that_fails_is_no_line() {
    let pieces = vec![Ok(Bytes::from_static(b"a\nb")), Err(BlobError::Unreachable("gone".to_owned()))];
    let mut reader = LineReader::new(stream::iter(pieces), 10);
    assert_eq!(run(reader.next()).unwrap().unwrap().unwrap().number, 1);
    assert_eq!(run(reader.next()), Err(BlobError::Unreachable("gone".to_owned())));
}

/// The same by splitting the whole text.
fn by_splitting(text: &[u8], max: usize) -> Vec<(u32, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for (index, part) in text.split(|byte| *byte == b'\n').enumerate() {
        let part = if index == 0 { part.strip_prefix(BYTE_ORDER_MARK).unwrap_or(part) } else { part };
        let part = part.strip_suffix(b"\r").unwrap_or(part);
        let number = u32::try_from(index + 1).unwrap();
        if part.len() > max {
            found.push((number, None));
        } else if !part.trim_ascii().is_empty() {
            found.push((number, Some(part.to_vec())));
        }
    }
    found
}

proptest! {
    #[test]
    fn cuts_change_nothing(text in r"(\u{feff})?[ab\r\n ]{0,60}", cuts in proptest::collection::vec(0usize..64, 0..6)) {
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(lines(&pieces, 6), by_splitting(bytes, 6));
    }
}
