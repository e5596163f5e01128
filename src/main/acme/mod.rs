//! Certificates that an authority issues to listeners by ACME (RFC 8555), renewed while the process runs.
//!
//! ```text
//!   AcmeRenewer (a background task): for each certificate, every second
//!      schedule   is it time? by the certificate's own validity and the orders before
//!      files      lock: one process orders; another may have written a newer certificate meanwhile
//!      order      account, order, proofs, key, chain; all requests by `http_client`, which is the house's own
//!      proofs     what the authority gets that connects to us (TLS-ALPN-01, HTTP-01), for as long as the order takes
//!      files      key and chain in one PEM file of the state directory, 0600, replaced as a whole
//!   `certificate` reads that file as it reads an operator's own
//! ```
//!
//! Not here: which names are in a certificate (`settings`), and how one is served (`certificate`).

mod files;
mod http_client;
mod http_proofs;
mod order;
mod proofs;
mod renewer;
mod schedule;
mod wiring;

pub use files::AcmeFiles;
pub use renewer::AcmeRenewer;
pub use schedule::OrderHistory;
pub use wiring::{Acme, files_of};
