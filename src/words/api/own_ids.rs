//! Ids of the gateway's own files and batches, as clients write them.
//!
//! They name the gateway, so that a provider's ids are never taken for them, and the provider whose batch jobs they are for.

use uuid::Uuid;

/// What stands for the gateway in `x-gateway-provider`, for clients that send a config or provider with all requests.
pub const OWN_PROVIDER: &str = "turnpike";
const FILE: &str = "file-turnpike-";
const BATCH: &str = "batch_turnpike_";

/// An id of the gateway's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnId<'a> {
    pub id: Uuid,
    /// The provider that runs the batch, or whose batches the file is for; `None`: the gateway itself.
    pub provider: Option<&'a str>,
}

/// `file-turnpike-<32 hex digits>`, or `file-turnpike-<provider>-<32 hex digits>`.
pub fn file_id(id: Uuid, provider: Option<&str>) -> String {
    write(FILE, '-', id, provider)
}

/// `batch_turnpike_<32 hex digits>`, or `batch_turnpike_<provider>_<32 hex digits>`.
pub fn batch_id(id: Uuid, provider: Option<&str>) -> String {
    write(BATCH, '_', id, provider)
}

fn write(kind: &str, separator: char, id: Uuid, provider: Option<&str>) -> String {
    match provider {
        Some(provider) => format!("{kind}{provider}{separator}{}", id.simple()),
        None => format!("{kind}{}", id.simple()),
    }
}

/// The file of this id; `None`: a provider's file, or no id at all.
pub fn parse_file_id(text: &str) -> Option<OwnId<'_>> {
    parse(text.strip_prefix(FILE)?, '-')
}

/// Whether this names a file of the gateway's, whatever else is in the id.
pub fn is_own_file(text: &str) -> bool {
    text.starts_with(FILE)
}

/// The batch of this id; `None`: a provider's batch, or no id at all.
pub fn parse_batch_id(text: &str) -> Option<OwnId<'_>> {
    parse(text.strip_prefix(BATCH)?, '_')
}

/// Only as the gateway writes them: one object has one id.
fn parse(text: &str, separator: char) -> Option<OwnId<'_>> {
    let (provider, digits) = match text.rsplit_once(separator) {
        Some((provider, digits)) => (Some(provider), digits),
        None => (None, text),
    };
    let is_name = |name: &str| {
        let is_part = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase() || b == b'-';
        !name.is_empty() && name.bytes().all(is_part)
    };
    let is_ours =
        digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !is_ours || !provider.is_none_or(is_name) {
        return None;
    }
    Some(OwnId { id: Uuid::try_parse(digits).ok()?, provider })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written_and_no_others() {
        let id = Uuid::now_v7();
        for provider in [None, Some("anthropic"), Some("mistral-ai")] {
            let own = Some(OwnId { id, provider });
            assert_eq!(parse_file_id(&file_id(id, provider)), own);
            assert_eq!(parse_batch_id(&batch_id(id, provider)), own);
        }
        assert_eq!(parse_file_id(&batch_id(id, None)), None);
        let file = file_id(id, None);
        let digits = id.simple();
        for other in [
            "file-abc",
            "",
            "file-turnpike-",
            &file.to_uppercase(),
            &format!("{file}0"),
            &format!("file-turnpike--{digits}"),
            &format!("file-turnpike-A-{digits}"),
            &format!("file-turnpike-a/b-{digits}"),
        ] {
            assert_eq!(parse_file_id(other), None, "{other}");
        }
        assert_eq!(parse_file_id(&format!("file-turnpike-{id}")), None);
    }
}
