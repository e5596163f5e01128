//! `POST /v1/files`: a form (`multipart/form-data`) whose file is streamed into a blob.
//!
//! Not here: the file's id, its owner, quotas and its record. Nothing is left of a form that is refused, in whatever order
//! its fields come.

mod paced;

use super::blobs::{BlobWriter, Blobs};
use bytes::Bytes;
use futures_util::stream::Stream;
use multer::{Field, Multipart};
use paced::{Paced, Pending};
use percent_encoding::percent_decode_str;
use words::error::Error;

/// What OpenAI takes as a file's purpose.
pub(crate) const PURPOSES: [&str; 6] = ["batch", "fine-tune", "assistants", "vision", "user_data", "evals"];
/// The values of `expires_after[seconds]`: an hour to 30 days.
pub(super) const EXPIRY_SECONDS: std::ops::RangeInclusive<u32> = 3600..=2_592_000;
/// The most that a field other than the file may have, bytes.
const MAX_FIELD: usize = 1024;
/// The most of a file's name that is kept, bytes.
const MAX_FILENAME: usize = 255;

/// An uploaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Without folders and control characters.
    pub filename: String,
    /// One of `PURPOSES`.
    pub purpose: String,
    /// Seconds after the upload.
    pub expires_after: Option<u32>,
    /// Size of the file.
    pub bytes: u64,
}

/// Reads the form and writes its file to `path`. `max_bytes`: the largest file. Errors: 400 for a form that is not right, 413 for a
/// file that is too large, what `body` fails with, and errors of the blob store; the blob does not exist then.
pub async fn receive<B>(
    content_type: &str,
    body: B,
    blobs: &Blobs,
    path: &str,
    max_bytes: u64,
) -> Result<Upload, Error>
where
    B: Stream<Item = Result<Bytes, Error>> + Send,
{
    let boundary = multer::parse_boundary(content_type).map_err(|error| {
        let message = format!(
            "An upload is a form: Content-Type must be multipart/form-data with a boundary ({error}). Its fields are {FIELDS}."
        );
        Error::invalid_request("content-type", message)
    })?;
    let pending = Pending::default();
    let form = Multipart::new(Paced::new(body, pending.clone()), boundary);
    let mut file = blobs.writer(path)?;
    match read_form(form, &pending, &mut file, max_bytes).await {
        Ok(upload) => {
            file.finish().await?;
            Ok(upload)
        }
        Err(error) => {
            file.abort().await;
            Err(error)
        }
    }
}

const FIELDS: &str = "file, purpose, expires_after[anchor] and expires_after[seconds]";

/// What was read of a form.
#[derive(Default)]
struct Fields {
    /// Name and size.
    file: Option<(String, u64)>,
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
}

async fn read_form(
    mut form: Multipart<'_>,
    pending: &Pending,
    file: &mut BlobWriter,
    max_bytes: u64,
) -> Result<Upload, Error> {
    let mut fields = Fields::default();
    while let Some(field) = form.next_field().await.map_err(form_error)? {
        pending.clear();
        let name = field.name().unwrap_or_default().to_owned();
        let text = match name.as_str() {
            "file" if fields.file.is_some() => return Err(twice(&name)),
            "file" => {
                let filename = filename(&field)?;
                let bytes = read_file(field, pending, file, max_bytes).await?;
                fields.file = Some((filename, bytes));
                continue;
            }
            "purpose" => &mut fields.purpose,
            "expires_after[anchor]" => &mut fields.anchor,
            "expires_after[seconds]" => &mut fields.seconds,
            _ => {
                let short: String = name.chars().take(64).collect();
                let message =
                    format!("Unrecognized form field {short:?}. The fields of an upload are {FIELDS}.");
                return Err(Error::bad_request(message).with_unknown_name(&short));
            }
        };
        if text.is_some() {
            return Err(twice(&name));
        }
        let value = text.insert(read_text(field, pending, &name).await?);
        if name == "purpose" {
            // At once, not after a gibibyte.
            check_purpose(value)?;
        }
    }
    fields.check()
}

impl Fields {
    fn check(self) -> Result<Upload, Error> {
        let missing = |name: &str| {
            Error::invalid_request(
                name,
                format!("Missing required parameter: '{name}', a field of the form."),
            )
        };
        let (filename, bytes) = self.file.ok_or_else(|| missing("file"))?;
        let purpose = self.purpose.ok_or_else(|| missing("purpose"))?;
        let expires_after = match (self.anchor, self.seconds) {
            (None, None) => None,
            (Some(anchor), _) if anchor != "created_at" => {
                let message = "The only anchor of expires_after is created_at.";
                return Err(Error::invalid_request("expires_after[anchor]", message));
            }
            (None, Some(_)) => return Err(missing("expires_after[anchor]")),
            (Some(_), None) => return Err(missing("expires_after[seconds]")),
            (Some(_), Some(text)) => Some(expiry(&text)?),
        };
        Ok(Upload { filename, purpose, expires_after, bytes })
    }
}

