//! What outlives the process: the objects of the control plane, their audit log, and the key that seals their secrets.
//!
//! [`Backend`] is the trait that SQLite and PostgreSQL implement; [`Store`] is the one object that other rooms use: it opens a
//! backend, keeps all current records in memory ([`Catalog`]) and writes through. No request waits for it: what requests
//! need is compiled from the catalog in `state`. Knows no resource of the API, and never what a body means.

pub mod audit;
pub mod backend;
pub mod catalog;
pub mod error;
pub mod kind;
pub mod record;

pub use backend::Backend;
pub use catalog::Catalog;
pub use error::StoreError;
pub use kind::Kind;
pub use record::{Change, Record, Sealed, Status};
