//! Picks one of several targets: by weight, by latency, by price, or by a sticky key.
//!
//! Pure: random numbers are arguments, uniform in [0, 1). Not here: which targets are usable, and what their
//! latency is.

use ring::digest::{Context, SHA256};
use serde_json::Value;
use std::borrow::Cow;
use words::config::query::{Fact, Facts};
use words::json::string::unquote;
use words::json::walk;

/// Picks one of the usable targets, each with a probability proportional to its weight.
/// `weights` are finite and at least 0; weight 0 is never picked. `None`: no target can be picked.
pub fn weighted(weights: &[f64], usable: &dyn Fn(usize) -> bool, random: f64) -> Option<usize> {
    let heaviest = candidates(weights, usable).map(|(_, weight)| weight).fold(0.0, f64::max);
    // Weights are divided by the heaviest, since the sum of very large weights would overflow to infinity.
    let shares = || candidates(weights, usable).map(|(index, weight)| (index, weight / heaviest));
    let point = random * shares().map(|(_, share)| share).sum::<f64>();
    let mut reached = 0.0;
    let mut picked = None;
    for (index, share) in shares().filter(|(_, share)| *share > 0.0) {
        // If rounding leaves the point beyond the sum, the last one stays picked.
        picked = Some(index);
        reached += share;
        if point < reached {
            break;
        }
    }
    picked
}

fn candidates<'a>(
    weights: &'a [f64],
    usable: &'a dyn Fn(usize) -> bool,
) -> impl Iterator<Item = (usize, f64)> + 'a {
    let all = weights.iter().copied().enumerate();
    all.filter(move |(index, weight)| *weight > 0.0 && usable(*index))
}

/// Draws two different targets by weight, of which the better is to be taken (power of two choices: this
/// avoids slow targets without sending every request to the fastest). `None`: no target can be picked. The
/// second is `None` if only one can.
pub(crate) fn power_of_two(
    weights: &[f64],
    usable: &dyn Fn(usize) -> bool,
    random1: f64,
    random2: f64,
) -> Option<(usize, Option<usize>)> {
    let first = weighted(weights, usable, random1)?;
    let second = weighted(weights, &|index| index != first && usable(index), random2);
    Some((first, second))
}

/// Picks the usable target with the lowest price; equal prices have equal probability. `None`: none is
/// usable.
pub(crate) fn cheapest(prices: &[f64], usable: &dyn Fn(usize) -> bool, random: f64) -> Option<usize> {
    let left = || prices.iter().copied().enumerate().filter(|(index, _)| usable(*index));
    let lowest = left().map(|(_, price)| price).min_by(f64::total_cmp)?;
    let equals = || left().filter(|(_, price)| price.total_cmp(&lowest).is_eq());
    let count = equals().count();
    let nth = ((random * count as f64) as usize).min(count.saturating_sub(1));
    equals().nth(nth).map(|(index, _)| index)
}

/// Identifies a client for sticky balancing: SHA-256 over the service key and those of `hash_fields` that are
/// present (`metadata.x.y`, `params.x.y`, `headers.x`). It is the same for the same client on
/// every instance. It does not distinguish configs or their groups.
pub fn sticky_key(service_key: &str, hash_fields: &[String], facts: &dyn Facts) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    // Lengths are hashed too, so that no value can imitate a key and another field.
    let mut add = |part: &str| {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    };
    add(service_key);
    for field in hash_fields {
        if let Some(value) = field_text(field, facts) {
            add(field);
            add(&value);
        }
    }
    let mut key = [0; 32];
    for (to, from) in key.iter_mut().zip(hash.finish().as_ref()) {
        *to = *from;
    }
    key
}

fn field_text<'a>(field: &str, facts: &'a dyn Facts) -> Option<Cow<'a, str>> {
    let (from, name) = field.split_once('.')?;
    if from == "headers" {
        return facts.header(name);
    }
    let (name, rest) = name.split_once('.').map_or((name, None), |(name, rest)| (name, Some(rest)));
    let fact = match from {
        "metadata" => facts.metadata(name)?,
        "params" => facts.param(name)?,
        _ => return None,
    };
    match (fact, rest) {
        (Fact::Compound(json), Some(rest)) => member(json, rest),
        (_, Some(_)) => None,
        // The JSON text, not `[object Object]`, which would be the same for all objects.
        (Fact::Compound(json), None) => std::str::from_utf8(json).ok().map(Cow::Borrowed),
        (Fact::String(quoted), None) => unquote(quoted),
        (fact, None) => Some(Cow::Owned(fact.excerpt().text().to_owned())),
    }
}

