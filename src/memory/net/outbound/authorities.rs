//! The certificate authorities that servers are verified with: the system's, or those of a file.
//!
//! Not here: those of one provider (`peer`).

use pingora_core::tls::{load_ca_file_into_store, load_platform_certs_incl_env_into_store};
use rustls::{ClientConfig, RootCertStore};
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

/// The TLS of the gateway's own clients, with the same authorities as for providers.
///
/// # Errors
/// The authorities cannot be read.
pub(super) fn client_config(file: Option<&Path>) -> Result<ClientConfig, String> {
    let roots = load(file)?;
    let provider = rustls::crypto::ring::default_provider().into();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
