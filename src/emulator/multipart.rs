//! Multipart forms, parsed while they arrive: fields and the start of files, in constant memory.
//!
//! Not a general MIME parser: no nested parts, no transfer encodings.

use super::body::Disconnect;
use super::reply::ApiError;
use super::request_body::RequestBody;
use http::header;
use http::request::Parts;
use memchr::memmem;

/// How many bytes of a part are kept. The rest is only counted.
const MAX_KEPT_BYTES: usize = 1 << 20;
const MAX_PARTS: usize = 64;
const MAX_HEAD: usize = 8 * 1024;

/// One part of a form.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) filename: Option<String>,
    /// All bytes of the part, kept or not.
    pub(super) length: u64,
    /// Its first bytes.
    pub(super) kept: Vec<u8>,
}

/// A parsed form.
#[derive(Debug)]
pub(super) struct Form(Vec<Field>);

impl Form {
    /// The field with this name.
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|field| field.name == name)
    }

    /// A field's text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(&self.field(name)?.kept).ok()
    }
}

/// Reads the body to its end, even if it turns out not to be a form.
pub(super) async fn read(
    parts: &Parts,
    request_body: &mut RequestBody,
) -> Result<Result<Form, ApiError>, Disconnect> {
    let kind =
        parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = kind.split_once("boundary=").map(|(_, rest)| rest.split(';').next().unwrap_or(rest));
    let Some(boundary) = boundary.filter(|_| kind.starts_with("multipart/form-data")) else {
        request_body.drain().await?;
        return Ok(Err(ApiError::bad("Expected a multipart/form-data body with a boundary.")));
    };
    let mut parser = Parser::new(boundary.trim().trim_matches('"'));
    let mut problem = None;
    while let Some(bytes) = request_body.next().await? {
        if problem.is_none() {
            problem = parser.push(&bytes).err();
        }
    }
    Ok(match problem.map_or_else(|| parser.finish(), Err) {
        Ok(form) => Ok(form),
        Err(problem) => Err(ApiError::bad(format!("The multipart body is malformed: {problem}."))),
    })
}

#[derive(Debug, PartialEq)]
enum Place {
    Preamble,
    /// After a boundary: either the headers of a part or the end follows.
    Edge,
    Headers,
    Content,
    End,
}

struct Parser {
    /// Line break, two dashes, boundary.
    delimiter: Vec<u8>,
    /// Bytes not yet classified: never more than a chunk and a delimiter.
    held: Vec<u8>,
    place: Place,
    fields: Vec<Field>,
}

impl Parser {
    fn new(boundary: &str) -> Self {
        Self {
            delimiter: format!("\r\n--{boundary}").into(),
            // The first boundary has no line break before it, so one is prepended.
            held: b"\r\n".to_vec(),
            place: Place::Preamble,
            fields: Vec::new(),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.held.extend_from_slice(bytes);
        while self.step()? {}
        Ok(())
    }

    /// Parses one element; returns false if more bytes are needed.
    fn step(&mut self) -> Result<bool, &'static str> {
        match self.place {
            Place::Preamble | Place::Content => {
                let found = memmem::find(&self.held, &self.delimiter);
                let safe = found.unwrap_or((self.held.len() + 1).saturating_sub(self.delimiter.len()));
                if self.place == Place::Content {
                    self.keep_content(safe);
                }
                let used = if found.is_some() { safe + self.delimiter.len() } else { safe };
                self.held.drain(..used);
                if found.is_some() {
                    self.place = Place::Edge;
                }
                Ok(found.is_some())
            }
            Place::Edge => {
                self.place = match self.held.get(..2) {
                    None => return Ok(false),
                    Some(b"--") => Place::End,
                    Some(b"\r\n") => Place::Headers,
                    Some(_) => return Err("a boundary is not followed by a line break"),
                };
                Ok(true)
            }
            Place::Headers => {
                let Some(end) = memmem::find(&self.held, b"\r\n\r\n") else {
                    let long = self.held.len() > MAX_HEAD;
                    return if long { Err("the head of a part is too long") } else { Ok(false) };
                };
                let parts: Vec<u8> = self.held.drain(..end + 4).collect();
                let parts = String::from_utf8_lossy(&parts).into_owned();
                if self.fields.len() == MAX_PARTS {
                    return Err("too many parts");
                }
                let name = attribute(&parts, "name").ok_or("a part has no name")?;
                let filename = attribute(&parts, "filename");
                self.fields.push(Field { name, filename, length: 0, kept: Vec::new() });
                self.place = Place::Content;
                Ok(true)
            }
            Place::End => {
                self.held.clear();
                Ok(false)
            }
        }
    }

    fn keep_content(&mut self, length: usize) {
        let Some(field) = self.fields.last_mut() else { return };
        field.length += length as u64;
        let room = MAX_KEPT_BYTES.saturating_sub(field.kept.len()).min(length);
        field.kept.extend_from_slice(self.held.get(..room).unwrap_or_default());
    }

    fn finish(self) -> Result<Form, &'static str> {
        if self.place == Place::End { Ok(Form(self.fields)) } else { Err("it ends too early") }
    }
}

/// A quoted attribute of the Content-Disposition line.
fn attribute(parts: &str, name: &str) -> Option<String> {
    let line = parts.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
    let (_, rest) =
        line.split_once(&format!(" {name}=\"")).or_else(|| line.split_once(&format!(";{name}=\"")))?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "--xx\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--xx\r\n\
        content-disposition: form-data; filename=\"a.jsonl\"; name=\"file\"\r\nContent-Type: text/plain\r\n\r\n\
        one\r\n--x\r\n\r\ntwo\r\n--xx--\r\n";

    fn read(form: &str, size: usize) -> Result<Form, &'static str> {
        let mut parser = Parser::new("xx");
        for chunk in form.as_bytes().chunks(size) {
            parser.push(chunk)?;
        }
        parser.finish()
    }

    #[test]
    fn chunks_may_be_cut_anywhere() {
        for size in 1..FORM.len() {
            let form = read(FORM, size).unwrap();
            assert_eq!(form.text("purpose"), Some("batch"), "{size}");
            let file = form.field("file").unwrap();
            assert_eq!(file.filename.as_deref(), Some("a.jsonl"));
            assert_eq!((file.length, file.kept.as_slice()), (15, &b"one\r\n--x\r\n\r\ntwo"[..]), "{size}");
        }
    }

    #[test]
    fn long_files_are_counted_but_truncated() {
        let mut parser = Parser::new("xx");
        parser.push(b"--xx\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n").unwrap();
        for _ in 0..64 {
            parser.push(&[7; 65536]).unwrap();
            assert!(parser.held.len() < 10);
        }
        parser.push(b"\r\n--xx--").unwrap();
        let form = parser.finish().unwrap();
        let file = form.field("file").unwrap();
        assert_eq!((file.length, file.kept.len()), (64 * 65536, MAX_KEPT_BYTES));
    }

    #[test]
    fn malformed_forms_are_refused() {
        let unended = FORM.trim_end_matches("--xx--\r\n");
        for form in ["", "--xx", "--xx\r\nX: y\r\n\r\nz\r\n--xx--", "--xxyy\r\n", unended] {
            assert!(read(form, 1000).is_err(), "{form}");
        }
    }
}
