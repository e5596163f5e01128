//! Tests of the arithmetic on prices, and of what they can come to.

use super::super::rates::{Rate, Tier};
use super::*;

fn card(prices: &[(Unit, u64)]) -> RateCard {
    let mut rates = Rates::default();
    for (unit, price) in prices {
        rates.set(*unit, Rate::flat(*price));
    }
    RateCard::new("m", PriceSource::Catalogue, vec![Period { constraint: None, rates }], Vec::new())
}

fn cost(card: &RateCard, usage: Usage) -> Option<i64> {
    card.cost(&usage, None, false, Timestamp::UNIX_EPOCH)
}

fn estimate(card: &RateCard, input: u64, output: u64) -> Option<i64> {
    card.estimate(input, output, 0, ExpectedTier::Named(None), Timestamp::UNIX_EPOCH)
}

#[test]
fn parts_are_charged_once_and_at_their_own_rate() {
    let card = card(&[
        (Unit::Input, 3_000_000),
        (Unit::Output, 15_000_000),
        (Unit::CacheRead, 300_000),
        (Unit::CacheWrite, 3_750_000),
        (Unit::CacheWrite1h, 6_000_000),
    ]);
    let usage = Usage {
        input: 1_000,
        output: 100,
        cached: 400,
        cache_write: 300,
        cache_write_1h: 100,
        reasoning: 60,
        ..Usage::default()
    };
    // 300 × 3 + 400 × 0.3 + 200 × 3.75 + 100 × 6 + 100 × 15, in microdollars.
    assert_eq!(cost(&card, usage), Some(900_000 + 120_000 + 750_000 + 600_000 + 1_500_000));
}

#[test]
fn tiers_are_cliffs_for_the_whole_request() {
    let mut rates = Rates::default();
    let tiered = |base, start, price| Rate { base, tiers: Box::new([Tier { start, price }]) };
    rates.set(Unit::Input, tiered(1_250_000, 200_000, 2_500_000));
    rates.set(Unit::Output, tiered(10_000_000, 200_000, 15_000_000));
    let periods = vec![Period { constraint: None, rates }];
    let card = RateCard::new("m", PriceSource::Catalogue, periods, Vec::new());
    let usage = |input| Usage { input, output: 1_000, ..Usage::default() };
    assert_eq!(cost(&card, usage(200_000)), Some(260_000_000));
    assert_eq!(cost(&card, usage(200_001)), Some(515_002_500));
    assert_eq!(estimate(&card, 200_001, 1_000), Some(515_002_500));
}

#[test]
fn nothing_priced_is_unknown_and_not_zero() {
    let usage = Usage { input: 5, output: 5, ..Usage::default() };
    assert_eq!(cost(&card(&[]), usage), None);
    assert_eq!(cost(&card(&[]), Usage::default()), None);
    assert_eq!(cost(&card(&[(Unit::WebSearch, 1)]), usage), None);
    assert_eq!(cost(&card(&[(Unit::Input, 1)]), Usage::default()), Some(0));
    assert_eq!(cost(&card(&[(Unit::Request, 5_000_000)]), usage), Some(5_000_000));
    assert_eq!(estimate(&card(&[(Unit::WebSearch, 1)]), 1, 1), None);
}

#[test]
fn tokens_without_a_price_make_the_whole_unknown() {
    let input = Usage { input: 5, ..Usage::default() };
    let output = Usage { output: 5, ..Usage::default() };
    let both = input.plus(&output);
    let of_input = card(&[(Unit::Input, 1_000_000)]);
    assert_eq!([input, output, both].map(|usage| cost(&of_input, usage)), [Some(5_000), None, None]);
    assert_eq!((estimate(&of_input, 5, 0), estimate(&of_input, 5, 1)), (Some(5_000), None));
    let of_output = card(&[(Unit::Output, 1_000_000), (Unit::Request, 1)]);
    assert_eq!([input, output, both].map(|usage| cost(&of_output, usage)), [None, Some(5_001), None]);
    assert_eq!(estimate(&of_output, 1, 5), None);
    // Parts with prices of their own are enough, where they are all.
    let of_parts = card(&[(Unit::InputImage, 1_000_000), (Unit::CacheRead, 1_000_000)]);
    let images = Usage { input_image: 3, ..input };
    assert_eq!(cost(&of_parts, images), None);
    assert_eq!(cost(&of_parts, Usage { cached: 2, ..images }), Some(5_000));
    // Billed by the piece alone.
    let searched = Usage { rerank_searches: 1, ..input };
    assert_eq!(cost(&card(&[(Unit::RerankSearch, 2_000_000)]), searched), Some(2_000_000));
    assert_eq!(cost(&card(&[(Unit::WebSearch, 1)]), Usage { web_searches: 1, ..input }), None);
}

