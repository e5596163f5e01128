//! The catalogue: providers, their models, and what each costs.
//!
//! Not here: the file it is read from (`decode`), and prices of the operator's own (`price_book`).

use super::compact_date;
use super::model_rule::ModelRule;
use super::rate_card::RateCard;
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

#[derive(Debug, Default)]
pub struct Catalog {
    providers: HashMap<Box<str>, CatalogProvider>,
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
    pub fn new(providers: Vec<CatalogProvider>) -> Self {
        Self { providers: providers.into_iter().map(|provider| (provider.id.clone(), provider)).collect() }
    }

    /// The one in the binary, the same for all. It is read by the first call, which takes tens of milliseconds: the process makes
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
        Self::read(&text)
    }

    /// A provider's model by the name that a client or a response used. The case of letters does not matter.
    pub fn find(&self, provider: &str, model: &str) -> Option<Found> {
        let name = model.trim().to_lowercase();
        let provider = self.providers.get(provider)?;
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
            let mut resold = provider.resold.iter().filter_map(|id| self.providers.get(id));
            // Prices for tiers and batch are the other provider's offers.
            resold.find_map(of).map(|found| Found { card: Arc::new(found.card.standard()), ..found })
        })
    }

    pub fn providers(&self) -> impl Iterator<Item = &CatalogProvider> {
        self.providers.values()
    }

    pub fn models(&self) -> usize {
        self.providers.values().map(|provider| provider.models.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_data_can_be_read() {
        let read = Catalog::read_shipped().unwrap();
        assert_eq!(read.models(), Catalog::shipped().models());
        assert!(read.models() > 2_000);
    }
}