/// The text of a value in a JSON text at a path of names joined by dots.
fn member<'a>(json: &'a [u8], path: &str) -> Option<Cow<'a, str>> {
    let named = |json: &'a [u8], name: &str| {
        let is_named = |raw: &[u8]| match memchr::memchr(b'\\', raw) {
            None => raw == name.as_bytes(),
            Some(_) => unquote(&[b"\"", raw, b"\""].concat()).is_some_and(|text| text == name),
        };
        // Parsers take the last of several members of one name.
        walk::members(json)?.filter(|(raw, _)| is_named(raw)).last().map(|(_, value)| value)
    };
    let found = path.split('.').try_fold(json, named)?;
    if found.starts_with(b"\"") {
        return unquote(found);
    }
    // In one spelling, whatever the white space.
    let value: Value = serde_json::from_slice(found).ok()?;
    Some(Cow::Owned(value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::facts::RequestFacts;
    use bytes::Bytes;
    use http::HeaderMap;
    use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
    use words::api::body::Body;

    const ALL: &dyn Fn(usize) -> bool = &|_| true;

    #[test]
    fn a_weighted_pick_follows_the_random_number() {
        for (weights, random, wanted) in [
            (&[1.0, 1.0][..], 0.0, Some(0)),
            (&[1.0, 1.0], 0.4999, Some(0)),
            (&[1.0, 1.0], 0.5, Some(1)),
            (&[0.0, 1.0], 0.0, Some(1)),
            (&[1.0, 0.0], 0.9999, Some(0)),
            (&[0.7, 0.2, 0.1], 0.69, Some(0)),
            (&[0.7, 0.2, 0.1], 0.89, Some(1)),
            (&[0.7, 0.2, 0.1], 0.91, Some(2)),
            (&[300.0, 100.0], 0.76, Some(1)),
            (&[f64::MAX, f64::MAX], 0.75, Some(1)),
            (&[f64::MIN_POSITIVE, 0.0], 0.5, Some(0)),
            (&[0.0, 0.0], 0.5, None),
            (&[], 0.5, None),
        ] {
            assert_eq!(weighted(weights, ALL, random), wanted, "{weights:?} {random}");
        }
        assert_eq!(weighted(&[5.0, 1.0, 1.0], &|index| index != 0, 0.6), Some(2));
        assert_eq!(weighted(&[5.0, 0.0], &|index| index != 0, 0.6), None);
    }

    #[test]
    fn power_of_two_picks_differ_and_cheapest_is_lowest() {
        assert_eq!(power_of_two(&[1.0, 1.0, 1.0], ALL, 0.0, 0.0), Some((0, Some(1))));
        assert_eq!(power_of_two(&[1.0, 1.0, 1.0], ALL, 0.99, 0.99), Some((2, Some(1))));
        assert_eq!(power_of_two(&[1.0, 0.0], ALL, 0.5, 0.5), Some((0, None)));
        assert_eq!(power_of_two(&[], ALL, 0.5, 0.5), None);
        assert_eq!(cheapest(&[3.0, 1.0, 1.0, 2.0], ALL, 0.2), Some(1));
        assert_eq!(cheapest(&[3.0, 1.0, 1.0, 2.0], ALL, 0.9), Some(2));
        assert_eq!(cheapest(&[3.0, 1.0, 1.0, 2.0], &|index| index % 3 == 0, 0.9), Some(3));
        assert_eq!(cheapest(&[0.0], ALL, 0.0), Some(0));
        assert_eq!(cheapest(&[1.0], &|_| false, 0.0), None);
    }

    #[test]
    fn picks_are_distributed_by_weight() {
        let mut chance = fastrand::Rng::with_seed(7);
        let weights = [0.5, 0.0, 3.0, 1.5];
        let rounds = 20_000;
        let mut picked = [0_u32; 4];
        for _ in 0..rounds {
            picked[weighted(&weights, ALL, chance.f64()).unwrap()] += 1;
        }
        for (weight, picked) in weights.iter().zip(picked) {
            let share = weight / 5.0;
            let found = f64::from(picked) / f64::from(rounds);
            assert!((share - found).abs() < 0.015, "{share} of the picks, not {found}");
        }
    }

    fn key(service_key: &str, fields: &[&str], metadata: &str, body: &'static str) -> [u8; 32] {
        let body = Body::parse(Bytes::from_static(body.as_bytes())).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-user", "u".parse().unwrap());
        headers.insert("authorization", "Bearer secret".parse().unwrap());
        let facts = RequestFacts::new(Some(&body), &headers, &[], Some(metadata), "/");
        let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
        sticky_key(service_key, &fields, &facts)
    }

    #[test]
    fn a_sticky_key_depends_on_the_named_fields_only() {
        let fields = ["metadata.user.id", "params.model", "headers.x-user"];
        let one = key("k", &fields, r#"{"user":{"id":1}}"#, r#"{"model":"m","n":1}"#);
        assert_eq!(one, key("k", &fields, r#"{"user":{"id":1,"x":2}}"#, r#"{"n":2,"model":"m"}"#));
        for other in [
            key("l", &fields, r#"{"user":{"id":1}}"#, r#"{"model":"m"}"#),
            key("k", &fields, r#"{"user":{"id":2}}"#, r#"{"model":"m"}"#),
            key("k", &fields, r#"{"user":{}}"#, r#"{"model":"m"}"#),
            key("k", &fields, r#"{"user":1}"#, r#"{"model":"m"}"#),
            key("k", &fields, r#"{"user":{"id":1}}"#, r#"{"model":"o"}"#),
            key("k", &fields[..2], r#"{"user":{"id":1}}"#, r#"{"model":"m"}"#),
        ] {
            assert_ne!(one, other);
        }
        // Objects are compared by their JSON text, and fields that configs cannot read are ignored.
        assert_ne!(
            key("k", &["metadata.a"], r#"{"a":{"b":1}}"#, "{}"),
            key("k", &["metadata.a"], r#"{"a":{"b":2}}"#, "{}")
        );
        assert_eq!(key("k", &["headers.authorization"], "{}", "{}"), key("k", &[], "{}", "{}"));
        // A value cannot imitate another field.
        assert_ne!(
            key("k", &["metadata.a", "metadata.b"], r#"{"a":"1|metadata.b:2"}"#, "{}"),
            key("k", &["metadata.a", "metadata.b"], r#"{"a":"1","b":"2"}"#, "{}"),
        );
    }

    fn weights() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(prop::sample::select(vec![0.0, 0.1, 1.0, 3.0, 1e9, f64::MAX]), 0..8)
    }

    proptest! {
        /// Checks the rule itself: a pick is usable and has a weight, and there is no pick only if no target
        /// qualifies.
        #[test]
        fn only_usable_weighted_targets_are_picked(weights in weights(), barred in any::<u8>(), random in 0.0..1.0, random2 in 0.0..1.0) {
            let usable = |index: usize| barred >> index & 1 == 0;
            let eligible = |index: usize| usable(index) && weights[index] > 0.0;
            let count = (0..weights.len()).filter(|index| eligible(*index)).count();
            let picked = weighted(&weights, &usable, random);
            prop_assert_eq!(picked.is_some(), count > 0);
            prop_assert!(picked.is_none_or(eligible));
            match power_of_two(&weights, &usable, random, random2) {
                None => prop_assert_eq!(count, 0),
                Some((first, second)) => {
                    prop_assert!(eligible(first) && second.is_none_or(|second| second != first && eligible(second)));
                    prop_assert_eq!(second.is_some(), count > 1);
                }
            }
            let cheap = cheapest(&weights, &usable, random);
            let lowest = (0..weights.len()).filter(|index| usable(*index)).map(|index| weights[index]).reduce(f64::min);
            prop_assert_eq!(cheap.map(|index| weights[index]), lowest);
            prop_assert!(cheap.is_none_or(usable));
        }
    }
}
