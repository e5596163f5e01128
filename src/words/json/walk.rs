//! Iterates over JSON text that is proven valid: the members of an object, the items of a list.
//!
//! Builds nothing and checks nothing again. Strings are skipped, so a body of a megabyte costs little more than the
//! search for its quotes. On invalid text the iteration ends early or yields arbitrary parts, but never panics.

/// The items of a list, as JSON texts.
#[derive(Debug, Clone)]
pub struct Items<'a> {
    text: &'a [u8],
    at: usize,
}

/// The members of an object: the name between its quotes, escapes not resolved, and the value as JSON text.
#[derive(Debug, Clone)]
pub struct Members<'a> {
    text: &'a [u8],
    at: usize,
}

/// The items of a list; `None` if the text is no list. It must not begin with white space.
pub fn items(text: &[u8]) -> Option<Items<'_>> {
    text.starts_with(b"[").then_some(Items { text, at: 1 })
}

/// The members of an object; `None` if the text is no object. It must not begin with white space.
pub fn members(text: &[u8]) -> Option<Members<'_>> {
    text.starts_with(b"{").then_some(Members { text, at: 1 })
}

impl<'a> Items<'a> {
    /// Where the last item ended in the list's text, in bytes.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Steps to the next item and hands over its members: a caller who wants them all passes over each item once, and
    /// not once for its end and once more for its members. `Some(false)` when the item is no object.
    pub(crate) fn next_members(&mut self, mut each: impl FnMut(&'a [u8], &'a [u8])) -> Option<bool> {
        let start = next_token(self.text, self.at)?;
        if self.text.get(start) != Some(&b'{') {
            return self.next().map(|_| false);
        }
        let mut members = Members { text: self.text, at: start + 1 };
        for (name, value) in &mut members {
            each(name, value);
        }
        let end = next_token(self.text, members.at)?;
        self.at = end + 1;
        (self.text.get(end) == Some(&b'}')).then_some(true)
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = next_token(self.text, self.at)?;
        let end = value_end(self.text, start).filter(|end| *end > start)?;
        self.at = end;
        self.text.get(start..end)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let quote = next_token(self.text, self.at)?;
        if self.text.get(quote) != Some(&b'"') {
            return None;
        }
        let name_end = string_end(self.text, quote)?;
        let start = next_token(self.text, name_end)?;
        let end = value_end(self.text, start).filter(|end| *end > start)?;
        self.at = end;
        Some((self.text.get(quote + 1..name_end - 1)?, self.text.get(start..end)?))
    }
}

/// Where the next name or value begins, behind white space, commas and colons.
fn next_token(text: &[u8], at: usize) -> Option<usize> {
    let between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':');
    text.get(at..)?.iter().position(|byte| !between(byte)).map(|skipped| at + skipped)
}

/// Behind the value that begins at `at`; `None` if the text ends before.
pub(crate) fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => nested_end(text, at),
        _ => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
            let rest = text.get(at..)?;
            Some(at + rest.iter().position(ends).unwrap_or(rest.len()))
        }
    }
}

fn nested_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Behind the closing quote of the string that begins at `at`.
pub(super) fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let found = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        match text.get(found)? {
            b'"' => return Some(found + 1),
            _ => from = found + 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn texts<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<&'a str> {
        parts.map(|part| std::str::from_utf8(part).unwrap()).collect()
    }

    #[test]
    fn items_and_members_keep_their_exact_text() {
        let list = br#"[ 1 ,"a,]\"\\" , {"x":[1,{"y":"}"}]}, [] ,null,true , -1.5e3]"#;
        let wanted = ["1", r#""a,]\"\\""#, r#"{"x":[1,{"y":"}"}]}"#, "[]", "null", "true", "-1.5e3"];
        assert_eq!(texts(items(list).unwrap()), wanted);
        let object = br#"{ "a" : 1,"b\"c":"x" , "":{} }"#;
        let names = texts(members(object).unwrap().map(|(name, _)| name));
        let values = texts(members(object).unwrap().map(|(_, value)| value));
        assert_eq!((names, values), (vec!["a", r#"b\"c"#, ""], vec!["1", r#""x""#, "{}"]));
        assert!(items(b"{}").is_none() && members(b"[]").is_none());
        assert_eq!((items(b"[]").unwrap().count(), members(b"{}").unwrap().count()), (0, 0));
    }

    fn value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,60}".prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map(".{0,4}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    /// Items and members in one walk, as [`Items::next_members`] gives them.
    fn rebuilt_once(text: &[u8]) -> Option<Vec<Option<Pairs>>> {
        let mut items = items(text)?;
        let mut all = Vec::new();
        loop {
            let mut members = Vec::new();
            match items.next_members(|name, value| members.push((name.to_vec(), value.to_vec()))) {
                Some(is_object) => all.push(is_object.then_some(members)),
                None => return Some(all),
            }
        }
    }

    fn rebuilt(text: &[u8]) -> Value {
        if let Some(items) = items(text) {
            return items.map(rebuilt).collect();
        }
        let Some(members) = members(text) else { return serde_json::from_slice(text).unwrap() };
        let name = |raw: &[u8]| {
            let quoted = [b"\"", raw, b"\""].concat();
            serde_json::from_slice::<String>(&quoted).unwrap()
        };
        Value::Object(members.map(|(raw, value)| (name(raw), rebuilt(value))).collect())
    }

    proptest! {
        #[test]
        fn a_walk_finds_what_a_parser_finds(value in value(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
            let text = text.unwrap();
            let twice = items(&text).map(|items| {
                let pair = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
                items.map(|item| members(item).map(|members| members.map(pair).collect())).collect()
            });
            prop_assert_eq!(rebuilt_once(&text), twice);
            prop_assert_eq!(rebuilt(&text), value);
        }

        #[test]
        fn nonsense_ends(text in prop::collection::vec(prop::sample::select(&b"[]{}\",:\\ 1a"[..]), 0..40)) {
            let most = text.len() + 1;
            prop_assert!(items(&text).map_or(0, Iterator::count) <= most);
            prop_assert!(rebuilt_once(&text).map_or(0, |items| items.len()) <= most);
            prop_assert!(members(&text).map_or(0, Iterator::count) <= most);
        }
    }
}
