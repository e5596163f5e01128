//! Frames a stream of Gemini's events as the JSON list that `streamGenerateContent` sends without `alt=sse`.
//!
//! Only the framing: each event's data is an element as it is. A list that breaks off has no closing bracket.

use crate::api::sse::{Run, SseParser};

/// The list of one response: bytes of a stream of events in, bytes of the list out.
#[derive(Debug, Default)]
pub struct ListFraming {
    events: SseParser,
    has_elements: bool,
}

impl ListFraming {
    /// Takes the next bytes of the stream and appends the elements that are complete.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let run = self.events.push(bytes);
        Self::elements(&run, &mut self.has_elements, out);
        // What keeps a silent connection alive: white space between elements.
        if out.is_empty() && bytes.iter().all(u8::is_ascii_whitespace) {
            out.extend_from_slice(bytes);
        }
    }

    /// The stream is complete.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let run = self.events.finish();
        Self::elements(&run, &mut self.has_elements, out);
        out.extend_from_slice(if self.has_elements { b"\n]" } else { b"[]" });
    }

    fn elements(run: &Run<'_>, has_elements: &mut bool, out: &mut Vec<u8>) {
        for data in run.events().filter_map(|event| event.data) {
            out.extend_from_slice(if *has_elements { b"\n,\r\n" } else { b"[" });
            out.extend_from_slice(&data);
            *has_elements = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(chunks: &[&str]) -> Vec<String> {
        let mut framing = ListFraming::default();
        let mut list: Vec<String> = chunks
            .iter()
            .map(|chunk| {
                let mut out = Vec::new();
                framing.push(chunk.as_bytes(), &mut out);
                String::from_utf8(out).unwrap()
            })
            .collect();
        let mut out = Vec::new();
        framing.finish(&mut out);
        list.push(String::from_utf8(out).unwrap());
        list
    }

    #[test]
    fn each_event_is_an_element_when_it_is_complete() {
        let chunks =
            ["data: {\"a\":1}\n\nda", "ta: {\"a\":\r\ndata: 2}\r\n\r\n", "\n", ": x\n\n", "data: {\"a\":3}"];
        assert_eq!(
            framed(&chunks),
            ["[{\"a\":1}", "\n,\r\n{\"a\":\n2}", "\n", "", "", "\n,\r\n{\"a\":3}\n]"]
        );
        let whole: Vec<serde_json::Value> = serde_json::from_str(&framed(&chunks).concat()).unwrap();
        assert_eq!(whole.len(), 3);
        assert_eq!(framed(&[]).concat(), "[]");
        assert_eq!(framed(&["\n", "data: 1\n\n"]).concat(), "\n[1\n]");
    }
}
