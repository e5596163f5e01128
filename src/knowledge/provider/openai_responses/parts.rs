//! The parts of messages and of tools' results in the form of the Responses API.

use crate::provider::openai_chat::Url;
use crate::provider::openai_chat::cache_marks::EXPLICIT;
use std::fmt;
use words::api::chat::{File, Image, Message, Part, Source};
use words::api::part_members::BREAKPOINT;
use words::error::Error;
use words::json::write::{ObjectWriter, key};

/// A list of parts that is being written.
pub(super) struct PartList<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
    /// The prompt's cache may end with the part that is written next.
    pub marks_next: bool,
}

/// Whether the prompt's cache may end with this part of a message; its own mark is that of its last part.
pub(super) fn is_marked(message: &Message<'_>, index: usize) -> bool {
    let of_part = match message.content.get(index) {
        Some(Part::Text { cache_control, .. }) => cache_control.is_some(),
        Some(Part::Image(image)) => image.cache_control.is_some(),
        Some(Part::File(file)) => file.cache_control.is_some(),
        _ => false,
    };
    of_part || (message.cache_control.is_some() && index + 1 == message.content.len())
}

pub(super) fn has_marks(message: &Message<'_>) -> bool {
    (0..message.content.len()).any(|index| is_marked(message, index))
}

impl<'o> PartList<'o> {
    pub fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'[');
        Self { out, is_empty: true, marks_next: false }
    }

    pub fn close(self) {
        self.out.push(b']');
    }

    /// Writes a part of this type.
    pub fn part(&mut self, kind: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        let mark = std::mem::take(&mut self.marks_next).then_some(EXPLICIT);
        let mut part = ObjectWriter::open(self.out);
        part.text(key!("type"), kind);
        fill(&mut part);
        part.optional_raw(BREAKPOINT, mark);
        part.close();
    }

    pub fn text(&mut self, kind: &str, text: &str) {
        self.part(kind, |part| part.text(key!("text"), text));
    }

    /// Writes a part of the input: text, a picture or a document. `is_result`: of a tool, where any other kind is passed on as JSON text.
    ///
    /// # Errors
    /// 400 for what the API has no part for.
    pub fn input(&mut self, part: &Part<'_>, is_result: bool, at: fmt::Arguments<'_>) -> Result<(), Error> {
        match part {
            Part::Text { text, .. } | Part::Refusal(text) if text.is_empty() => {}
            Part::Text { text, .. } | Part::Refusal(text) => self.text("input_text", text),
            Part::Image(image) => self.image(image, at)?,
            Part::File(file) => self.file(file),
            Part::Other { json, .. } if is_result => self.text("input_text", json.get()),
            Part::Other { kind, .. } => return Err(refused(kind, at)),
            Part::Audio { .. } => return Err(refused("audio", at)),
            Part::Reasoning { .. } | Part::Redacted { .. } | Part::ToolCall(_) => {}
        }
        Ok(())
    }

    fn image(&mut self, image: &Image<'_>, at: fmt::Arguments<'_>) -> Result<(), Error> {
        let source = match &image.source {
            Source::Url { url, .. } => Ok(Url::Plain(url)),
            Source::Data { media_type, data } => Ok(Url::Data(media_type, data)),
            Source::Id(id) => Err(id),
            Source::Text(_) => return Err(refused("text as a picture", at)),
        };
        let detail = image.detail.as_deref().unwrap_or("auto");
        self.part("input_image", |part| {
            match &source {
                Ok(url) => url_member(part, "image_url", url),
                Err(id) => part.text(key!("file_id"), id),
            }
            part.text(key!("detail"), detail);
        });
        Ok(())
    }

    fn file(&mut self, file: &File<'_>) {
        let name = file.name.as_deref();
        match &file.source {
            Source::Text(text) => match name {
                Some(name) => self.text("input_text", &format!("{name}:\n{text}")),
                None => self.text("input_text", text),
            },
            Source::Url { url, .. } => self.part("input_file", |part| part.text(key!("file_url"), url)),
            Source::Id(id) => self.part("input_file", |part| part.text(key!("file_id"), id)),
            Source::Data { media_type, data } => self.part("input_file", |part| {
                // The API requires a name with the bytes.
                part.text(key!("filename"), name.unwrap_or("document.pdf"));
                url_member(part, "file_data", &Url::Data(media_type, data));
            }),
        }
    }
}

/// Writes an address, or bytes as one, without a copy of a large picture.
fn url_member(part: &mut ObjectWriter<'_>, name: &str, url: &Url<'_>) {
    // Cannot fail: the output is a `Vec`, and a text always serializes.
    let _ = serde_json::to_writer(part.name(name), url);
}

fn refused(kind: &str, at: fmt::Arguments<'_>) -> Error {
    Error::invalid_request(at.to_string(), format!("{at}: this provider takes no {kind} here."))
}
