//! Negotiated discounts and surcharges: factors on rates, for all units or for some.
//!
//! Not here: which rates they apply to (`price_book`).

use super::rates::{Rate, Rates};
use super::unit::Unit;

/// A factor of one.
const ONE: u64 = 1_000_000;

/// The largest factor.
const MAX: f64 = 1_000_000.0;

/// Factors in millionths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multiplier {
    default: u64,
    /// For the units that have a factor of their own.
    units: [Option<u64>; Unit::COUNT],
}

impl Multiplier {
    /// The same factor for all. `None` if it is not one; nothing is none, and neither is what is rounded to nothing: what costs nothing
    /// is declared free.
    pub fn new(factor: f64) -> Option<Self> {
        let default = millionths(factor).filter(|factor| *factor > 0)?;
        Some(Self { default, units: [None; Unit::COUNT] })
    }

    /// Gives a unit a factor of its own; `None` if it is not one.
    pub fn set(&mut self, unit: Unit, factor: f64) -> Option<()> {
        *self.units.get_mut(unit as usize)? = Some(millionths(factor)?);
        Some(())
    }

    /// The rates with the factors applied, each rounded to a millionth of a dollar per million. A unit with a factor of its own
    /// and no rate of its own gets the rate of what contains it.
    pub fn apply(&self, rates: &Rates) -> Rates {
        let mut changed = Rates::default();
        for unit in Unit::ALL {
            let own = self.units.get(unit as usize).copied().flatten();
            let containing = || {
                let containing = Unit::ALL.into_iter().rev().filter(|other| other.contains(unit));
                own.and(containing.filter_map(|other| rates.get(other)).next())
            };
            if let Some(rate) = rates.get(unit).or_else(containing) {
                changed.set(unit, times(rate, own.unwrap_or(self.default)));
            }
        }
        changed
    }
}

fn times(rate: &Rate, factor: u64) -> Rate {
    rate.map(|price| {
        let product = u128::from(price) * u128::from(factor) + u128::from(ONE / 2);
        u64::try_from(product / u128::from(ONE)).unwrap_or(u64::MAX)
    })
}

fn millionths(factor: f64) -> Option<u64> {
    (0.0..=MAX).contains(&factor).then(|| (factor * ONE as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_apply_to_all_units_or_to_one() {
        let mut rates = Rates::default();
        rates.set(Unit::Input, Rate::flat(2_000_000));
        rates.set(Unit::Output, Rate::flat(10_000_000));
        let mut multiplier = Multiplier::new(0.8).unwrap();
        multiplier.set(Unit::Output, 1.5).unwrap();
        multiplier.set(Unit::Reasoning, 0.5).unwrap();
        let changed = multiplier.apply(&rates);
        assert_eq!(changed.get(Unit::Input), Some(&Rate::flat(1_600_000)));
        assert_eq!(changed.get(Unit::Output), Some(&Rate::flat(15_000_000)));
        assert_eq!(changed.get(Unit::Reasoning), Some(&Rate::flat(5_000_000)));
        assert_eq!(changed.get(Unit::CacheRead), None);
        for wrong in [-1.0, 0.0, 1e-9, f64::NAN, f64::INFINITY, 2e6] {
            assert_eq!(Multiplier::new(wrong), None);
        }
    }
}
