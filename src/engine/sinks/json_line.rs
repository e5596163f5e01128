//! Writes one JSON object into a buffer, member by member: the access line's pen.
//!
//! By hand, because a line is written for every request: a general serializer escapes the same thirty names
//! each time and costs four times as much. Not for anything a caller gets.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

/// The name of a member, ready to be written: with its quotes, the comma before it and the colon behind it.
macro_rules! key {
    ($name:literal) => {
        $crate::engine::sinks::json_line::Key(concat!(",\"", $name, "\":"))
    };
}
pub(super) use key;

/// See [`key`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Key(pub(super) &'static str);

/// An open JSON object.
pub(super) struct JsonLine<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> JsonLine<'a> {
    pub fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    pub fn close(self) {
        self.out.push(b'}');
    }

    fn name(&mut self, name: Key) -> &mut Vec<u8> {
        let comma = usize::from(std::mem::take(&mut self.first));
        self.out.extend_from_slice(name.0.as_bytes().get(comma..).unwrap_or_default());
        self.out
    }

    pub fn text(&mut self, name: Key, text: &str) {
        write_text(self.name(name), text);
    }

    /// Nothing at all where there is no text.
    pub fn optional_text(&mut self, name: Key, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    pub fn number(&mut self, name: Key, number: u64) {
        write_number(self.name(name), number);
    }

    pub fn address(&mut self, name: Key, address: IpAddr) {
        let IpAddr::V4(address) = address else { return self.text(name, &address.to_string()) };
        let out = self.name(name);
        for (index, octet) in address.octets().into_iter().enumerate() {
            out.push(if index == 0 { b'"' } else { b'.' });
            write_number(out, octet.into());
        }
        out.push(b'"');
    }

    pub fn flag(&mut self, name: Key, flag: bool) {
        self.name(name).extend_from_slice(if flag { b"true" } else { b"false" });
    }

    /// Milliseconds with three decimals.
    pub fn millis(&mut self, name: Key, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let out = self.name(name);
        write_number(out, micros / 1000);
        let rest = micros % 1000;
        let digit = |number: u64| b'0' + (number % 10) as u8;
        out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }

    /// JSON text that is valid already.
    pub fn raw(&mut self, name: Key, json: &str) {
        self.name(name).extend_from_slice(json.as_bytes());
    }

    pub fn object(&mut self, name: Key, fill: impl FnOnce(&mut JsonLine<'_>)) {
        let mut inner = JsonLine::open(self.name(name));
        fill(&mut inner);
        inner.close();
    }

    /// A list of objects.
    pub fn list<T>(&mut self, name: Key, items: &[T], fill: impl Fn(&mut JsonLine<'_>, &T)) {
        let out = self.name(name);
        out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let mut inner = JsonLine::open(out);
            fill(&mut inner, item);
            inner.close();
        }
        out.push(b']');
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    let plain = |byte: u8| (byte >= 0x20) & (byte != b'"') & (byte != b'\\');
    // To the end in any case, which lets many bytes be looked at together.
    if text.bytes().fold(true, |all, byte| all & plain(byte)) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing a string into a Vec cannot fail.
        let _ = serde_json::to_writer(&mut *out, text);
    }
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0u8; 20];
    let mut left = number;
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        used += 1;
        if left == 0 {
            break;
        }
    }
    let _ = out.write_all(digits.get(digits.len() - used..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn written_lines_are_valid_json() {
        let mut out = Vec::new();
        let mut line = JsonLine::open(&mut out);
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
        line.close();
        let value: Value = serde_json::from_slice(&out).unwrap();
        let wanted = json!({
            "plain": "a b", "odd": "\"\\\u{1}ü\n", "zero": 0, "most": u64::MAX, "v4": "127.0.10.255", "v6": "::1", "yes": true,
            "time": 1002.03, "raw": {"x": [1]}, "inner": {"n": 12}, "items": [{"i": 1}, {"i": 2}], "none": []
        });
        assert_eq!(value, wanted);
    }
}
