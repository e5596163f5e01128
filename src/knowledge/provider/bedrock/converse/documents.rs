//! Pictures, videos, sounds and documents: the Converse format for a media type or a file name.
//!
//! Nothing is fetched and nothing decoded: the base64 passes unchanged.

use super::messages::is_s3;
use super::shape::{Block, Citations, Document, Media, S3Location, Source};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use words::api::chat::{File, Source as From};
use words::error::Error;

/// The longest name of a document, characters.
const MAX_NAME: usize = 200;

/// The Converse format of a file. Source: the enums `ImageFormat`, `VideoFormat`, `AudioFormat`,
/// `DocumentFormat` of the Converse API.
#[derive(Clone, Copy)]
enum Format {
    Image(&'static str),
    Video(&'static str),
    Audio(&'static str),
    Document(&'static str),
}

/// Media type, file extensions, format.
const FORMATS: &[(&str, &[&str], Format)] = &[
    ("image/png", &["png"], Format::Image("png")),
    ("image/jpeg", &["jpg", "jpeg"], Format::Image("jpeg")),
    ("image/gif", &["gif"], Format::Image("gif")),
    ("image/webp", &["webp"], Format::Image("webp")),
    ("video/mp4", &["mp4"], Format::Video("mp4")),
    ("video/quicktime", &["mov"], Format::Video("mov")),
    ("video/x-matroska", &["mkv"], Format::Video("mkv")),
    ("video/webm", &["webm"], Format::Video("webm")),
    ("video/x-flv", &["flv"], Format::Video("flv")),
    ("video/mpeg", &["mpeg", "mpg"], Format::Video("mpeg")),
    ("video/x-ms-wmv", &["wmv"], Format::Video("wmv")),
    ("video/3gpp", &["3gp"], Format::Video("three_gp")),
    ("audio/mpeg", &["mp3"], Format::Audio("mp3")),
    ("audio/mp3", &[], Format::Audio("mp3")),
    ("audio/wav", &["wav"], Format::Audio("wav")),
    ("audio/x-wav", &[], Format::Audio("wav")),
    ("audio/flac", &["flac"], Format::Audio("flac")),
    ("audio/aac", &["aac"], Format::Audio("aac")),
    ("audio/ogg", &["ogg"], Format::Audio("ogg")),
    ("audio/opus", &["opus"], Format::Audio("opus")),
    ("audio/mp4", &["m4a"], Format::Audio("m4a")),
    ("application/pdf", &["pdf"], Format::Document("pdf")),
    ("text/csv", &["csv"], Format::Document("csv")),
    ("application/msword", &["doc"], Format::Document("doc")),
    (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        &["docx"],
        Format::Document("docx"),
    ),
    ("application/vnd.ms-excel", &["xls"], Format::Document("xls")),
    (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        &["xlsx"],
        Format::Document("xlsx"),
    ),
    ("text/html", &["html", "htm"], Format::Document("html")),
    ("text/plain", &["txt"], Format::Document("txt")),
    ("text/markdown", &["md", "markdown"], Format::Document("md")),
];

fn format_by_media_type(media: &str) -> Option<Format> {
    let media = media.split(';').next().unwrap_or_default().trim();
    FORMATS.iter().find(|(listed, ..)| listed.eq_ignore_ascii_case(media)).map(|(.., format)| *format)
}

fn format_by_extension(name: &str) -> Option<Format> {
    let (_, extension) = name.rsplit_once('.')?;
    let matches_any =
        |extensions: &&[&str]| extensions.iter().any(|listed| listed.eq_ignore_ascii_case(extension));
    FORMATS.iter().find(|(_, extensions, _)| matches_any(extensions)).map(|(.., format)| *format)
}

/// A picture; or a video or document sent as a picture.
///
/// # Errors
/// 400 for a URL that Bedrock does not fetch, a file id, or an unsupported format.
pub fn image<'a>(
    source: &'a From<'a>,
    names: &mut DocumentNames,
    at: fmt::Arguments<'_>,
) -> Result<Block<'a>, Error> {
    let (format, source) = locate(source, None, at)?;
    let format = format.ok_or_else(|| {
        let message = format!("{at}: bedrock reads pictures as png, jpeg, gif or webp only.");
        Error::invalid_request(at.to_string(), message)
    })?;
    Ok(block_of(format, source, None, names))
}

/// A document, which the model cites or not; or a picture, video or sound sent as a file.
///
/// # Errors
/// As [`image`].
pub fn block<'a>(
    file: &'a File<'a>,
    cites: bool,
    names: &mut DocumentNames,
    at: fmt::Arguments<'_>,
) -> Result<Block<'a>, Error> {
    let (format, source) = locate(&file.source, file.name.as_deref(), at)?;
    let format = format.ok_or_else(|| {
        let message =
            format!("{at}: bedrock reads documents as pdf, csv, doc, docx, xls, xlsx, html, txt or md only.");
        Error::invalid_request(at.to_string(), message)
    })?;
    let mut block = block_of(format, source, file.name.as_deref(), names);
    if let Block::Document(document) = &mut block {
        document.citations = cites.then_some(Citations { enabled: true });
    }
    Ok(block)
}

