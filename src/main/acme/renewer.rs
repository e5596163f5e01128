//! Orders certificates that are due, one at a time and those first that are missing, for as long as the process runs.
//!
//! When one is due is `schedule`'s, ordering is `order`'s. What is in use stays in use until another one is there.

use super::files::{AcmeFiles, IssuedFiles};
use super::http_client::AcmeClient;
use super::order::{OrderError, order};
use super::proofs::Proofs;
use super::schedule::OrderHistory;
use crate::certificate::{Certificate, Validity};
use async_trait::async_trait;
use jiff::Timestamp;
use memory::state::Shared;
use memory::store::write_private;
use parking_lot::Mutex;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use ring::digest::{SHA256, digest};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use words::settings::AcmeSettings;

/// How often it is looked at what is due. Certificates of tests are good for seconds.
const TICK: Duration = Duration::from_secs(1);

/// One certificate of an authority, and the listeners that have it.
pub struct OrderedCertificate {
    names: Vec<String>,
    files: IssuedFiles,
    listeners: Vec<Arc<Certificate>>,
    history: Mutex<OrderHistory>,
}

impl OrderedCertificate {
    pub fn new(names: &[String], files: IssuedFiles, listener: Arc<Certificate>) -> Self {
        let history = Mutex::new(files.history());
        Self { names: names.to_vec(), files, listeners: vec![listener], history }
    }

    /// Whether it is the one in these files.
    pub fn is_in(&self, files: &IssuedFiles) -> bool {
        self.files.pem == files.pem
    }

