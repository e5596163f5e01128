//! Whether the lines of a batch's input file are requests: all of them are checked before the first is sent.
//!
//! Not here: whether a body is a good request for its endpoint; that the engine finds when the line runs, and it is the line's result.

use super::blobs::BlobError;
use super::line_error::{LineError, LineErrors};
use super::lines::{Line, LineReader, MAX_LINE_NUMBER};
use bytes::Bytes;
use futures_util::stream::Stream;
use serde::Deserialize;
use serde_json::value::RawValue;
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// How deep arrays and objects of a line may be nested: as deep as `serde_json` reads.
const MAX_DEPTH: usize = 128;
/// How much of a client's text an error message has, characters.
const MAX_QUOTED: usize = 64;

/// A line that is a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchLine {
    pub custom_id: String,
    /// The bytes of the line's body, an object.
    pub body: Bytes,
}

/// What a whole file came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Validated {
    /// Lines that are requests.
    pub lines: u32,
    /// Empty for a file that can run.
    pub errors: Vec<LineError>,
}

/// Checks a whole file. `further`: what must hold of its requests besides, by the number of their line.
pub async fn validate<S>(
    mut reader: LineReader<S>,
    endpoint: &str,
    max_lines: u32,
    mut further: impl FnMut(u32, &BatchLine) -> Result<(), LineError>,
) -> Result<Validated, BlobError>
where
    S: Stream<Item = Result<Bytes, BlobError>> + Unpin,
{
    let mut validator = Validator::new(endpoint, max_lines);
    let mut errors = LineErrors::new();
    while let Some(line) = reader.next().await? {
        let checked = line.and_then(|line| {
            let read = validator.check(&line)?;
            further(line.number, &read)
        });
        if let Err(error) = checked {
            let ends = error.code == TOO_MANY;
            errors.push(error);
            if ends {
                break;
            }
        }
    }
    let lines = match validator.finish() {
        Ok(lines) => lines,
        Err(error) if errors.is_empty() => {
            errors.push(error);
            0
        }
        Err(_) => 0,
    };
    Ok(Validated { lines, errors: errors.into_vec() })
}

const TOO_MANY: &str = "too_many_tasks";

/// Checks the lines of one file in their order.
pub struct Validator {
    endpoint: String,
    max_lines: u32,
    lines: u32,
    /// Keyed hashes of 128 bits: two different ids never meet in practice, nor by intent. 17 bytes each and at most as
    /// much again for the table's free places: 2.3 MB for 100,000 lines.
    custom_ids: HashSet<u128>,
    keys: (u64, u64),
}

impl Validator {
    /// `endpoint`: the batch's, `/v1/chat/completions`. `max_lines`: how many requests a batch may have.
    pub fn new(endpoint: &str, max_lines: u32) -> Self {
        let random = || RandomState::new().build_hasher().finish();
        let keys = (random(), random());
        Self { endpoint: endpoint.to_owned(), max_lines, lines: 0, custom_ids: HashSet::new(), keys }
    }

    /// The request of this line, or what is wrong with it. A line after the last allowed one is `too_many_tasks`; reading on
    /// is of no use then.
    pub fn check(&mut self, line: &Line) -> Result<BatchLine, LineError> {
        let too_many =
            |message: String| LineError { code: TOO_MANY, message, param: None, line: Some(line.number) };
        if self.lines >= self.max_lines {
            return Err(too_many(format!(
                "The file has more than {} requests, the most a batch of this gateway may have. Split it into several batches.",
                self.max_lines
            )));
        }
        if line.number > MAX_LINE_NUMBER {
            let message =
                format!("The file has more than {MAX_LINE_NUMBER} lines. Leave out its blank lines.");
            return Err(too_many(message));
        }
        let read = read_line(line, &self.endpoint)?;
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        hasher.write(read.custom_id.as_bytes());
        if !self.custom_ids.insert(hasher.finish128().as_u128()) {
            let id = quoted(&read.custom_id);
            let message = format!(
                "The custom_id {id} is a duplicate of that of another line. Give each line an id of its own."
            );
            return Err(wrong(line, "duplicate_custom_id", "custom_id", message));
        }
        self.lines = self.lines.saturating_add(1);
        Ok(read)
    }

    /// How many lines are requests; an error if none is.
    pub fn finish(&self) -> Result<u32, LineError> {
        if self.lines == 0 {
            let message =
                "The file has no request. Each of its lines must be one, as a JSON object.".to_owned();
            return Err(LineError { code: "empty_file", message, param: None, line: None });
        }
        Ok(self.lines)
    }
}

