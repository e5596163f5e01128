//! `client_certificate`: what the gateway presents to a provider that wants mutual TLS. Providers of the settings file have it; no config,
//! header or stored object does: its key is a file of the operator's.
//!
//! Not reading the files (`net`), nor the certificates of listeners (`settings::listen`).

use super::{Policies, PolicyKey, inherit_value};
use crate::config::members::{FILE, MemberTable, object};
use std::path::PathBuf;
use std::sync::Arc;

/// PEM files of a certificate chain and its key.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

pub(super) const KEY: PolicyKey = PolicyKey {
    in_provider: Some(members),
    inherit: |policies, above| inherit_value(&mut policies.client_certificate, &above.client_certificate),
    ..PolicyKey::NONE
};

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let doc = "The certificate that the gateway presents to this provider (mutual TLS). Read at the start and at each reload.";
    policies.client_certificate =
        table.get("client_certificate", object(CertificateFiles::members), doc).map(Arc::new);
}

impl CertificateFiles {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let cert = table.needed("cert", FILE, "PEM file of the certificate chain.");
        let key = table.needed("key", FILE, "PEM file of the private key.");
        Some(Self { cert: cert?, key: key? })
    }
}
