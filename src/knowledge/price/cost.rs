//! What a call cost, and whether that is certain.
//!
//! Not here: how it is calculated (`rate_card`).

use std::sync::Arc;

/// Whether a call has a price. An unknown price is never counted as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CostStatus {
    /// Calculated from rates.
    Priced,
    /// Declared free: by the operator, or by the provider in the model's name (`…:free`).
    Free,
    /// There is no price for the model, or none for what was used.
    Unknown,
}

impl CostStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Priced => "priced",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }

    /// The reverse of [`CostStatus::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Priced, Self::Free, Self::Unknown].into_iter().find(|status| status.as_str() == text)
    }
}

/// What one call cost, with all that is needed to calculate it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// `None` if and only if the status is [`CostStatus::Unknown`].
    pub nanodollars: Option<i64>,
    pub status: CostStatus,
    /// Which catalogue and overlay the price is from ([`super::PriceBook::version`]).
    pub price_version: Arc<str>,
    /// [`super::RateCard::hash`] of the rates; 0 if there are none.
    pub rates_hash: u64,
}

impl Cost {
    pub fn priced(nanodollars: i64, price_version: Arc<str>, rates_hash: u64) -> Self {
        Self { nanodollars: Some(nanodollars), status: CostStatus::Priced, price_version, rates_hash }
    }

    pub fn free(price_version: Arc<str>) -> Self {
        Self { nanodollars: Some(0), status: CostStatus::Free, price_version, rates_hash: 0 }
    }

    pub fn unknown(price_version: Arc<str>, rates_hash: u64) -> Self {
        Self { nanodollars: None, status: CostStatus::Unknown, price_version, rates_hash }
    }

    /// Both together: the sum is unknown if one of them is, and priced if one of them is.
    pub fn plus(&self, other: &Self) -> Self {
        let nanodollars = self.nanodollars.zip(other.nanodollars).map(|(one, two)| one.saturating_add(two));
        let status = match (self.status, other.status) {
            (CostStatus::Unknown, _) | (_, CostStatus::Unknown) => CostStatus::Unknown,
            (CostStatus::Free, CostStatus::Free) => CostStatus::Free,
            _ => CostStatus::Priced,
        };
        let rates_hash = if other.rates_hash == 0 { self.rates_hash } else { other.rates_hash };
        Self { nanodollars, status, price_version: Arc::clone(&other.price_version), rates_hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_unknown_if_one_part_is_and_free_only_if_all_are() {
        let version: Arc<str> = "v".into();
        let priced = Cost::priced(5, Arc::clone(&version), 1);
        let free = Cost::free(Arc::clone(&version));
        let unknown = Cost::unknown(version, 0);
        assert_eq!(priced.plus(&free).nanodollars, Some(5));
        assert_eq!(priced.plus(&free).status, CostStatus::Priced);
        assert_eq!(free.plus(&free).status, CostStatus::Free);
        assert_eq!(priced.plus(&unknown).nanodollars, None);
        assert_eq!(unknown.plus(&priced).status, CostStatus::Unknown);
        assert_eq!(priced.plus(&free).rates_hash, 1);
        for status in [CostStatus::Priced, CostStatus::Free, CostStatus::Unknown] {
            assert_eq!(CostStatus::parse(status.as_str()), Some(status));
        }
    }
}
