//! The catalogue: providers, their models, and what each costs.
//!
//! Not here: the file it is read from (`decode`), and prices of the operator's own (`price_book`).

use super::compact_date;
use super::model_rule::ModelRule;
use super::rate_card::RateCard;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, OnceLock};

/// The data of genai-prices, MIT licence ([`LICENCE`]).
const SHIPPED: &[u8] = include_bytes!("data/genai-prices.json.gz");

/// What the licence of the data demands to be passed on with it.
pub const LICENCE: &str = include_str!("data/LICENSE");

/// Which version of the data is shipped.
pub const SHIPPED_VERSION: &str = "genai-prices-0.2.1";

/// The most bytes of a catalogue: the shipped one has 782,110.
pub const MAX_BYTES: usize = 16 << 20;

/// One model of a provider.
#[derive(Debug)]
pub struct CatalogModel {
    pub id: Box<str>,
    pub rule: ModelRule,
    pub card: Arc<RateCard>,
    /// Tokens.
    pub context_window: Option<u64>,
}

/// One provider. Models are in the order in which their rules are tried.
#[derive(Debug)]
pub struct CatalogProvider {
    pub id: Box<str>,
    pub models: Vec<CatalogModel>,
    /// Providers whose models it resells at their standard prices.
    pub resold: Vec<Box<str>>,
}

/// The providers, each as its JSON until something of it is looked up: two or three are in use, and all of them decoded would be
/// most of the memory of an idle gateway.
#[derive(Debug, Default)]
pub struct Catalog {
    providers: HashMap<Box<str>, Entry>,
}

#[derive(Debug)]
struct Entry {
    json: Box<RawValue>,
    /// `None`: it cannot be read. Of a catalogue that was read with [`Catalog::read`] all can.
    decoded: OnceLock<Option<Arc<CatalogProvider>>>,
}

impl Entry {
    fn new(json: Box<RawValue>) -> Self {
        Self { json, decoded: OnceLock::new() }
    }

    /// Decoded now, and kept.
    fn provider(&self) -> Option<&CatalogProvider> {
        self.decoded.get_or_init(|| self.decode()).as_deref()
    }

    fn decode(&self) -> Option<Arc<CatalogProvider>> {
        super::decode::provider(&self.json).ok().map(Arc::new)
    }
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub struct Found {
    pub card: Arc<RateCard>,
    /// The provider says in the name that it is free, and there is no price.
    pub is_free: bool,
    /// Tokens.
    pub context_window: Option<u64>,
}

impl Catalog {
    /// `providers`: ids, and the JSON of each.
    pub(super) fn new(providers: impl Iterator<Item = (Box<str>, Box<RawValue>)>) -> Self {
        Self { providers: providers.map(|(id, json)| (id, Entry::new(json))).collect() }
    }

    /// The one in the binary, the same for all. It is read by the first call, which takes some milliseconds: the process makes
    /// that call on a thread of its own when it starts.
    pub fn shipped() -> &'static Self {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        // A test proves that it can be read.
        CATALOG.get_or_init(|| Self::read_shipped().unwrap_or_default())
    }

    fn read_shipped() -> Result<Self, String> {
        let mut text = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(SHIPPED).take(MAX_BYTES as u64);
        reader.read_to_end(&mut text).map_err(|error| error.to_string())?;
        Self::read_trusted(&text)
    }

    /// A provider's model by the name that a client or a response used. The case of letters does not matter.
    pub fn find(&self, provider: &str, model: &str) -> Option<Found> {
        let name = model.trim().to_lowercase();
        let provider = self.providers.get(provider)?.provider()?;
        self.find_spelled(provider, &name).or_else(|| {
            let name = compact_date::with_hyphens(&name)?;
            self.find_spelled(provider, &name)
        })
    }

    fn find_spelled(&self, provider: &CatalogProvider, name: &str) -> Option<Found> {
        let of = |provider: &CatalogProvider| {
            let model = provider.models.iter().find(|model| model.rule.matches(name))?;
            let is_free = model.id.ends_with(":free") && !model.card.has_rates();
            Some(Found { card: Arc::clone(&model.card), is_free, context_window: model.context_window })
        };
        of(provider).or_else(|| {
            let mut resold = provider.resold.iter().filter_map(|id| self.providers.get(id)?.provider());
            // Prices for tiers and batch are the other provider's offers.
            resold.find_map(of).map(|found| Found { card: Arc::new(found.card.standard()), ..found })
        })
    }

    /// All providers. Those of which nothing was looked up are decoded for the caller alone.
    pub fn providers(&self) -> impl Iterator<Item = Arc<CatalogProvider>> {
        self.providers
            .values()
            .filter_map(|entry| entry.decoded.get().cloned().unwrap_or_else(|| entry.decode()))
    }

    pub fn models(&self) -> usize {
        self.providers().map(|provider| provider.models.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_data_can_be_read() {
        let shipped = Catalog::read_shipped().unwrap();
        assert_eq!(shipped.providers.len(), shipped.providers().count(), "one cannot be decoded");
        assert!(shipped.models() > 2_000);
        assert!(shipped.providers.values().all(|entry| entry.decoded.get().is_none()));
        assert!(shipped.find("openai", "gpt-4o").is_some());
        assert_eq!(shipped.providers.values().filter(|entry| entry.decoded.get().is_some()).count(), 1);
    }
}
