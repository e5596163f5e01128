//! What clients are told when the store cannot do something.

use crate::error::Error;
use crate::store::StoreError;

/// The store's failure as an error of the control plane.
pub(super) fn error(error: StoreError) -> Error {
    match error {
        StoreError::Unavailable(cause) => Error::store_unavailable(
            "The store cannot be written or read now. Nothing was changed; requests to providers go on. Try again.",
        )
        .with_cause(cause),
        StoreError::Full(cause) => {
            Error::store_full("The store has no space left. Nothing was changed; make room on its disk.").with_cause(cause)
        }
        StoreError::Taken(what) => Error::conflict(format!("{what} is taken. Choose another one.")),
        StoreError::Changed => {
            Error::conflict("The object was changed or deleted by someone else meanwhile. Read it again and repeat the change.")
        }
        StoreError::Newer { .. } | StoreError::Damaged(_) | StoreError::Misconfigured(_) => Error::store_unavailable(
            "The store cannot be used. Nothing was changed; requests to providers go on. See the gateway's log.",
        )
        .with_cause(error.to_string()),
    }
}
