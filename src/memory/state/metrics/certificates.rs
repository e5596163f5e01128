//! The metrics of listeners' certificates: when they expire, and what became of those that were ordered of an authority.
//!
//! Only the numbers; ordering and serving certificates is `main`'s.

use super::families::{add, begun};
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// `turnpike_certificate_*`.
pub struct CertificateMetrics {
    expiry: IntGaugeVec,
    orders: IntCounterVec,
    failed_orders: IntGauge,
}

impl CertificateMetrics {
    pub(super) fn new(r: &Registry) -> prometheus::Result<Self> {
        let expiry = "When the certificate that a listener serves expires, Unix seconds.";
        let expiry = Opts::new("turnpike_certificate_expiry_timestamp_seconds", expiry);
        let orders = "Certificates ordered of an authority (ACME), by what became of the order.";
        let outcomes = ["issued", "refused", "unreachable", "local"];
        let failed =
            "Orders of a certificate (ACME) that have failed in a row, of the certificate with the most.";
        Ok(Self {
            expiry: add(r, IntGaugeVec::new(expiry, &["file"])?)?,
            orders: begun(r, "turnpike_certificate_orders_total", orders, "outcome", &outcomes)?,
            failed_orders: add(r, IntGauge::new("turnpike_certificate_failed_orders", failed)?)?,
        })
    }

    /// The certificate in this file expires then, Unix seconds.
    pub fn set_expiry(&self, file: &str, expires: i64) {
        self.expiry.with_label_values(&[file]).set(expires);
    }

    /// What became of an order: `issued`, `refused`, `unreachable` or `local` (this machine was at fault).
    pub fn ordered(&self, outcome: &str) {
        self.orders.with_label_values(&[outcome]).inc();
    }

    pub fn set_failed_orders(&self, in_a_row: u32) {
        self.failed_orders.set(in_a_row.into());
    }
}
