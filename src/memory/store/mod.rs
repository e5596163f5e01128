//! What outlives the process: the objects of the control plane, their audit log, and the key that seals their secrets.
//!
//! [`Backend`] is the trait that SQLite and PostgreSQL implement; [`Store`] is the one object that other rooms use: it opens a
//! backend, keeps all current records in memory ([`Catalog`]) and writes through. No request waits for it: what requests
//! need is compiled from the catalog in `state`. Knows no resource of the API, and never what a body means.

pub mod audit;
pub mod backend;
pub mod catalog;
mod disk_snapshot;
pub mod error;
mod follow;
pub mod health;
pub mod kind;
mod master_key;
pub mod nodes;
mod open_files;
pub mod options;
pub mod pepper;
pub mod postgres;
mod private_file;
mod queued_write;
pub mod record;
mod rekey;
mod rows;
pub mod schema;
mod sealing;
pub(crate) mod sql;
pub(crate) mod sqlite;
pub mod state_dir;
mod statements;
#[expect(clippy::module_inception, reason = "the main type of the room, named as its file")]
pub mod store;

pub(crate) use backend::Backend;
pub use catalog::Catalog;
pub(crate) use catalog::Difference;
pub use error::StoreError;
pub use health::StoreHealth;
pub use kind::Kind;
pub use nodes::{ListedNode, NodeList, NodeReport, NodeState};
pub(crate) use open_files::OpenFiles;
pub use options::{Location, StoreOptions};
pub use pepper::Pepper;
pub(crate) use private_file::{create_private, folder_of, make_private, make_private_folder};
pub use private_file::{lock_private, write_private};
pub use record::{Change, Record, Sealed, Status};
pub use schema::Schema;
pub use state_dir::{StateDir, StateDirSource};
pub use store::Store;

#[cfg(test)]
pub(crate) mod tests;
