//! The certificate authorities that servers are verified with: the system's, or those of a file.
//!
//! Not here: those of one provider (`peer`).

use pingora_core::tls::{load_ca_file_into_store, load_platform_certs_incl_env_into_store};
use rustls::RootCertStore;
use std::path::Path;

/// Reads the authorities of a PEM file, or the system's.
///
/// # Errors
/// They cannot be read.
pub fn load(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => load_ca_file_into_store(file, &mut roots),
        None => load_platform_certs_incl_env_into_store(&mut roots),
    }
    .map_err(|why| why.to_string())?;
    Ok(roots)
}