fn check_purpose(purpose: &str) -> Result<(), Error> {
    if PURPOSES.contains(&purpose) {
        return Ok(());
    }
    let message = format!("This is no purpose of a file. Use one of {}.", PURPOSES.join(", "));
    Err(Error::invalid_request("purpose", message))
}

fn expiry(text: &str) -> Result<u32, Error> {
    let seconds = text.trim().parse().ok().filter(|seconds| EXPIRY_SECONDS.contains(seconds));
    seconds.ok_or_else(|| {
        let min = EXPIRY_SECONDS.start();
        let max = EXPIRY_SECONDS.end();
        let message = format!("The seconds of expires_after must be a whole number from {min} to {max}.");
        Error::invalid_request("expires_after[seconds]", message)
    })
}

async fn read_file(
    mut field: Field<'_>,
    pending: &Pending,
    file: &mut BlobWriter,
    max_bytes: u64,
) -> Result<u64, Error> {
    let mut bytes: u64 = 0;
    while let Some(chunk) = field.chunk().await.map_err(form_error)? {
        pending.clear();
        bytes = bytes.saturating_add(chunk.len() as u64);
        if bytes > max_bytes {
            return Err(too_large(max_bytes));
        }
        file.write(&chunk).await?;
    }
    Ok(bytes)
}

async fn read_text(mut field: Field<'_>, pending: &Pending, name: &str) -> Result<String, Error> {
    let mut text = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(form_error)? {
        pending.clear();
        text.extend_from_slice(&chunk);
        if text.len() > MAX_FIELD {
            let message = format!("The form field {name} is longer than {MAX_FIELD} bytes.");
            return Err(Error::invalid_request(name, message));
        }
    }
    String::from_utf8(text)
        .map_err(|_| Error::invalid_request(name, format!("The form field {name} is not valid UTF-8.")))
}

/// The name that the client gives its file. RFC 7578 4.2: folders in it are not to be used.
fn filename(field: &Field<'_>) -> Result<String, Error> {
    let name = field.file_name().map(str::to_owned).or_else(|| encoded_filename(field));
    let Some(name) = name else {
        let message = "The form field file has no filename. Send it as a file, not as text.";
        return Err(Error::invalid_request("file", message));
    };
    let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut base: String = base.chars().filter(|c| !c.is_control()).collect();
    base.truncate(base.floor_char_boundary(MAX_FILENAME));
    Ok(if base.is_empty() { "file".to_owned() } else { base })
}

/// `filename*=UTF-8''<percent-encoded>` (RFC 5987), as older clients send a name that is not ASCII.
fn encoded_filename(field: &Field<'_>) -> Option<String> {
    const PREFIX: &str = "filename*=utf-8''";
    let header = field.headers().get("content-disposition")?.to_str().ok()?;
    let value = header.split(';').map(str::trim).find_map(|part| {
        let (start, rest) = part.split_at_checked(PREFIX.len())?;
        start.eq_ignore_ascii_case(PREFIX).then_some(rest)
    })?;
    percent_decode_str(value).decode_utf8().ok().map(|name| name.into_owned())
}

fn twice(name: &str) -> Error {
    Error::invalid_request(name, format!("The form has the field {name} twice. Send it once."))
}

fn too_large(max_bytes: u64) -> Error {
    let message = format!(
        "The file is over {max_bytes} bytes, the most a file of this gateway may have. Split it, or ask the operator to \
         raise the limit."
    );
    Error { message, ..Error::body_too_large(max_bytes) }.with_param("file")
}

/// What the form itself is wrong with, or the error that reading the body had.
fn form_error(error: multer::Error) -> Error {
    match error {
        multer::Error::StreamReadFailed(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::internal(other.to_string()),
        },
        multer::Error::LockFailure => Error::internal("two fields of a form are read at once"),
        multer::Error::IncompleteStream
        | multer::Error::IncompleteFieldData { .. }
        | multer::Error::IncompleteHeaders => Error::bad_request(
            "The form ends before its last boundary. Its boundary may differ from that of Content-Type.",
        ),
        other => Error::bad_request(format!("The form cannot be read: {other}.")),
    }
}

#[cfg(test)]
mod tests;