/// The members of a line. Others are ignored, as OpenAI does; one that is there twice is an error.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    custom_id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// The members of a body that the batch itself reads.
#[derive(Deserialize)]
struct BodyMembers<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
}

/// The request of a line, without a look at the other lines.
pub fn read_line(line: &Line, endpoint: &str) -> Result<BatchLine, LineError> {
    let members = members(line)?;
    let custom_id = string(line, "custom_id", members.custom_id)?;
    if custom_id.is_empty() {
        return Err(wrong(
            line,
            "invalid_request",
            "custom_id",
            "The custom_id must not be empty.".to_owned(),
        ));
    }
    let method = string(line, "method", members.method)?;
    if method != "POST" {
        let message = format!("The method of a line must be POST, not {}.", quoted(&method));
        return Err(wrong(line, "invalid_request", "method", message));
    }
    let url = string(line, "url", members.url)?;
    if url != endpoint {
        let message = format!(
            "The URL {} provided for this request does not match the batch endpoint {endpoint}.",
            quoted(&url)
        );
        return Err(wrong(line, "invalid_url", "url", message));
    }
    let body = members.body.ok_or_else(|| missing(line, "body"))?.get();
    check_body(line, body)?;
    Ok(BatchLine { custom_id, body: line.bytes.slice_ref(body.as_bytes()) })
}

fn members(line: &Line) -> Result<Members<'_>, LineError> {
    let invalid = |message: String| LineError {
        code: "invalid_json_line",
        message,
        param: None,
        line: Some(line.number),
    };
    let text = std::str::from_utf8(&line.bytes).map_err(|error| {
        invalid(format!("This line is not valid UTF-8, from its byte {} on.", error.valid_up_to() + 1))
    })?;
    // A struct can also be read from an array.
    let is_object = text.trim_ascii_start().starts_with('{');
    let members = match serde_json::from_str::<Members<'_>>(text) {
        Ok(members) if is_object => members,
        Err(error) if is_object => {
            let why = error.to_string().replace(" at line 1 column ", ", at its byte ");
            return Err(invalid(format!("This line is not parseable as valid JSON: {why}.")));
        }
        _ => {
            let message = "This line is not a JSON object with the members custom_id, method, url and body.";
            return Err(invalid(message.to_owned()));
        }
    };
    if is_too_deep(text.as_bytes()) {
        let message = format!("This line has arrays or objects that are nested more than {MAX_DEPTH} deep.");
        return Err(LineError { code: "invalid_request", ..invalid(message) });
    }
    Ok(members)
}

/// Whether valid JSON is nested too deep.
fn is_too_deep(json: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in json {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Checks what a batch requires of every body.
fn check_body(line: &Line, body: &str) -> Result<(), LineError> {
    let invalid = |param: &'static str, message: String| wrong(line, "invalid_request", param, message);
    if !body.starts_with('{') {
        return Err(invalid("body", "The body must be a JSON object.".to_owned()));
    }
    let members: BodyMembers<'_> = serde_json::from_str(body).map_err(|error| {
        let text = error.to_string();
        let why = text.split(" at line ").next().unwrap_or_default();
        invalid("body", format!("The body cannot be read: {why}."))
    })?;
    if members.stream.is_some_and(|stream| stream.get() != "false") {
        let message = "Streaming is not supported in batches: leave out `stream`, or set it to false.";
        return Err(invalid("body.stream", message.to_owned()));
    }
    // A config may set it as well.
    let Some(model) = members.model else { return Ok(()) };
    let model: Result<String, _> = serde_json::from_str(model.get());
    model.map(drop).map_err(|_| invalid("body.model", "The model must be a string.".to_owned()))
}

fn string(line: &Line, param: &'static str, value: Option<&RawValue>) -> Result<String, LineError> {
    let value = value.ok_or_else(|| missing(line, param))?;
    serde_json::from_str(value.get())
        .map_err(|_| wrong(line, "invalid_request", param, format!("The {param} must be a string.")))
}

fn missing(line: &Line, param: &'static str) -> LineError {
    wrong(line, "missing_required_parameter", param, format!("Missing required parameter: '{param}'."))
}

fn wrong(line: &Line, code: &'static str, param: &'static str, message: String) -> LineError {
    LineError { code, message, param: Some(param), line: Some(line.number) }
}

/// The beginning of a client's text, in quotes.
fn quoted(text: &str) -> String {
    let short: String = text.chars().take(MAX_QUOTED).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{more}")
}

#[cfg(test)]
mod tests;
