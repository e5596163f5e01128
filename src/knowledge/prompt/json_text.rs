//! JSON that is rendered as text: a template that is no JSON before its tags are replaced.
//!
//! Follows the JSON as it is written, so that each value is escaped once inside a string and inserted as JSON outside of one.
//! Does not check the JSON; what comes out is parsed afterwards.

use super::partial::Partial;
use super::renderer::{Renderer, Sink, template_error};
use super::scope::text;
use serde_json::Value;
use serde_json::value::RawValue;
use words::error::Error;
use words::json::write::write_string;

/// The JSON written so far, and where in it the end is.
#[derive(Debug, Default)]
pub(crate) struct JsonText {
    pub out: String,
    in_string: bool,
    /// After a backslash in a string.
    is_escaped: bool,
    /// The brackets that are open, the innermost last.
    open: Vec<u8>,
    /// Whether the next comma is left out: an empty list stands before it, and nothing before that.
    drops_comma: bool,
}

impl JsonText {
    /// An empty text that stands at the same place.
    fn fragment(&self) -> Self {
        Self { open: self.open.last().copied().into_iter().collect(), ..Self::default() }
    }

    /// Whether an item of a list may stand here.
    fn is_in_list(&self) -> bool {
        self.open.last() == Some(&b'[')
    }

    fn follow(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'[' | b'{' => self.open.push(byte),
                b']' | b'}' => {
                    self.open.pop();
                }
                _ => {}
            }
        }
        self.out.push_str(text);
    }

    /// Leaves out the comma before or after this place, and the blanks before it, which mean nothing outside of strings: they would be
    /// looked at again for each item that is left out.
    fn no_item(&mut self) {
        let written = self.out.trim_end();
        match written.strip_suffix(',') {
            Some(before) => self.out.truncate(before.trim_end().len()),
            None => {
                self.out.truncate(written.len());
                self.drops_comma = true;
            }
        }
    }

    /// Inserts JSON outside of a string. The items of a list become items of the list it stands in.
    fn insert(&mut self, json: &str) {
        let json = json.trim();
        let items: Option<Vec<&RawValue>> =
            if self.is_in_list() && json.starts_with('[') { serde_json::from_str(json).ok() } else { None };
        match items {
            Some(items) if items.is_empty() => self.no_item(),
            None if json.is_empty() && self.is_in_list() => self.no_item(),
            None if json.is_empty() => self.out.push_str("null"),
            Some(items) => {
                self.drops_comma = false;
                let items: Vec<&str> = items.into_iter().map(RawValue::get).collect();
                self.out.push_str(&items.join(","));
            }
            None => {
                self.drops_comma = false;
                self.out.push_str(json);
            }
        }
    }

    /// Inserts text into the string that is open.
    fn insert_escaped(&mut self, text: &str) -> Result<(), Error> {
        if self.is_escaped {
            return Err(template_error("a backslash stands before a tag"));
        }
        let mut quoted = Vec::with_capacity(text.len() + 2);
        write_string(&mut quoted, text);
        let quoted = String::from_utf8(quoted).unwrap_or_default();
        self.out
            .push_str(quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default());
        Ok(())
    }
}

impl Sink for JsonText {
    fn literal(&mut self, text: &str) {
        if !self.drops_comma || self.in_string {
            return self.follow(text);
        }
        let visible = text.trim_start();
        if !visible.is_empty() {
            self.drops_comma = false;
        }
        self.follow(visible.strip_prefix(',').unwrap_or(visible));
    }

    fn value(&mut self, value: Option<&Value>) -> Result<(), Error> {
        if self.in_string {
            return self.insert_escaped(&text(value));
        }
        match value {
            None => self.insert(""),
            Some(value) => self.insert(&value.to_string()),
        }
        Ok(())
    }

    fn partial<'a>(&mut self, renderer: &mut Renderer<'a>, partial: &'a Partial) -> Result<(), Error> {
        if self.in_string {
            let mut text = String::new();
            renderer.render(&partial.nodes, &mut text)?;
            return self.insert_escaped(&text);
        }
        let mut inside = self.fragment();
        let open = inside.open.clone();
        renderer.render(&partial.nodes, &mut inside)?;
        if inside.in_string || inside.open != open {
            return Err(template_error(
                "a partial outside of a string has a string or a bracket that is not closed",
            ));
        }
        self.insert(&inside.out);
        Ok(())
    }

    fn written(&self) -> usize {
        self.out.len()
    }
}
