//! All prices in force: the catalogue, the operator's overlay, and how a name finds its price.
//!
//! The order is: prices of the stored provider (`own_prices`), the overlay, the catalogue. A book does not change; a newer one
//! replaces it as a whole. Not here: arithmetic (`rate_card`).

use super::catalog::{Catalog, SHIPPED_VERSION};
use super::cost::Cost;
use super::money;
use super::overlay::{Overlay, OverlayPrice};
use super::own_prices::{OwnPrices, multiplied};
use super::rate_card::{PriceSource, RateCard, Rating};
use super::rating_cache::RatingCache;
use super::unit::Unit;
use super::vendors::catalogue_provider;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;
use words::api::model_facts::ModelFacts;
use words::api::usage::Usage;

/// How often an overlay entry may refer to another (`like`).
const MAX_REFERENCES: usize = 8;

/// One call that is charged.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    /// The vendor's identifier (`openai`), as `provider` calls it.
    pub vendor: &'static str,
    /// As the request named it.
    pub model: &'a str,
    /// As the response named it: it counts where the request's name has no price, as names of deployments have none.
    pub response_model: Option<&'a str>,
    pub own: Option<&'a OwnPrices>,
    pub usage: &'a Usage,
    /// As the response reports it.
    pub service_tier: Option<&'a str>,
    pub is_batch: bool,
    /// When the request began.
    pub at: Timestamp,
}

#[derive(Debug)]
pub struct PriceBook {
    /// `None`: the one in the binary.
    catalog: Option<Arc<Catalog>>,
    /// Which catalogue it is.
    edition: Arc<str>,
    overlay: Arc<Overlay>,
    version: Arc<str>,
    cache: RatingCache,
}

impl PriceBook {
    /// The catalogue of the binary with the operator's overlay.
    pub fn shipped(overlay: Overlay) -> Self {
        Self::build(None, SHIPPED_VERSION.into(), Arc::new(overlay))
    }

    /// This book with another catalogue; `edition` names it.
    #[must_use]
    pub fn with_catalog(&self, catalog: Arc<Catalog>, edition: &str) -> Self {
        Self::build(Some(catalog), edition.into(), Arc::clone(&self.overlay)).using(self)
    }

    /// This book with the catalogue of the binary.
    #[must_use]
    pub fn with_shipped_catalog(&self) -> Self {
        Self::build(None, SHIPPED_VERSION.into(), Arc::clone(&self.overlay)).using(self)
    }

    /// This book with another overlay.
    #[must_use]
    pub fn with_overlay(&self, overlay: Arc<Overlay>) -> Self {
        Self::build(self.catalog.clone(), Arc::clone(&self.edition), overlay).using(self)
    }

    fn build(catalog: Option<Arc<Catalog>>, edition: Arc<str>, overlay: Arc<Overlay>) -> Self {
        let version = match overlay.fingerprint() {
            None => Arc::clone(&edition),
            Some(fingerprint) => format!("{edition}+{fingerprint:016x}").into(),
        };
        Self { catalog, edition, overlay, version, cache: RatingCache::default() }
    }

    /// Takes over which models are in use: a newer catalogue must have prices for them.
    fn using(self, before: &Self) -> Self {
        for (vendor, model, _) in before.cache.without_own_prices() {
            self.rating(&vendor, &model, None);
        }
        self
    }

    pub fn catalog(&self) -> &Catalog {
        match &self.catalog {
            Some(catalog) => catalog,
            None => Catalog::shipped(),
        }
    }

    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Which catalogue it is, without the overlay.
    pub fn edition(&self) -> &Arc<str> {
        &self.edition
    }

    /// Vendor, model and prices of what was looked up and is in the catalogue.
    pub(crate) fn models_in_use(&self) -> Vec<(Box<str>, Box<str>, Arc<RateCard>)> {
        let ratings = self.cache.without_own_prices().into_iter();
        let catalogued = ratings.filter_map(|(vendor, model, rating)| match rating {
            Rating::Priced(card) if card.source == PriceSource::Catalogue => Some((vendor, model, card)),
            _ => None,
        });
        catalogued.collect()
    }

    /// Names catalogue and overlay; every row that is priced keeps it.
    pub fn version(&self) -> &Arc<str> {
        &self.version
    }

    /// What a model costs. A lookup that was made before allocates nothing.
    pub fn rating(&self, vendor: &str, model: &str, own: Option<&OwnPrices>) -> Rating {
        let identity = own.map_or(0, OwnPrices::identity);
        if let Some(rating) = self.cache.get(identity, vendor, model) {
            return rating;
        }
        let rating = self.find(vendor, model, own);
        self.cache.insert(identity, vendor, model, rating.clone());
        rating
    }

