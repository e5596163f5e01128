//! Finds a few members in a JSON text of any length as it streams by, in constant memory.
//!
//! Not a parser: it does not check that the text is valid. On text that is not JSON it finds nothing or arbitrary
//! values, but never fails. Made for responses that pass through unread.
//!
//! How it works, with the paths 0 `usage`, 1 `model` and 2 `choices.*.finish_reason`. `matching_paths` has a bit for
//! each path that leads to the current value, `levels` has the bits of the objects and lists that are open:
//!
//! ```text
//! {                       depth 1, levels[0]: all three paths lead into it
//! "model":                matching_paths = path 1, and it ends here: its value is captured
//! "m",                    the comma ends the value: path 1 is reported with `"m"`
//! "id":{"usage":1},       no path has `id`: skipped to depth 1, whatever is in it
//! "choices":[             path 2 leads into the list, levels[1] = path 2, its next step is `*`
//! {"finish_reason":"stop" an item, so path 2 leads on; the name matches its last step: captured
//! }]                      the brace ends the value: path 2 is reported with `"stop"`
//! }                       depth 0: the text is closed
//! ```

use memchr::memchr2;

/// Where a wanted member is, from the root; `*` is any item of a list.
pub type Path = &'static [&'static str];

/// The most paths: a bit each.
const MAX_PATHS: usize = 32;
/// The most steps of a path.
const MAX_LEVELS: usize = 4;
/// The longest step of a path.
const MAX_NAME_BYTES: usize = 24;
/// A wanted value longer than this many bytes is skipped: no value that is read is that long.
const MAX_VALUE_BYTES: usize = 64 << 10;

/// The state of one scan; `T` is what is reported with the values of a path.
#[derive(Debug)]
pub(crate) struct JsonScanner<T: 'static> {
    paths: &'static [(Path, T)],
    /// Open lists and objects.
    depth: usize,
    /// The outermost of them, as far as a path leads into them.
    levels: [Level; MAX_LEVELS],
    /// The paths that lead to the next value, a bit each.
    matching_paths: u32,
    /// Set inside a value no path leads into: the depth at which that value ends.
    skip_to: Option<usize>,
    in_string: bool,
    escaped: bool,
    /// The next string is a member's name.
    expects_name: bool,
    name: Vec<u8>,
    /// The path whose value is being captured.
    capture: Option<usize>,
    /// The part of the value that was in earlier chunks.
    value: Vec<u8>,
    closed: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Level {
    object: bool,
    /// The paths that lead here.
    paths: u32,
}

impl<T: Copy> JsonScanner<T> {
    pub fn new(paths: &'static [(Path, T)]) -> Self {
        Self {
            paths,
            depth: 0,
            levels: [Level::default(); MAX_LEVELS],
            matching_paths: u32::MAX,
            skip_to: None,
            in_string: false,
            escaped: false,
            expects_name: false,
            name: Vec::new(),
            capture: None,
            value: Vec::new(),
            closed: false,
        }
    }

