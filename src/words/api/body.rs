//! A JSON request body: parsed once into an outline of its top-level members, edited in place.
//!
//! Values stay as the client wrote them: an edit replaces bytes, so digits, key order and unknown fields are kept. Not
//! a DOM: values are read only on demand.

use crate::error::Error;
use crate::json::outline::Outline;
use crate::json::proof::{self, MemberSpan};
use crate::json::splice;
use crate::json::string::unquote;
use crate::json::values;
use crate::json::write::Name;
use bytes::Bytes;
use serde::de::Deserialize;
use std::borrow::Cow;
use std::ops::Range;

/// The most members of a body. Each takes more memory than the shortest members have bytes, and is looked at for each name
/// that is searched for. No API has more than some dozen.
pub const MAX_MEMBERS: usize = 4096;

/// The most JSON values ([`values::count`]) of a body that is read as a chat, or whose messages are changed in places. Each takes
/// some hundred bytes of memory while it is, however short it is. A message with a role and a text is three.
pub const MAX_VALUES: usize = 120_000;

/// A JSON object as it was received, and the positions of its top-level members.
#[derive(Debug, Clone)]
pub struct Body {
    bytes: Bytes,
    members: Vec<Member>,
    /// The union of the [`name_bit`]s of all names. Most lookups find nothing, and need no more than this.
    name_filter: u64,
    is_object: bool,
}

/// One top-level member: byte ranges into the body.
#[derive(Debug, Clone)]
struct Member {
    /// Set only when the name has escapes; otherwise the name is `bytes[name]`.
    unescaped: Option<Box<str>>,
    /// The name between its quotes.
    name: Range<usize>,
    value: Range<usize>,
}

/// A change of one top-level member. Values are JSON text.
#[derive(Debug, Clone)]
pub enum Edit<'a> {
    /// Replaces the member's value, or appends the member where there is none.
    Set(&'a str, Cow<'a, str>),
    /// Removes the member, if there is one.
    Remove(&'a str),
}

impl Body {
    /// Parses the outline of a JSON object.
    ///
    /// # Errors
    /// What is wrong with the text and where: serde_json's message, which quotes no content.
    pub fn parse(bytes: Bytes) -> Result<Self, serde_json::Error> {
        let mut members = Vec::with_capacity(8);
        let mut name_filter = 0;
        let mut too_many = false;
        let proven = proof::outline(&bytes, |MemberSpan { name, value, name_has_escapes }| {
            let unescaped: Option<Box<str>> = if name_has_escapes {
                Some(unquote(bytes.get(name.start - 1..name.end + 1)?)?.into())
            } else {
                None
            };
            let plain = unescaped.as_deref().map_or(bytes.get(name.clone())?, str::as_bytes);
            name_filter |= name_bit(plain);
            if members.len() == MAX_MEMBERS {
                too_many = true;
                return None;
            }
            members.push(Member { unescaped, name, value });
            Some(())
        });
        match proven {
            Some(()) => Ok(Self { bytes, members, name_filter, is_object: true }),
            None if too_many => {
                Err(serde::de::Error::custom(format!("it has more than {MAX_MEMBERS} members")))
            }
            None => Err(parse_error(&bytes)),
        }
    }

    /// A body that is no JSON object (a list, or text whose error the provider shall report): it has no members, and
    /// edits do not change it.
    pub fn opaque(bytes: Bytes) -> Self {
        Self { bytes, members: Vec::new(), name_filter: 0, is_object: false }
    }

    /// Whether it is a JSON object that was read.
    pub fn is_object(&self) -> bool {
        self.is_object
    }

    /// The whole body, exactly as it was received.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether it has more than [`MAX_VALUES`].
    pub(crate) fn has_too_many_values(&self) -> bool {
        values::more_than(&self.bytes, MAX_VALUES)
    }

    /// Refuses a body with more than [`MAX_VALUES`].
    ///
    /// # Errors
    /// 400 that says how many there may be.
    pub fn check_values(&self, provider: &str) -> Result<(), Error> {
        if !self.has_too_many_values() {
            return Ok(());
        }
        let message = format!(
            "The request has more than {MAX_VALUES} JSON values (messages, parts, tools, their schemas, and the members of each), the \
             most that is translated for {provider}. Send fewer."
        );
        Err(Error::invalid_request("messages", message))
    }

    /// Refuses a body with more than [`MAX_VALUES`] of which a part is to be looked for within its members.
    ///
    /// # Errors
    /// 400 that says how many there may be.
    pub fn check_values_for_drops(&self) -> Result<(), Error> {
        if !self.has_too_many_values() {
            return Ok(());
        }
        let message = format!(
            "The request has more than {MAX_VALUES} JSON values, the most among which a config may leave out some by the paths of \
             drop_params. Send fewer."
        );
        Err(Error::invalid_request("messages", message))
    }