#[test]
fn the_most_is_that_of_the_dearest_tier_and_of_all_searches() {
    let rates = |input, output| {
        let mut rates = Rates::default();
        rates.set(Unit::Input, Rate::flat(input));
        rates.set(Unit::Output, Rate::flat(output));
        rates
    };
    let variant = |conditions: Vec<Condition>, rates| Variant {
        conditions: conditions.into(),
        period: Period { constraint: None, rates },
    };
    let tier = |name: &str| Condition::ServiceTier(name.into());
    let mut standard = rates(1_000, 1_000);
    standard.set(Unit::WebSearch, Rate::flat(10_000_000));
    let card = RateCard::new(
        "m",
        PriceSource::Catalogue,
        vec![Period { constraint: None, rates: standard }],
        vec![
            variant(vec![tier("flex")], rates(500, 500)),
            variant(vec![tier("priority")], rates(2_000, 3_000)),
            variant(vec![Condition::Other], rates(90_000, 90_000)),
            variant(vec![tier("batch"), Condition::Batch], rates(80_000, 80_000)),
        ],
    );
    let most = |tier, searches| card.estimate(1_000, 1_000, searches, tier, Timestamp::UNIX_EPOCH);
    assert_eq!(most(ExpectedTier::Named(None), 0), Some(2_000));
    assert_eq!(most(ExpectedTier::Named(Some("flex")), 0), Some(1_000));
    assert_eq!(most(ExpectedTier::UpTo("flex"), 0), Some(2_000));
    assert_eq!(most(ExpectedTier::UpTo("priority"), 0), Some(5_000));
    assert_eq!(most(ExpectedTier::Any, 0), Some(5_000));
    assert_eq!(most(ExpectedTier::Any, 3), Some(30_005_000));
    assert!(card.bills_searches());
    // A tier of input that makes it cheaper is no bound: the request may have less input.
    let mut falling = Rates::default();
    falling.set(Unit::Input, Rate { base: 9_000, tiers: Box::new([Tier { start: 10, price: 1_000 }]) });
    let periods = vec![Period { constraint: None, rates: falling }];
    let card = RateCard::new("m", PriceSource::Catalogue, periods, Vec::new());
    assert_eq!(estimate(&card, 1_000, 0), Some(9_000));
}

/// A text that is spoken has characters and no tokens: a price by the token says nothing of it.
#[test]
fn characters_have_a_price_of_their_own() {
    let spoken = Usage { characters: 20, ..Usage::default() };
    let by_character = card(&[(Unit::Characters, 15_000_000)]);
    assert_eq!(cost(&by_character, spoken), Some(300_000));
    assert!(by_character.bills_characters());
    assert_eq!(cost(&card(&[(Unit::Input, 1), (Unit::Output, 1)]), spoken), None);
    assert_eq!(cost(&by_character, Usage { input: 1, ..spoken }), Some(300_000));
    assert_eq!(estimate(&by_character, 1, 1), None);
}

#[test]
fn rounding_is_half_even_and_once() {
    let card = card(&[(Unit::Input, 100), (Unit::Output, 100)]);
    let usage = |input, output| Usage { input, output, ..Usage::default() };
    // 5 × 100 pd = 0.5 nd; 15 × 100 = 1.5; 25 × 100 = 2.5; in two parts the same.
    for (input, output, expected) in [(5, 0, 0), (15, 0, 2), (25, 0, 2), (10, 5, 2), (3, 2, 0), (6, 0, 1)] {
        assert_eq!(cost(&card, usage(input, output)), Some(expected), "{input} {output}");
    }
}

