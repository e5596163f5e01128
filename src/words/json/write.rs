//! Writes JSON objects member by member: access lines, and bodies that are put together from parts.
//!
//! Not a serializer: an access line is written for every request, and a general serializer escapes the same thirty
//! names each time and costs four times as much. Members appear in the order in which they are written. Nothing checks
//! that a name is written once, or that JSON text passed in is valid.
//!
//! ```text
//! let mut line = ObjectWriter::open(&mut out);
//! line.number(key!("status"), 200);          // a literal name: {"status":200
//! line.raw(name, "[1]");                      // any other name is escaped: ,"a\"b":[1]
//! line.close();                               // }
//! ```

use super::word::stops_in;
use std::net::IpAddr;
use std::time::Duration;

/// The name of a member, ready to be written: with its quotes, the comma before it and the colon behind it. The literal
/// must not need escapes.
#[macro_export]
macro_rules! key {
    ($name:literal) => {
        $crate::json::write::Key(concat!(",\"", $name, "\":"))
    };
}
pub use crate::key;

/// A name made by [`key!`].
#[derive(Debug, Clone, Copy)]
pub struct Key(pub &'static str);

/// The name of a member: a [`Key`], or a text that is escaped.
pub trait Name {
    /// Writes the name with its colon, and the comma before it unless it is the first.
    fn write(self, first: bool, out: &mut Vec<u8>);
}

impl Name for Key {
    fn write(self, first: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes().get(usize::from(first)..).unwrap_or_default());
    }
}

impl Name for &str {
    fn write(self, first: bool, out: &mut Vec<u8>) {
        if !first {
            out.push(b',');
        }
        write_string(out, self);
        out.push(b':');
    }
}

/// An open JSON object at the end of a buffer.
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> ObjectWriter<'a> {
    pub fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    pub fn close(self) {
        self.out.push(b'}');
    }

    /// Writes a name and returns the buffer, to which the value must be appended.
    pub fn name(&mut self, name: impl Name) -> &mut Vec<u8> {
        name.write(std::mem::take(&mut self.first), self.out);
        self.out
    }

    pub fn text(&mut self, name: impl Name, text: &str) {
        write_string(self.name(name), text);
    }

    /// Writes nothing if there is no text.
    pub fn optional_text(&mut self, name: impl Name, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    pub fn number(&mut self, name: impl Name, number: u64) {
        write_number(self.name(name), number);
    }

    pub fn address(&mut self, name: impl Name, address: IpAddr) {
        let IpAddr::V4(address) = address else { return self.text(name, &address.to_string()) };
        let out = self.name(name);
        for (index, octet) in address.octets().into_iter().enumerate() {
            out.push(if index == 0 { b'"' } else { b'.' });
            write_number(out, octet.into());
        }
        out.push(b'"');
    }

    pub fn flag(&mut self, name: impl Name, flag: bool) {
        self.name(name).extend_from_slice(if flag { b"true" } else { b"false" });
    }

    /// Milliseconds with three decimals.
    pub fn millis(&mut self, name: impl Name, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let out = self.name(name);
        write_number(out, micros / 1000);
        let rest = micros % 1000;
        let digit = |number: u64| b'0' + (number % 10) as u8;
        out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }

    /// A value that is valid JSON text already.
    pub fn raw(&mut self, name: impl Name, json: &str) {
        self.name(name).extend_from_slice(json.as_bytes());
    }

    /// Writes nothing if there is no JSON text.
    pub fn optional_raw(&mut self, name: impl Name, json: Option<&str>) {
        if let Some(json) = json {
            self.raw(name, json);
        }
    }

    pub fn object(&mut self, name: impl Name, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        let mut inner = ObjectWriter::open(self.name(name));
        fill(&mut inner);
        inner.close();
    }

    /// A list of objects.
    pub fn list<T>(&mut self, name: impl Name, items: &[T], fill: impl Fn(&mut ObjectWriter<'_>, &T)) {
        let out = self.name(name);
        out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let mut inner = ObjectWriter::open(out);
            fill(&mut inner, item);
            inner.close();
        }
        out.push(b']');
    }
}

/// Writes a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    if is_plain(text.as_bytes()) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing a string into a Vec cannot fail.
        let _ = serde_json::to_writer(&mut *out, text);
    }
}

/// Whether a JSON string holds this text as it stands.
fn is_plain(text: &[u8]) -> bool {
    let (chunks, _) = text.as_chunks::<8>();
    // The last word may overlap the one before it.
    let Some(last) = text.last_chunk::<8>() else {
        return text.iter().all(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    };
    let stops = chunks.iter().fold(stops_in(u64::from_le_bytes(*last)), |stops, chunk| {
        stops | stops_in(u64::from_le_bytes(*chunk))
    });
    stops == 0
}

/// Adds a number to a text, without the cost of a formatter.
pub fn push_number(text: &mut String, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
}

/// Adds a number to bytes.
pub fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn strings_of_every_length_are_written_as_serde_writes_them() {
        for length in 0..40 {
            let plain = "x".repeat(length);
            let one_other = (0..length).flat_map(|at| {
                let plain = &plain;
                ["\"", "\\", "\n", "\u{1f}", "\u{7f}", "\u{e9}"].map(move |other| {
                    let mut text = plain.clone();
                    text.replace_range(at..=at, other);
                    text
                })
            });
            for text in one_other.chain([plain.clone()]) {
                let mut out = Vec::new();
                write_string(&mut out, &text);
                assert_eq!(out, serde_json::to_vec(&text).unwrap(), "{text:?}");
            }
        }
    }

    #[test]
    fn written_objects_are_valid_json() {
        let mut out = Vec::new();
        let mut line = ObjectWriter::open(&mut out);
        line.text(key!("plain"), "a b");
        line.text(key!("odd"), "\"\\\u{1}ü\n");
        line.optional_text(key!("absent"), None);
        line.number(key!("zero"), 0);
        line.number(key!("most"), u64::MAX);
        line.address(key!("v4"), IpAddr::from([127, 0, 10, 255]));
        line.address(key!("v6"), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
        line.flag(key!("yes"), true);
        line.millis(key!("time"), Duration::from_micros(1_002_030));
        line.raw(key!("raw"), r#"{"x":[1]}"#);
        line.object(key!("inner"), |inner| inner.number(key!("n"), 12));
        line.list(key!("items"), &[1, 2], |inner, item| inner.number(key!("i"), *item));
        line.list(key!("none"), &[0; 0], |_, _| {});
        line.raw("a\"b", "1");
        line.close();
        let value: Value = serde_json::from_slice(&out).unwrap();
        let wanted = json!({
            "plain": "a b", "odd": "\"\\\u{1}ü\n", "zero": 0, "most": u64::MAX, "v4": "127.0.10.255", "v6": "::1", "yes": true,
            "time": 1002.03, "raw": {"x": [1]}, "inner": {"n": 12}, "items": [{"i": 1}, {"i": 2}], "none": [], "a\"b": 1
        });
        assert_eq!(value, wanted);
    }

    #[test]
    fn commas_stand_between_members_only() {
        let written = |members: &[(&str, &str)]| {
            let mut out = Vec::new();
            let mut object = ObjectWriter::open(&mut out);
            members.iter().for_each(|(name, json)| object.raw(*name, json));
            object.close();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(&[]), "{}");
        assert_eq!(written(&[("a", "1"), ("b", "{}"), ("c\n", "null")]), r#"{"a":1,"b":{},"c\n":null}"#);
    }
}