/// The format of OpenAI's `input_audio`.
///
/// # Errors
/// 400 for an unsupported format.
pub(crate) fn audio_format(format: &str, at: fmt::Arguments<'_>) -> Result<&'static str, Error> {
    match format_by_media_type(&format!("audio/{format}")) {
        Some(Format::Audio(format)) => Ok(format),
        _ => {
            let message = format!("{at}: bedrock reads sound as wav, mp3, flac, aac, ogg, opus or m4a only.");
            Err(Error::invalid_request(at.to_string(), message))
        }
    }
}

fn block_of<'a>(
    format: Format,
    source: Source<'a>,
    name: Option<&str>,
    names: &mut DocumentNames,
) -> Block<'a> {
    match format {
        Format::Image(format) => Block::Image(Box::new(Media { format, source })),
        Format::Video(format) => Block::Video(Box::new(Media { format, source })),
        Format::Audio(format) => Block::Audio(Box::new(Media { format, source })),
        Format::Document(format) => {
            let document = Document { format, name: names.unique(name), source, citations: None };
            Block::Document(Box::new(document))
        }
    }
}

/// The source of the bytes, and the format if it can be determined.
fn locate<'a>(
    source: &'a From<'a>,
    name: Option<&str>,
    at: fmt::Arguments<'_>,
) -> Result<(Option<Format>, Source<'a>), Error> {
    if let Some(uri) = is_s3(source) {
        let media = match source {
            From::Url { media_type: Some(media), .. } => format_by_media_type(media),
            _ => None,
        };
        let path = uri.split('?').next().unwrap_or_default();
        let format =
            media.or_else(|| name.and_then(format_by_extension)).or_else(|| format_by_extension(path));
        return Ok((format, Source::S3Location(S3Location { uri })));
    }
    let reason = match source {
        From::Data { media_type, data } => {
            let format = format_by_media_type(media_type).or_else(|| name.and_then(format_by_extension));
            return Ok((format, Source::Bytes(Cow::Borrowed(data))));
        }
        From::Text(text) => {
            return Ok((
                Some(Format::Document("txt")),
                Source::Bytes(Cow::Owned(STANDARD.encode(text.as_bytes()))),
            ));
        }
        From::Url { .. } => {
            "bedrock fetches nothing from the web. Send the bytes as a data URL (data:<type>;base64,<bytes>), or \
             an s3:// URI where the model takes one."
        }
        From::Id(_) => "bedrock keeps no files. Send the bytes as a data URL (data:<type>;base64,<bytes>).",
    };
    Err(Error::invalid_request(at.to_string(), format!("{at}: {reason}")))
}

/// The document names of a request. Bedrock requires them to be unique and to consist of letters, digits,
/// single spaces, hyphens, parentheses and brackets only.
#[derive(Default)]
pub struct DocumentNames {
    used: HashSet<String>,
    /// By name, the number from which on it is free.
    numbers: HashMap<String, usize>,
}

impl DocumentNames {
    fn unique(&mut self, wanted: Option<&str>) -> String {
        let plain = wanted.map(plain).filter(|name| !name.is_empty());
        let base = plain.unwrap_or_else(|| format!("Document {}", self.used.len() + 1));
        let mut name = base.clone();
        while self.used.contains(&name) {
            let number = self.numbers.entry(base.clone()).or_insert(1);
            *number += 1;
            name = format!("{base} ({number})");
        }
        self.used.insert(name.clone());
        name
    }
}

fn plain(name: &str) -> String {
    // Without its extension: dots are not allowed, and the format is given separately.
    let stem = match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() && format_by_extension(name).is_some() => stem,
        _ => name,
    };
    let allowed = |char: char| {
        if char.is_ascii_alphanumeric() || matches!(char, '-' | '(' | ')' | '[' | ']') {
            char
        } else if char.is_whitespace() {
            ' '
        } else {
            '-'
        }
    };
    let plain: String = stem.chars().map(allowed).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    // Leave room for a number at the end.
    plain.chars().take(MAX_NAME - 10).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_unique() {
        let mut names = DocumentNames::default();
        let mut name = |wanted| names.unique(wanted);
        assert_eq!(name(None), "Document 1");
        assert_eq!(name(Some("Q3  report_final.pdf")), "Q3 report-final");
        assert_eq!(name(Some("Q3 report-final.pdf")), "Q3 report-final (2)");
        assert_eq!(name(Some("a.b (c) [d].tar.gz")), "a-b (c) [d]-tar-gz");
        assert_eq!(name(Some(" ")), "Document 5");
        assert_eq!(name(Some(".pdf")), "-pdf");
        assert_eq!(name(Some(&"x".repeat(500))).len(), 190);
    }
}