    /// What a call cost.
    pub fn cost(&self, charge: &Charge<'_>) -> Cost {
        self.cost_by(charge, |model| self.rating(charge.vendor, model, charge.own))
    }

    /// What a call cost, with the ratings of models that `rating` finds.
    pub(super) fn cost_by(&self, charge: &Charge<'_>, rating: impl Fn(&str) -> Rating) -> Cost {
        let version = || Arc::clone(&self.version);
        let rating = match (rating(charge.model), charge.response_model) {
            (Rating::Unknown, Some(model)) if model != charge.model => rating(model),
            (rating, _) => rating,
        };
        let card = match rating {
            Rating::Free => return Cost::free(version()),
            Rating::Unknown => return Cost::unknown(version(), 0),
            Rating::Priced(card) => card,
        };
        match card.cost(charge.usage, charge.service_tier, charge.is_batch, charge.at) {
            Some(nanodollars) => Cost::priced(nanodollars, version(), card.hash()),
            None => Cost::unknown(version(), card.hash()),
        }
    }

    /// How many tokens a model has room for, as far as that is listed.
    pub fn context_window(&self, vendor: &str, model: &str) -> Option<u64> {
        let (provider, name) = catalogue_provider(vendor, model);
        self.catalog().find(&provider, name)?.context_window
    }

    /// Adds what is known of a model to what its provider says, whose word counts. Not kept: a list of models is no use of them.
    pub fn describe(
        &self,
        vendor: &str,
        model: &str,
        own: Option<&OwnPrices>,
        at: Timestamp,
        facts: &mut ModelFacts,
    ) {
        facts.context_window = facts.context_window.or_else(|| self.context_window(vendor, model));
        facts.prices = match self.find(vendor, model, own) {
            Rating::Unknown => None,
            Rating::Free => {
                Some([Unit::Input, Unit::Output].into_iter().filter_map(|unit| price(unit, 0)).collect())
            }
            Rating::Priced(card) => card
                .rates(at)
                .map(|rates| rates.iter().filter_map(|(unit, rate)| price(unit, rate.base)).collect()),
        };
    }

    fn find(&self, vendor: &str, model: &str, own: Option<&OwnPrices>) -> Rating {
        let Some(own) = own else { return self.listed(vendor, model, 0) };
        match own.model(model) {
            Some(rating) => rating,
            None => own.adjust(self.listed(vendor, own.base_model(model), 0)),
        }
    }

    /// By the overlay, else by the catalogue.
    fn listed(&self, vendor: &str, model: &str, references: usize) -> Rating {
        let Some(entry) = self.overlay.find(vendor, model) else { return self.catalogued(vendor, model) };
        let rating = match &entry.price {
            OverlayPrice::Free => return Rating::Free,
            OverlayPrice::Rates(card) => Rating::Priced(Arc::clone(card)),
            OverlayPrice::Like { .. } if references >= MAX_REFERENCES => return Rating::Unknown,
            OverlayPrice::Like { vendor: other, model } => {
                self.listed(other.as_deref().unwrap_or(vendor), model, references + 1)
            }
            OverlayPrice::Same => self.catalogued(vendor, model),
        };
        match (rating, &entry.multiplier) {
            (Rating::Priced(card), Some(multiplier)) => multiplied(&card, PriceSource::Overlay, multiplier),
            (rating, _) => rating,
        }
    }

    fn catalogued(&self, vendor: &str, model: &str) -> Rating {
        // A fine-tuned model costs more than the one it was made of, whose name it begins with.
        if model.starts_with("ft:") {
            return Rating::Unknown;
        }
        let (provider, name) = catalogue_provider(vendor, model);
        match self.catalog().find(&provider, name) {
            Some(found) if found.is_free => Rating::Free,
            Some(found) if found.card.has_rates() => Rating::Priced(found.card),
            // OpenRouter's own name for what it gives away, also for models that the catalogue does not have.
            _ if vendor == "openrouter" && model.ends_with(":free") => Rating::Free,
            _ => Rating::Unknown,
        }
    }
}

/// A price of a kind of token, as a list of models shows it: US dollars per million.
fn price(unit: Unit, base: u64) -> Option<(String, Value)> {
    let name = unit.price_key().strip_suffix("_mtok")?;
    Some((name.to_owned(), money::price_in_dollars(base).into()))
}

impl Default for PriceBook {
    fn default() -> Self {
        Self::shipped(Overlay::default())
    }
}

impl Rating {
    pub fn card(&self) -> Option<&Arc<RateCard>> {
        match self {
            Self::Priced(card) => Some(card),
            Self::Free | Self::Unknown => None,
        }
    }
}
