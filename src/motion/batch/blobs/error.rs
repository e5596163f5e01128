//! What fails when a blob is read or written.
//!
//! Not here: what a client reads of it. The text of a variant is for the log; it may name a path or a bucket.

use std::fmt;
use std::io::ErrorKind;
use words::error::Error;

/// How much of a text that the object storage has sent is kept, bytes.
const MAX_TEXT_BYTES: usize = 400;

/// A failed operation of the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobError {
    /// No blob of this path.
    NotFound,
    /// The disk or the quota has no space left.
    Full,
    /// The object storage does not answer, or refuses the credentials.
    Unreachable(String),
    /// Everything else, with its text.
    Other(String),
}

impl BlobError {
    pub(super) fn from_io(error: &std::io::Error, what: &str) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            ErrorKind::NotFound => Self::NotFound,
            _ => Self::Other(format!("{what}: {error}")),
        }
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("there is no such blob"),
            Self::Full => f.write_str("no space left for blobs"),
            Self::Unreachable(text) => write!(f, "the object storage cannot be used: {text}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BlobError {}

impl From<object_store::Error> for BlobError {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        if is_full(&error) {
            return Self::Full;
        }
        match &error {
            E::NotFound { .. } => Self::NotFound,
            // The crate's name for a directory. Every other store is reached over the network.
            E::Generic { store: "LocalFileSystem", .. } => Self::Other(text(&error)),
            E::Generic { .. } | E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                Self::Unreachable(text(&error))
            }
            E::Precondition { path, .. } => Self::Other(format!("{path} was replaced while it was read")),
            _ => Self::Other(text(&error)),
        }
    }
}

impl From<BlobError> for Error {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::NotFound => Self::not_found("The content of this file is gone. Upload it again."),
            BlobError::Full => Self::store_full(
                "This gateway has no space left for files. Delete files that are no longer needed, or ask the operator.",
            ),
            BlobError::Unreachable(cause) => Self::store_unavailable(
                "The storage of this gateway's files cannot be used now. Try again in a moment.",
            )
            .with_cause(cause),
            BlobError::Other(cause) => Self::internal(cause),
        }
    }
}

/// Whether a full disk or quota is the cause, at any depth.
fn is_full(error: &object_store::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = next {
        let kind = current.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) {
            return true;
        }
        next = current.source();
    }
    false
}

/// The error's text on one line. An object storage's own page may be long.
fn text(error: &object_store::Error) -> String {
    let mut text = error.to_string().replace(['\n', '\r'], " ");
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(kind: ErrorKind) -> object_store::Error {
        let source: Box<dyn std::error::Error + Send + Sync> = Box::new(std::io::Error::from(kind));
        object_store::Error::Generic { store: "LocalFileSystem", source }
    }

    #[test]
    fn a_full_disk_is_found_behind_other_errors() {
        assert_eq!(BlobError::from(local(ErrorKind::StorageFull)), BlobError::Full);
        assert_eq!(BlobError::from(local(ErrorKind::QuotaExceeded)), BlobError::Full);
        let nested =
            object_store::Error::Generic { store: "S3", source: Box::new(local(ErrorKind::StorageFull)) };
        assert_eq!(BlobError::from(nested), BlobError::Full);
        assert!(matches!(BlobError::from(local(ErrorKind::PermissionDenied)), BlobError::Other(_)));
    }

    #[test]
    fn the_text_of_a_network_store_that_fails_is_short() {
        let page = "<html>\n".repeat(1000);
        let error = object_store::Error::Generic { store: "S3", source: page.into() };
        let BlobError::Unreachable(text) = BlobError::from(error) else { panic!("not Unreachable") };
        assert!(text.len() <= MAX_TEXT_BYTES && !text.contains('\n'), "{text}");
    }

    #[test]
    fn a_client_reads_a_status_and_never_the_text() {
        for (error, status) in [
            (BlobError::NotFound, 404),
            (BlobError::Full, 507),
            (BlobError::Unreachable("bucket b".to_owned()), 503),
            (BlobError::Other("/srv/x".to_owned()), 500),
        ] {
            let shown = Error::from(error);
            assert_eq!(shown.status(), status);
            assert!(!shown.message.contains("bucket b") && !shown.message.contains("/srv/x"), "{shown}");
        }
    }
}