#[test]
fn contradictory_and_huge_usage_is_not_negative() {
    let card = card(&[(Unit::Input, 1_000_000), (Unit::CacheRead, 100_000), (Unit::Output, u64::MAX / 4)]);
    let usage = Usage { input: 10, cached: 100, ..Usage::default() };
    assert_eq!(cost(&card, usage), Some(10_000));
    let usage = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
    assert_eq!(cost(&card, usage), Some(i64::MAX));
    assert_eq!(estimate(&card, u64::MAX, u64::MAX), Some(i64::MAX));
}

#[test]
fn an_estimate_is_an_upper_bound_of_every_use() {
    let card = card(&[
        (Unit::Input, 1_000_000),
        (Unit::CacheRead, 100_000),
        (Unit::CacheWrite, 1_250_000),
        (Unit::CacheWrite1h, 2_000_000),
        (Unit::Output, 5_000_000),
        (Unit::Reasoning, 7_000_000),
    ]);
    let bound = estimate(&card, 100, 100).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..1_000 {
        let input = random.u64(0..=100);
        let cached = random.u64(0..=input);
        let cache_write = random.u64(0..=input - cached);
        let output = random.u64(0..=100);
        let usage = Usage {
            input,
            output,
            cached,
            cache_write,
            cache_write_1h: random.u64(0..=cache_write),
            reasoning: random.u64(0..=output),
            ..Usage::default()
        };
        assert!(cost(&card, usage).unwrap() <= bound, "{usage:?}");
    }
}

#[test]
fn prices_change_with_date_time_tier_and_batch() {
    let flat = |price| {
        let mut rates = Rates::default();
        rates.set(Unit::Input, Rate::flat(price));
        rates
    };
    let periods = vec![
        Period { constraint: None, rates: flat(1_000) },
        Period { constraint: Some(Constraint::From(1_000_000)), rates: flat(2_000) },
        Period { constraint: Some(Constraint::TimeOfDay { start: 80_000, end: 100 }), rates: flat(500) },
    ];
    let variant = |condition, price| Variant {
        conditions: Box::new([condition]),
        period: Period { constraint: None, rates: flat(price) },
    };
    let variants = vec![variant(Condition::ServiceTier("flex".into()), 100), variant(Condition::Batch, 50)];
    let card = RateCard::new("m", PriceSource::Catalogue, periods, variants);
    let usage = Usage { input: 1_000, ..Usage::default() };
    let cost = |second, tier, batch| {
        card.cost(&usage, tier, batch, Timestamp::from_second(second).unwrap()).unwrap()
    };
    assert_eq!(cost(200, None, false), 1_000);
    assert_eq!(cost(1_000_000, None, false), 2_000);
    assert_eq!(cost(99, None, false), 500);
    assert_eq!(cost(-86_400 * 5 + 80_000, None, false), 500);
    assert_eq!(cost(200, Some("flex"), false), 100);
    assert_eq!(cost(200, Some("flux"), false), 1_000);
    assert_eq!(cost(200, None, true), 50);
    assert_eq!(cost(200, Some("flex"), true), 100);
    assert_eq!(card.standard().cost(&usage, Some("flex"), true, Timestamp::UNIX_EPOCH), Some(500));
}

#[test]
fn the_hash_is_that_of_the_prices() {
    let one = card(&[(Unit::Input, 1), (Unit::Output, 2)]);
    assert_eq!(one.hash(), card(&[(Unit::Output, 2), (Unit::Input, 1)]).hash());
    assert_ne!(one.hash(), card(&[(Unit::Output, 1), (Unit::Input, 2)]).hash());
    // It is written into rows that outlive this version.
    assert_eq!(one.hash(), 6_261_737_711_426_260_008);
}
