//! Errors of the control plane's store: it cannot be used, is full, or is not to be changed from here.
//!
//! What fails is the store's (`memory::store`).

use super::{Error, Kind};

impl Error {
    /// 503: the store of the control plane cannot be used now.
    pub fn store_unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::StoreUnavailable, message)
    }

    /// 403: a change at a gateway that only reads the store.
    pub fn edge_node() -> Self {
        let message = "This gateway is an edge node (control.role: edge), which changes nothing. Send the call to the control port of a primary; \
                       `turnpike nodes` lists them.";
        Self::new(Kind::EdgeNode, message)
    }

    /// 507: the store has no space left.
    pub fn store_full(message: impl Into<String>) -> Self {
        Self::new(Kind::StoreFull, message)
    }
}