    /// Names of all top-level members, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| self.name_of(member))
    }

    /// Names and JSON texts of all top-level members, in order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().map(|member| (self.name_of(member), self.text_at(&member.value)))
    }

    /// The JSON text of a member; the last one if a name occurs twice, as in most JSON parsers.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.find(name).map(|member| self.text_at(&member.value))
    }

    /// The names as the body has them, without the cost of checking them for UTF-8 again.
    pub fn raw_names(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(|member| match &member.unescaped {
            Some(name) => name.as_bytes(),
            None => self.slice(member.name.clone()),
        })
    }

    /// As [`Body::raw`], without the cost of checking a long text for UTF-8 again.
    #[inline]
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.find(name).map(|member| self.slice(member.value.clone()))
    }

    /// As [`Body::value`], of all members of a name that occurs more than once: some JSON parsers take another than the last.
    pub(crate) fn every<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b [u8]> {
        let may_occur = self.name_filter & name_bit(name.as_bytes()) != 0;
        let members = self.members.iter().filter(move |member| may_occur && self.is_named(member, name));
        members.map(|member| self.slice(member.value.clone()))
    }

    /// The text of a member that is a JSON string.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        unquote(self.value(name)?)
    }

    /// Whether a member is literally `true`.
    pub fn is_true(&self, name: &str) -> bool {
        self.value(name) == Some(b"true")
    }

    /// A member deserialized as `T`; `None` if it is absent or of another type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    /// The body with `edits` applied; everything else keeps its bytes.
    pub fn edit(&self, edits: &[Edit<'_>]) -> Bytes {
        if edits.is_empty() || !self.is_object {
            return self.bytes.clone();
        }
        let mut changes: Vec<(Range<usize>, Cow<'_, [u8]>)> = Vec::with_capacity(edits.len() + 1);
        let mut kept = 0;
        for (index, member) in self.members.iter().enumerate() {
            let name = self.name_of(member);
            match edits.iter().find(|edit| edit.name() == name) {
                None => kept += 1,
                Some(Edit::Set(_, value)) => {
                    kept += 1;
                    changes.push((member.value.clone(), Cow::Borrowed(value.as_bytes())));
                }
                Some(Edit::Remove(_)) => changes.push((self.removal(index, kept), Cow::default())),
            }
        }
        let mut added = Vec::new();
        for edit in edits {
            let Edit::Set(name, value) = edit else { continue };
            if self.find(name).is_none() {
                Name::write(*name, kept == 0, &mut added);
                added.extend_from_slice(value.as_bytes());
                kept += 1;
            }
        }
        let close = self.closing_brace();
        changes.push((close..close, Cow::Owned(added)));
        Bytes::from(splice::apply(&self.bytes, &changes))
    }

    #[inline]
    fn find(&self, name: &str) -> Option<&Member> {
        if self.name_filter & name_bit(name.as_bytes()) == 0 {
            return None;
        }
        self.find_last(name)
    }

    fn find_last(&self, name: &str) -> Option<&Member> {
        self.members.iter().rev().find(|member| self.is_named(member, name))
    }

    fn is_named(&self, member: &Member, name: &str) -> bool {
        match &member.unescaped {
            Some(unescaped) => **unescaped == *name,
            None => member.name.len() == name.len() && self.slice(member.name.clone()) == name.as_bytes(),
        }
    }

    fn name_of<'a>(&'a self, member: &'a Member) -> &'a str {
        match &member.unescaped {
            Some(name) => name,
            None => self.text_at(&member.name),
        }
    }

    fn text_at(&self, range: &Range<usize>) -> &str {
        let text = self.bytes.get(range.clone());
        text.and_then(|text| simdutf8::basic::from_utf8(text).ok()).unwrap_or_default()
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    fn closing_brace(&self) -> usize {
        self.bytes.iter().rposition(|&byte| byte == b'}').unwrap_or(self.bytes.len())
    }

    /// What to cut to take member `index` out, `kept` members before it staying.
    fn removal(&self, index: usize, kept: usize) -> Range<usize> {
        let place = |member: &Member| member.name.start.saturating_sub(1)..member.value.end;
        let before = index.checked_sub(1).and_then(|index| self.members.get(index));
        let after = self.members.get(index + 1);
        let member = self.members.get(index).map(place).unwrap_or_default();
        splice::removal(
            member,
            before.map(|before| place(before).end),
            after.map(|after| place(after).start),
            kept,
        )
    }
}

impl Edit<'_> {
    fn name(&self) -> &str {
        match self {
            Edit::Set(name, _) | Edit::Remove(name) => name,
        }
    }
}

/// What is wrong with a body that is not a JSON object. It is read again for that, which only a refused body costs.
#[cold]
fn parse_error(bytes: &[u8]) -> serde_json::Error {
    let read = serde_json::from_slice::<Outline<'_>>(bytes);
    read.err().unwrap_or_else(|| serde::de::Error::custom("not valid JSON"))
}

/// One of 64 bits, chosen by the name's length, first and last byte, so that the names of usual bodies have few in common with those that are
/// looked for.
#[inline]
fn name_bit(name: &[u8]) -> u64 {
    let first = name.first().copied().unwrap_or_default();
    let last = name.last().copied().unwrap_or_default();
    1 << (((5 * name.len()) ^ (usize::from(last) << 1) ^ (usize::from(first) << 2)) & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Body {
        Body::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn edited(text: &str, edits: &[Edit<'_>]) -> String {
        String::from_utf8(body(text).edit(edits).to_vec()).unwrap()
    }

    #[test]
    fn members_keep_their_exact_text() {
        let body =
            body(r#" {"seed": 9223372036854775807, "top_p":1.0,"mo\u0064el":"a\"b" , "x":{"y":[1]}} "#);
        assert_eq!(body.raw("seed"), Some("9223372036854775807"));
        assert_eq!(body.raw("top_p"), Some("1.0"));
        assert_eq!(body.text("model").as_deref(), Some("a\"b"));
        assert_eq!(body.raw("x"), Some(r#"{"y":[1]}"#));
        assert_eq!(body.raw("absent"), None);
    }

    #[test]
    fn the_last_of_duplicate_members_wins() {
        assert_eq!(body(r#"{"model":"a","model":"b"}"#).text("model").as_deref(), Some("b"));
    }

    #[test]
    fn edits_change_only_the_named_members() {
        let set = |name, value: &'static str| Edit::Set(name, Cow::Borrowed(value));
        let text = "{ \"model\" : \"a\",\n \"n\":1.0 }";
        assert_eq!(edited(text, &[set("model", "\"b\"")]), "{ \"model\" : \"b\",\n \"n\":1.0 }");
        assert_eq!(edited(text, &[set("x", "[1]")]), "{ \"model\" : \"a\",\n \"n\":1.0 ,\"x\":[1]}");
        assert_eq!(edited("{}", &[set("x", "1"), set("y", "2")]), "{\"x\":1,\"y\":2}");
        assert_eq!(edited(r#"{"a":1,"a":2}"#, &[set("a", "3")]), r#"{"a":3,"a":3}"#);
    }

    #[test]
    fn removal_leaves_valid_json_at_every_position() {
        let text = r#"{"a":1, "b":2, "c":3}"#;
        for names in [&["a"][..], &["b"], &["c"], &["a", "b"], &["b", "c"], &["a", "c"], &["a", "b", "c"]] {
            let edits: Vec<_> = names.iter().map(|name| Edit::Remove(name)).collect();
            let out = edited(text, &edits);
            let value: serde_json::Value = serde_json::from_str(&out).expect(&out);
            assert_eq!(value.as_object().unwrap().len(), 3 - names.len(), "{out}");
        }
    }

    #[test]
    fn a_refused_body_is_described_by_serde_json() {
        for text in ["", "[]", "{\"a\":01}", "{\"a\":\"\u{1}\"}", "{\"\\ud800\":1}", "{\"a\":[1,}"] {
            let error = Body::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap_err();
            let expected = serde_json::from_str::<Outline<'_>>(text).err().unwrap();
            assert_eq!(error.to_string(), expected.to_string());
        }
    }

    #[test]
    fn a_body_of_too_many_members_is_rejected() {
        let body = |members: usize| {
            let members: Vec<String> = (0..members).map(|number| format!("\"{number}\":1")).collect();
            Body::parse(format!("{{{}}}", members.join(",")).into())
        };
        assert!(body(MAX_MEMBERS).is_ok());
        let error = body(MAX_MEMBERS + 1).unwrap_err().to_string();
        assert!(error.contains("more than 4096 members"), "{error}");
    }

    #[test]
    fn non_objects_are_rejected() {
        for text in ["", "[]", "1", "{\"a\":}", "{\"a\":1}x", "null"] {
            assert!(Body::parse(Bytes::copy_from_slice(text.as_bytes())).is_err(), "{text}");
        }
    }
}
