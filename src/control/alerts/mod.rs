//! Alerts: tells people that a limit is nearly or wholly used, by e-mail, webhook, audit log, log and metric.
//!
//! Runs beside requests, which only put an event into a bounded queue. Each delivery has its own task and its own repeats, so that
//! a mail server that is down delays no webhook. Not here: when there is an event (`limits`: once per bucket and window), and
//! the routes of the control plane.

mod alert;
mod mail;
mod recipients;
mod webhook;

use alert::Alert;
use mail::Mailer;
use memory::limits::LimitEvent;
use memory::net::outbound::side_http::SideHttpClient;
use memory::state::Shared;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;
use words::settings::AlertSettings;
use words::settings::alerts::{Smtp, Webhook};

/// Deliveries under way. What comes beyond them is dropped and counted.
const MAX_DELIVERIES: usize = 256;

/// Waits between the tries of one delivery.
const WAITS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120)];

/// Why a try failed.
#[derive(Debug)]
enum Failure {
    /// Another try may succeed.
    Temporary(String),
    /// It was refused for good.
    Permanent(String),
}

/// Sends alerts.
pub struct AlertSender {
    shared: Arc<Shared>,
    http: SideHttpClient,
    /// The connection to the mail server, for the settings that it was made of.
    mailer: Mutex<Option<(Smtp, Arc<Mailer>)>>,
    deliveries: Arc<Semaphore>,
}

/// One message to one place.
enum Delivery {
    Mail { smtp: Smtp, to: String },
    Webhook(Webhook),
}

impl Delivery {
    fn channel(&self) -> &'static str {
        match self {
            Self::Mail { .. } => "email",
            Self::Webhook(_) => "webhook",
        }
    }
}

impl AlertSender {
    pub fn new(shared: Arc<Shared>) -> Self {
        let http = SideHttpClient::new(shared.settings().settings.tls.ca_file.clone());
        Self { shared, http, mailer: Mutex::default(), deliveries: Arc::new(Semaphore::new(MAX_DELIVERIES)) }
    }

    /// Sends an alert for each event, until there are no more.
    pub async fn run(self: Arc<Self>, mut events: mpsc::Receiver<LimitEvent>) {
        while let Some(event) = events.recv().await {
            // A rate limit that is reached is no news: it is there to be reached, every minute.
            if event.limit.is_rate() {
                continue;
            }
            let stored = &self.shared.settings().stored;
            let workspace = recipients::workspace_of(stored.catalog(), &event.limit);
            let alert = Arc::new(Alert::new(&event, workspace));
            log::warn!(target: "turnpike", "alert: {}", alert.subject());
            self.shared.metrics.alert_raised(alert.kind.as_str());
            self.audit(&alert).await;
            for delivery in self.deliveries_of(&event) {
                self.begin(&alert, delivery);
            }
        }
    }

    /// Where it is sent.
    fn deliveries_of(&self, event: &LimitEvent) -> Vec<Delivery> {
        let snapshot = self.shared.settings();
        let AlertSettings { smtp, webhooks } = &snapshot.settings.alerts;
        let mut deliveries: Vec<Delivery> = webhooks.iter().cloned().map(Delivery::Webhook).collect();
        if let Some(smtp) = smtp {
            let to = recipients::addresses(snapshot.stored.catalog(), smtp, &event.limit);
            deliveries.extend(to.into_iter().map(|to| Delivery::Mail { smtp: smtp.clone(), to }));
        }
        deliveries
    }

    fn begin(self: &Arc<Self>, alert: &Arc<Alert>, delivery: Delivery) {
        let Ok(permit) = Arc::clone(&self.deliveries).try_acquire_owned() else {
            self.shared.metrics.alert_delivered(delivery.channel(), "dropped");
            log::warn!(target: "turnpike", "alert: {MAX_DELIVERIES} messages are under way already, this one is dropped: {}", alert.subject());
            return;
        };
        tokio::spawn(Arc::clone(self).deliver(Arc::clone(alert), delivery, permit));
    }

    /// Tries until it is delivered, refused for good, or all tries are used.
    async fn deliver(self: Arc<Self>, alert: Arc<Alert>, delivery: Delivery, _permit: OwnedSemaphorePermit) {
        let mut waits = WAITS.iter();
        let outcome = loop {
            match (self.attempt(&alert, &delivery).await, waits.next()) {
                (Ok(()), _) => break Ok(()),
                (Err(Failure::Permanent(why)), _) | (Err(Failure::Temporary(why)), None) => break Err(why),
                (Err(Failure::Temporary(why)), Some(wait)) => {
                    log::debug!(target: "turnpike", "alert: {} is tried again in {wait:?}: {why}", delivery.channel());
                    sleep(*wait).await;
                }
            }
        };
        let channel = delivery.channel();
        match outcome {
            Ok(()) => self.shared.metrics.alert_delivered(channel, "delivered"),
            Err(why) => {
                self.shared.metrics.alert_delivered(channel, "failed");
                log::error!(target: "turnpike", "alert: the {channel} could not be delivered: {why}");
            }
        }
    }

    async fn attempt(&self, alert: &Alert, delivery: &Delivery) -> Result<(), Failure> {
        match delivery {
            Delivery::Mail { smtp, to } => self.mailer(smtp).await?.send(alert, to).await,
            Delivery::Webhook(webhook) => {
                let hosts = Arc::clone(&self.shared.settings().hosts);
                webhook::send(&self.http, webhook, alert, &self.shared.dns, &hosts).await
            }
        }
    }

    /// The connection to this mail server, made again when the settings have changed.
    async fn mailer(&self, smtp: &Smtp) -> Result<Arc<Mailer>, Failure> {
        let mut kept = self.mailer.lock().await;
        if let Some((settings, mailer)) = kept.as_ref()
            && settings == smtp
        {
            return Ok(Arc::clone(mailer));
        }
        let mailer = Arc::new(Mailer::new(smtp).await.map_err(Failure::Permanent)?);
        *kept = Some((smtp.clone(), Arc::clone(&mailer)));
        Ok(mailer)
    }

    async fn audit(&self, alert: &Alert) {
        // An edge node has no right to write there. The log has it.
        let Some(store) = self.shared.store().filter(|store| !store.reads_only()) else { return };
        if let Err(why) = store.commit(Vec::new(), vec![alert.audit_entry()]).await {
            log::warn!(target: "turnpike", "alert: it is not in the audit log: {why}");
        }
    }
}