    /// Whether the outermost list or object has been closed: the text is complete.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes the next bytes; calls `on` with the path's `T` and the JSON text of every value found.
    pub fn push(&mut self, chunk: &[u8], on: &mut dyn FnMut(T, &[u8])) {
        let mut at = 0;
        let mut start = 0;
        while let Some(&byte) = chunk.get(at) {
            if self.in_string {
                at = self.skip_string(chunk, at);
                continue;
            }
            // Only at numbers: elsewhere the next quote is near, and the check would cost more than it saves.
            if self.skip_to.is_some() && (byte.is_ascii_digit() || byte == b'-') {
                let plain = chunk.get(at..).map_or(0, unstructured_len);
                if plain > 0 {
                    at += plain;
                    continue;
                }
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    if self.expects_name {
                        self.name.clear();
                    }
                }
                b'{' | b'[' => {
                    self.open(byte == b'{');
                    self.start_value(at, &mut start);
                }
                b'}' | b']' => {
                    if self.skip_to.is_none() {
                        self.end_value(chunk.get(start..at), on);
                    }
                    self.close();
                }
                b',' if self.skip_to.is_none() => {
                    self.end_value(chunk.get(start..at), on);
                    self.start_item();
                    self.start_value(at, &mut start);
                }
                b':' if self.expects_name => {
                    self.expects_name = false;
                    self.matching_paths = self.paths_matching(|step| step.as_bytes() == self.name);
                    self.start_value(at, &mut start);
                }
                _ => {}
            }
            at += 1;
        }
        if self.capture.is_some() {
            self.buffer(chunk.get(start..));
        }
    }

    /// The index behind the string, or behind the chunk.
    fn skip_string(&mut self, chunk: &[u8], from: usize) -> usize {
        let rest = chunk.get(from..).unwrap_or_default();
        if std::mem::take(&mut self.escaped) {
            return from + 1;
        }
        let length = memchr2(b'"', b'\\', rest);
        if self.expects_name && self.name.len() <= MAX_NAME_BYTES {
            let name_part = rest.get(..length.unwrap_or(rest.len())).unwrap_or_default();
            self.name.extend(name_part.iter().take(MAX_NAME_BYTES + 1));
        }
        let Some(length) = length else { return chunk.len() };
        if rest.get(length) == Some(&b'\\') {
            self.escaped = true;
            // A name with escapes never matches.
            if self.expects_name {
                self.name.push(b'\\');
            }
        } else {
            self.in_string = false;
        }
        from + length + 1
    }

    fn open(&mut self, object: bool) {
        let depth = self.depth;
        self.depth += 1;
        if self.skip_to.is_some() {
            return;
        }
        match self.levels.get_mut(depth) {
            Some(level) if self.matching_paths != 0 && self.capture.is_none() => {
                *level = Level { object, paths: self.matching_paths };
                self.start_item();
            }
            _ => self.skip_to = Some(depth),
        }
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.closed |= self.depth == 0;
        self.expects_name = false;
        match self.skip_to {
            Some(depth) if self.depth > depth => {}
            _ => self.skip_to = None,
        }
    }

    /// A member or an item begins next.
    fn start_item(&mut self) {
        self.expects_name = self.level().object;
        self.matching_paths = if self.expects_name { 0 } else { self.paths_matching(|step| step == "*") };
    }

    /// The innermost open list or object.
    fn level(&self) -> Level {
        self.depth.checked_sub(1).and_then(|depth| self.levels.get(depth)).copied().unwrap_or_default()
    }

    /// The paths that lead here and whose next step is wanted.
    fn paths_matching(&self, wanted: impl Fn(&str) -> bool) -> u32 {
        let level = self.level();
        let mut bits = 0;
        for (index, (path, _)) in self.paths.iter().enumerate().take(MAX_PATHS) {
            let step = self.depth.checked_sub(1).and_then(|depth| path.get(depth));
            if level.paths & (1 << index) != 0 && step.is_some_and(|step| wanted(step)) {
                bits |= 1 << index;
            }
        }
        bits
    }

    /// A value begins behind `at`: captures it if a path ends there.
    fn start_value(&mut self, at: usize, start: &mut usize) {
        if self.skip_to.is_some() || self.matching_paths == 0 || self.expects_name {
            return;
        }
        let ends_here = |(index, (path, _)): &(usize, &(Path, T))| {
            self.matching_paths & (1 << index) != 0 && path.len() == self.depth
        };
        if let Some((index, _)) = self.paths.iter().enumerate().take(MAX_PATHS).find(ends_here) {
            self.capture = Some(index);
            self.value.clear();
            *start = at + 1;
        }
    }

    fn end_value(&mut self, last: Option<&[u8]>, on: &mut dyn FnMut(T, &[u8])) {
        let Some(index) = self.capture else { return };
        let whole = if self.value.is_empty() {
            last.unwrap_or_default()
        } else {
            self.buffer(last);
            &self.value
        };
        let whole = whole.trim_ascii();
        if self.capture.take().is_some()
            && !whole.is_empty()
            && whole.len() <= MAX_VALUE_BYTES
            && let Some((_, wanted)) = self.paths.get(index)
        {
            on(*wanted, whole);
        }
    }

    fn buffer(&mut self, part: Option<&[u8]>) {
        let part = part.unwrap_or_default();
        if self.value.len() + part.len() > MAX_VALUE_BYTES {
            self.capture = None;
            self.value = Vec::new();
        } else {
            self.value.extend_from_slice(part);
        }
    }
}