    /// Another listener has it, too.
    pub fn add(&mut self, listener: Arc<Certificate>) {
        self.listeners.push(listener);
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn name(&self) -> String {
        self.names.join(", ")
    }

    /// How long the one of these names is good; `None`: there is none, at most a stand-in.
    fn validity(&self) -> Option<Validity> {
        self.listeners.first().filter(|certificate| !certificate.is_stand_in())?.validity()
    }

    /// Whether to order now.
    fn is_due(&self, now: i64) -> bool {
        now >= self.history.lock().due(self.validity(), self.spread(), now)
    }

    /// A number of the certificate in use, or of the names.
    fn spread(&self) -> u64 {
        let der = self.listeners.first().and_then(|certificate| certificate.der());
        let of = match &der {
            Some(der) => digest(&SHA256, der),
            None => digest(&SHA256, self.name().as_bytes()),
        };
        of.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Reads the file again, which another process may have written.
    fn reload(&self) {
        for certificate in &self.listeners {
            if let Err(why) = certificate.reload() {
                log::error!(target: "turnpike", "certificate for {}: {why}", self.name());
            }
        }
    }

    /// What another process has ordered and counted meanwhile counts, and so does what could not be written.
    fn catch_up(&self) {
        self.reload();
        let mut history = self.history.lock();
        *history = std::mem::take(&mut *history).later(self.files.history());
    }

    /// Writes that an order begins. Without that a process that is started again and again would order each time.
    fn begin(&self, now: i64) -> Result<(), OrderError> {
        let begun = self.history.lock().begun(self.spread(), now);
        let path = self.files.history_file();
        self.files
            .keep_history(&begun)
            .map_err(|why| OrderError::local(format!("nothing is ordered: {}: {why}", path.display())))
    }

    /// Writes what was issued and serves it, also where it cannot be written.
    fn install(&self, pem: &str, now: i64) -> Result<(), OrderError> {
        self.history.lock().issued_at = Some(now);
        let written = write_private(&self.files.pem, pem);
        for listener in &self.listeners {
            listener.install(pem).map_err(|error| OrderError::local(error.why))?;
        }
        written.map_err(|why| {
            OrderError::local(format!(
                "the authority has issued one, which is in use and not written, so that the next start orders another one: {}: {why}",
                self.files.pem.display()
            ))
        })
    }

    fn keep(&self, history: OrderHistory) {
        if let Err(why) = self.files.keep_history(&history) {
            log::error!(target: "turnpike", "certificate for {}: its history is not kept: {why}", self.name());
        }
        *self.history.lock() = history;
    }

    /// What clients get, for the log.
    fn state(&self, now: i64) -> String {
        let current = self.listeners.first();
        match current.and_then(|certificate| certificate.validity()) {
            Some(validity) if self.validity().is_none() => {
                format!("one of other names is in use, which is good until {}", time(validity.until))
            }
            None => "there is none, and connections fail in the handshake".to_owned(),
            Some(validity) if validity.until <= now => {
                format!("the one in use has expired on {}, and clients refuse it", time(validity.until))
            }
            Some(validity) => format!("the one in use is good until {}", time(validity.until)),
        }
    }
}

/// Orders what is due.
pub struct AcmeRenewer {
    pub shared: Arc<Shared>,
    /// Those of the start, as are the listeners.
    pub settings: AcmeSettings,
    pub files: AcmeFiles,
    pub proofs: Proofs,
    pub certificates: Vec<OrderedCertificate>,
}

impl AcmeRenewer {
    async fn renew(&self, certificate: &OrderedCertificate) {
        let now = || Timestamp::now().as_second();
        if !certificate.is_due(now()) {
            return;
        }
        let lock = match self.files.lock() {
            Ok(Some(lock)) => lock,
            // Another process orders: the one before an upgrade, or another gateway with this directory.
            Ok(None) => return,
            Err(why) => {
                let why = format!("the folder of certificates cannot be written: {why}");
                return self.failed(certificate, &OrderError::local(why));
            }
        };
        certificate.catch_up();
        if !certificate.is_due(now()) {
            return;
        }
        if let Err(error) = certificate.begin(now()) {
            return self.failed(certificate, &error);
        }
        let settings = &self.settings;
        log::info!(target: "turnpike", "certificate for {}: ordering it of {}", certificate.name(), settings.directory);
        let client = AcmeClient::new(&self.shared, settings.ca_file.clone());
        let ordered = order(settings, &self.files, &client, &self.proofs, &certificate.names).await;
        let installed = ordered.and_then(|pem| certificate.install(&pem, now()));
        self.show_expiry(certificate);
        match installed {
            Ok(()) => {
                certificate.keep(OrderHistory::issued(now()));
                self.show_failures();
                self.shared.metrics.certificates().ordered("issued");
                log::info!(target: "turnpike", "certificate for {}: issued; {}", certificate.name(), certificate.state(now()));
            }
            Err(error) => self.failed(certificate, &error),
        }
        drop(lock);
    }

    fn failed(&self, certificate: &OrderedCertificate, error: &OrderError) {
        let now = Timestamp::now().as_second();
        let OrderError { failure, why, retry_after } = error;
        let history =
            certificate.history.lock().failed(*failure, why, *retry_after, certificate.spread(), now);
        let OrderHistory { failures, next, .. } = history;
        let why = history.why.clone().unwrap_or_default();
        certificate.keep(history);
        self.show_failures();
        self.shared.metrics.certificates().ordered(failure.as_str());
        log::error!(
            target: "turnpike",
            "certificate for {}: not issued ({failures} in a row, the next order is on {}): {why}; {}",
            certificate.name(),
            time(next),
            certificate.state(now)
        );
    }

    fn show_expiry(&self, certificate: &OrderedCertificate) {
        for listener in &certificate.listeners {
            if let Some(validity) = listener.validity() {
                let file = listener.file().to_string_lossy();
                self.shared.metrics.certificates().set_expiry(&file, validity.until);
            }
        }
    }

    /// Shows how many orders have failed in a row, of the certificate with the most.
    fn show_failures(&self) {
        let most = self.certificates.iter().map(|certificate| certificate.history.lock().failures).max();
        self.shared.metrics.certificates().set_failed_orders(most.unwrap_or(0));
    }

    fn announce(&self) {
        self.show_failures();
        let now = Timestamp::now().as_second();
        for certificate in &self.certificates {
            log::info!(target: "turnpike", "certificate for {}: {}", certificate.name(), certificate.state(now));
            let next = certificate.history.lock().next;
            if next > now {
                log::warn!(
                    target: "turnpike",
                    "certificate for {}: the last order failed, the next is on {}; to order sooner, remove {} and start again",
                    certificate.name(),
                    time(next),
                    certificate.files.history_file().display()
                );
            }
        }
    }
}

#[async_trait]
impl BackgroundService for AcmeRenewer {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        self.announce();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed() => return,
            }
            // The authority connects to the listeners of this process, and no more to those of the process before.
            if !self.shared.lifecycle.is_ready() {
                continue;
            }
            let renewing = async {
                // Those that clients wait for come first: an order may take minutes.
                let mut certificates: Vec<&OrderedCertificate> = self.certificates.iter().collect();
                certificates.sort_by_key(|certificate| certificate.validity().is_some());
                for certificate in certificates {
                    self.renew(certificate).await;
                }
            };
            // An order that is not complete is given up, and counts as failed: the next process orders after the wait, and goes on with
            // what is proved already.
            tokio::select! {
                () = renewing => {}
                _ = shutdown.changed() => return,
            }
        }
    }
}

fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}
