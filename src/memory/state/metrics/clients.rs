//! Requests, tokens and costs by who caused them, as far as the settings choose labels for that (`metrics.labels`).
//!
//! Families of their own beside those of all requests together: what sums those up, does not change. They have a registry of their own
//! too, made anew when the choice changes, since the labels of a family never do.

use super::families::{add, counters};
use super::status_text;
use crate::state::label_limit::{LabelLimit, OTHER};
use arc_swap::ArcSwapOption;
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, IntCounterVec, Opts, Registry};
use std::borrow::Cow;
use std::sync::Arc;
use words::settings::{ClientLabel, MetricsSettings};

/// The longest value of a label, bytes; longer ones become `other`.
const MAX_VALUE_BYTES: usize = 128;
/// Between the values of a combination.
const SEPARATOR: &str = "\u{1f}";

/// What is counted by client; nothing at first.
#[derive(Default)]
pub(super) struct Clients(ArcSwapOption<ClientFamilies>);

/// What a request is counted with.
#[derive(Debug, Clone)]
pub struct ClientRequest<'a> {
    /// A value for each label that was asked for.
    pub values: Vec<Cow<'a, str>>,
    pub status: u16,
    /// Of all attempts that are charged.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Of all attempts that have a price, US dollars.
    pub dollars: f64,
}

struct ClientFamilies {
    settings: MetricsSettings,
    registry: Registry,
    requests: IntCounterVec,
    tokens: IntCounterVec,
    cost: CounterVec,
    named: LabelLimit,
}

impl Clients {
    /// Counts by these labels from now on. Where they are those of before, counting goes on.
    pub fn choose(&self, settings: &MetricsSettings) {
        let before = self.0.load();
        if before.as_ref().is_some_and(|before| before.settings == *settings) {
            return;
        }
        let families = if settings.labels.is_empty() { None } else { Some(ClientFamilies::new(settings)) };
        match families.transpose() {
            Ok(families) => self.0.store(families.map(Arc::new)),
            Err(why) => {
                log::error!(target: "turnpike", "metrics.labels: nothing is counted by client: {why}");
                self.0.store(None);
            }
        }
    }

    /// Counts a request; `make` is called where clients are counted, with the labels that are wanted.
    pub fn record<'a>(&self, make: impl FnOnce(&[ClientLabel]) -> ClientRequest<'a>) {
        if let Some(families) = &*self.0.load() {
            families.record(&make(&families.settings.labels));
        }
    }

    pub fn gather(&self) -> Vec<MetricFamily> {
        self.0.load().as_ref().map(|families| families.registry.gather()).unwrap_or_default()
    }
}

impl ClientFamilies {
    fn new(settings: &MetricsSettings) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let own: Vec<&str> = settings.labels.iter().map(|label| label.as_str()).collect();
        let with = |more: &'static str| [own.as_slice(), &[more]].concat();
        let requests = "Requests answered, by client.";
        let tokens = "Tokens of all attempts that are charged, by client.";
        let cost = Opts::new(
            "turnpike_client_cost_dollars_total",
            "Cost of all attempts that have a price, by client, US dollars.",
        );
        Ok(Self {
            requests: counters(&registry, "turnpike_client_requests_total", requests, &with("status"))?,
            tokens: counters(&registry, "turnpike_client_tokens_total", tokens, &with("kind"))?,
            cost: add(&registry, CounterVec::new(cost, &own)?)?,
            named: LabelLimit::with_length(
                settings.max_clients,
                settings.labels.len() * (MAX_VALUE_BYTES + SEPARATOR.len()),
            ),
            settings: settings.clone(),
            registry,
        })
    }

    fn record(&self, request: &ClientRequest<'_>) {
        let bounded = |value: &'_ Cow<'_, str>| {
            if value.len() > MAX_VALUE_BYTES { OTHER.to_owned() } else { value.to_string() }
        };
        let mut values: Vec<String> = request.values.iter().map(bounded).collect();
        if !self.named.admit(&values.join(SEPARATOR)) {
            values.iter_mut().for_each(|value| OTHER.clone_into(value));
        }
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let with = |more: &'static str| [values.as_slice(), &[more]].concat();
        self.requests.with_label_values(&with(status_text(request.status))).inc();
        for (kind, tokens) in [("input", request.input_tokens), ("output", request.output_tokens)] {
            if tokens > 0 {
                self.tokens.with_label_values(&with(kind)).inc_by(tokens);
            }
        }
        if request.dollars > 0.0 {
            self.cost.with_label_values(&values).inc_by(request.dollars);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::TextEncoder;

    fn text(clients: &Clients) -> String {
        TextEncoder::new().encode_to_string(&clients.gather()).unwrap()
    }

    fn record(clients: &Clients, key: &str, user: &str) {
        clients.record(|labels| {
            let value = |label: &ClientLabel| match label {
                ClientLabel::Key => Cow::Owned(key.to_owned()),
                ClientLabel::Workspace => Cow::Borrowed("default"),
                ClientLabel::User => Cow::Owned(user.to_owned()),
            };
            let values = labels.iter().map(value).collect();
            ClientRequest { values, status: 412, input_tokens: 3, output_tokens: 0, dollars: 0.5 }
        });
    }

    fn settings(labels: &[ClientLabel], max_clients: usize) -> MetricsSettings {
        MetricsSettings { labels: labels.to_vec(), max_clients }
    }

    #[test]
    fn clients_are_counted_by_the_labels_that_were_chosen_up_to_a_bound() {
        let clients = Clients::default();
        record(&clients, "a", "ann");
        assert_eq!(text(&clients), "");
        let both = settings(&[ClientLabel::Key, ClientLabel::User], 2);
        clients.choose(&both);
        for user in ["ann", "ann", "bob", "cid"] {
            record(&clients, "a", user);
        }
        record(&clients, &"k".repeat(MAX_VALUE_BYTES + 1), "ann");
        let page = text(&clients);
        for line in [
            r#"turnpike_client_requests_total{key="a",status="412",user="ann"} 2"#,
            r#"turnpike_client_requests_total{key="a",status="412",user="bob"} 1"#,
            r#"turnpike_client_requests_total{key="other",status="412",user="other"} 2"#,
            r#"turnpike_client_tokens_total{key="a",kind="input",user="ann"} 6"#,
            r#"turnpike_client_cost_dollars_total{key="a",user="ann"} 1"#,
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(!page.contains("output"), "{page}");
        // The same choice goes on, another one begins anew, none ends it.
        clients.choose(&both);
        assert_eq!(text(&clients), page);
        clients.choose(&settings(&[ClientLabel::Workspace], 2));
        record(&clients, "a", "ann");
        let page = text(&clients);
        assert!(page.contains(r#"turnpike_client_cost_dollars_total{workspace="default"} 0.5"#), "{page}");
        assert!(!page.contains("ann"), "{page}");
        clients.choose(&MetricsSettings::default());
        assert_eq!(text(&clients), "");
    }
}
