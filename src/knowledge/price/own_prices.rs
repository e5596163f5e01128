//! Prices of one stored provider: fixed ones of its models, and negotiated factors on all others.
//!
//! Not here: where they are written (`own_records`), and the overlay, which is for all providers.

use super::multiplier::Multiplier;
use super::rate_card::{PriceSource, RateCard, Rating};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct OwnPrices {
    /// Different for different prices, and not 0: ratings are kept by it.
    identity: u64,
    multiplier: Option<Multiplier>,
    /// By name in lower case.
    models: HashMap<Box<str>, OwnModel>,
}

/// A model of its own.
#[derive(Debug, Clone)]
pub enum OwnModel {
    /// Fixed prices, which no factor changes.
    Fixed(Rating),
    /// Costs what another costs: the model that it was made of.
    Like(Box<str>),
}

impl OwnPrices {
    /// `None` if there is nothing to say: the prices are those of everyone.
    pub fn new(
        identity: u64,
        multiplier: Option<Multiplier>,
        models: HashMap<Box<str>, OwnModel>,
    ) -> Option<Self> {
        let is_empty = multiplier.is_none() && models.is_empty();
        (!is_empty).then(|| Self { identity: identity.max(1), multiplier, models })
    }

    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// The fixed price of a model.
    pub fn model(&self, model: &str) -> Option<Rating> {
        match self.entry(model)? {
            OwnModel::Fixed(rating) => Some(rating.clone()),
            OwnModel::Like(_) => None,
        }
    }

    /// The model whose price counts.
    pub(crate) fn base_model<'a>(&'a self, model: &'a str) -> &'a str {
        match self.entry(model) {
            Some(OwnModel::Like(base)) => base,
            _ => model,
        }
    }

    /// A price of everyone with the negotiated factors.
    pub(crate) fn adjust(&self, rating: Rating) -> Rating {
        match (&self.multiplier, rating) {
            (Some(multiplier), Rating::Priced(card)) => multiplied(&card, PriceSource::Provider, multiplier),
            (_, rating) => rating,
        }
    }

    fn entry(&self, model: &str) -> Option<&OwnModel> {
        if self.models.is_empty() {
            return None;
        }
        self.models.get(model.to_lowercase().as_str())
    }
}

/// A card with factors on its prices. Factors that leave nothing of them leave no price: that a model is free is declared in other ways.
pub(super) fn multiplied(card: &RateCard, source: PriceSource, multiplier: &Multiplier) -> Rating {
    let changed = card.map(source, |rates| multiplier.apply(rates));
    if changed.is_positive() { Rating::Priced(Arc::new(changed)) } else { Rating::Unknown }
}