/// How many bytes at the front neither open nor close a string, list or object: nearly all of a list of numbers.
/// Works in blocks without an early exit inside, so that the compiler uses wide registers.
fn unstructured_len(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    // Setting this bit turns `[` and `]` into `{` and `}`, and no other byte that JSON has outside strings.
    let structural = |&byte: &u8| byte == b'"' || byte | 0x20 == b'{' || byte | 0x20 == b'}';
    let has = |block: &[u8]| block.iter().fold(false, |found, byte| found | structural(byte));
    let blocks = bytes.chunks_exact(BLOCK).take_while(|block| !has(block)).count() * BLOCK;
    let rest = bytes.get(blocks..).unwrap_or_default();
    blocks + rest.iter().take(BLOCK).take_while(|byte| !structural(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const WANTED: &[(Path, usize)] =
        &[(&["usage"], 0), (&["model"], 1), (&["choices", "*", "finish_reason"], 2), (&["tags", "*"], 3)];

    fn found(chunks: &[&[u8]]) -> (Vec<(usize, String)>, bool) {
        let mut scan = JsonScanner::new(WANTED);
        let mut out = Vec::new();
        for chunk in chunks {
            scan.push(chunk, &mut |index, text| {
                out.push((index, String::from_utf8_lossy(text).into_owned()));
            });
        }
        (out, scan.is_closed())
    }

    #[test]
    fn members_are_found_only_at_their_paths() {
        let cases: &[(&str, &[(usize, &str)])] = &[
            (r#"{"model":"m","usage":{"a":[1,{"b":2}]}}"#, &[(1, "\"m\""), (0, r#"{"a":[1,{"b":2}]}"#)]),
            (r#"{ "x" : {"usage":1}, "usage" : 2 , "y":["model"]}"#, &[(0, "2")]),
            (r#"{"x":"\"usage\":{}","y":"\\","model":null}"#, &[(1, "null")]),
            (
                r#"{"choices":[{"m":{"finish_reason":1},"finish_reason":"stop"},{"finish_reason":null}]}"#,
                &[(2, "\"stop\""), (2, "null")],
            ),
            (
                r#"{"tags":["a",[1,2],{"usage":3}],"z":[]}"#,
                &[(3, "\"a\""), (3, "[1,2]"), (3, r#"{"usage":3}"#)],
            ),
            (r#"{"tags":[],"choices":{"0":{"finish_reason":1}}}"#, &[]),
            (r#"[{"usage":1}]"#, &[]),
            (r#"{"us\u0061ge":1,"usage2":2,"usag":3}"#, &[]),
        ];
        for (text, wanted) in cases {
            let wanted: Vec<_> = wanted.iter().map(|&(index, text)| (index, text.to_owned())).collect();
            assert_eq!(found(&[text.as_bytes()]), (wanted.clone(), true), "{text}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(found(&bytes), (wanted, true), "byte by byte {text}");
        }
    }

    #[test]
    fn a_text_cut_short_is_not_closed() {
        assert_eq!(found(&[br#"{"model":"m","usage":{"a":1"#]), (vec![(1, "\"m\"".to_owned())], false));
    }

    #[test]
    fn a_value_beyond_the_bound_is_skipped() {
        let text = format!(r#"{{"usage":"{}","model":"m"}}"#, "x".repeat(MAX_VALUE_BYTES));
        for size in [1000, text.len()] {
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(found(&chunks), (vec![(1, "\"m\"".to_owned())], true), "chunks of {size}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let name = prop::sample::select(vec!["usage", "model", "choices", "finish_reason", "tags", "a\"\\"]);
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[a-z\"\\\\{},:\\[\\]]{0,8}".prop_map(Value::from),
        ];
        scalar.prop_recursive(5, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name.clone(), inner), 0..5).prop_map(|members| {
                    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
                }),
            ]
        })
    }

    /// What a full parse finds, in no particular order.
    fn expected_values(value: &Value) -> Vec<(usize, Value)> {
        let mut out = Vec::new();
        let items = |name| value.get(name).and_then(Value::as_array).into_iter().flatten();
        out.extend(value.get("usage").map(|value| (0, value.clone())));
        out.extend(value.get("model").map(|value| (1, value.clone())));
        out.extend(items("choices").filter_map(|item| Some((2, item.get("finish_reason")?.clone()))));
        out.extend(items("tags").map(|item| (3, item.clone())));
        out
    }

    proptest! {
        #[test]
        fn a_scan_finds_what_a_parse_finds(value in json(), pretty: bool, size in 1usize..40) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.unwrap();
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let (found, _) = found(&chunks);
            let parsed: Vec<(usize, Value)> =
                found.iter().map(|(index, text)| (*index, serde_json::from_str(text).unwrap())).collect();
            let wanted = expected_values(&value);
            prop_assert_eq!(parsed.len(), wanted.len());
            prop_assert!(wanted.iter().all(|item| parsed.contains(item)), "{:?} {:?}", parsed, wanted);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..40) {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            found(&chunks);
        }
    }
}
