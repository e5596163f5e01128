//! Reservations and settlements as the parameters of one statement, and its rows as what became of each.
//!
//! Buckets are named once, in ascending order: so the database locks them.

use super::super::super::entity::State;
use super::super::claim::{
    BucketReply, Claim, Order, Reply, SettleReply, Settlement, UNCONFIRMED, Verdict, end_of,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

/// A reservation to be made, and who waits for it.
pub(super) struct Job {
    pub order: Arc<Order>,
    pub reply: oneshot::Sender<Result<Reply, String>>,
}

/// Buckets by their names, with what each is of.
struct Buckets<T>(BTreeMap<u128, T>);

impl<T> Buckets<T> {
    fn ids(&self) -> Vec<Uuid> {
        self.0.keys().map(|id| Uuid::from_u128(*id)).collect()
    }

    /// Where each is, from 1.
    fn places(&self) -> BTreeMap<u128, i32> {
        self.0.keys().copied().zip(1..).collect()
    }
}

/// Reservations as parameters.
pub(super) struct Reserving {
    ids: Vec<Uuid>,
    limits: Vec<Uuid>,
    indices: Vec<i16>,
    value_keys: Vec<String>,
    most: Vec<i64>,
    holds: Vec<Uuid>,
    lifetimes: Vec<i64>,
    not_after: Vec<i64>,
    /// The claims of each, from 1.
    first: Vec<i32>,
    last: Vec<i32>,
    places: Vec<i32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    generations: Vec<i64>,
    values: Vec<i64>,
    amounts: Vec<i64>,
    rules: Vec<i16>,
    smooth: Vec<bool>,
    alerts: Vec<i64>,
    likely: Vec<i64>,
}

impl Reserving {
    pub(super) const SQL: &str = "SELECT * FROM limits_reserve_3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
    /// Of those that nothing may refuse.
    pub(super) const SQL_OF_MADE: &str = "SELECT * FROM limits_reserve_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";

    pub(super) fn of(jobs: &[Job]) -> Self {
        let orders = jobs.iter().map(|job| &*job.order);
        let claims: Vec<&Claim> = orders.clone().flat_map(|order| &order.claims).collect();
        let buckets = Buckets(claims.iter().map(|claim| (claim.entity, *claim)).collect());
        let each = || buckets.0.values();
        let places = buckets.places();
        let millis = |lifetime: Duration| i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        let ends = orders.clone().scan(0_i32, |count, order| {
            *count = count.saturating_add(i32::try_from(order.claims.len()).unwrap_or(i32::MAX));
            Some(*count)
        });
        let last: Vec<i32> = ends.collect();
        let of = |value: fn(&Claim) -> i64| -> Vec<i64> { claims.iter().map(|claim| value(claim)).collect() };
        Self {
            ids: buckets.ids(),
            limits: each().map(|claim| claim.limit.id).collect(),
            indices: each().map(|claim| i16::from(claim.limit.index)).collect(),
            // The database's texts have no such character, and clients choose values.
            value_keys: each().map(|claim| claim.value_key.replace('\0', "\u{fffd}")).collect(),
            most: each().map(|claim| i64::from(claim.max_buckets())).collect(),
            holds: orders.clone().map(|order| order.hold).collect(),
            lifetimes: orders.clone().map(|order| millis(order.lifetime)).collect(),
            not_after: orders.map(|order| order.not_after).collect(),
            first: std::iter::once(1)
                .chain(last.iter().map(|last| last.saturating_add(1)))
                .take(last.len())
                .collect(),
            last,
            places: claims.iter().filter_map(|claim| places.get(&claim.entity).copied()).collect(),
            starts: of(|claim| claim.window.start),
            ends: of(|claim| end_of(&claim.window)),
            generations: of(|claim| i64::from(claim.limit.generation)),
            values: of(|claim| claim.limit.value()),
            amounts: of(|claim| claim.amount),
            rules: claims.iter().map(|claim| claim.rule as i16).collect(),
            smooth: claims.iter().map(|claim| claim.limit.smooth).collect(),
            alerts: of(Claim::alert_at),
            likely: of(|claim| claim.likely),
        }
    }

    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 20] {
        [
            &self.ids,
            &self.limits,
            &self.indices,
            &self.value_keys,
            &self.most,
            &self.holds,
            &self.lifetimes,
            &self.not_after,
            &self.first,
            &self.last,
            &self.places,
            &self.starts,
            &self.ends,
            &self.generations,
            &self.values,
            &self.amounts,
            &self.rules,
            &self.smooth,
            &self.alerts,
            &self.likely,
        ]
    }

    /// Of those that nothing may refuse: all but what is likely.
    pub(super) fn values_of_made(&self) -> Vec<&(dyn ToSql + Sync)> {
        let [values @ .., _] = self.values();
        values.to_vec()
    }
}

/// What became of each reservation.
pub(super) fn replies(rows: &[Row], jobs: &[Job]) -> Result<Vec<Reply>, Error> {
    let mut rows = rows.iter();
    jobs.iter().map(|job| reply(&mut rows, &job.order.claims)).collect()
}

/// What became of a reservation: a row for each of its claims.
fn reply(rows: &mut std::slice::Iter<'_, Row>, claims: &[Claim]) -> Result<Reply, Error> {
    // Without a row nothing is held.
    let mut kind = 2_i16;
    let mut now = 0;
    let mut full = None;
    let mut buckets = Vec::with_capacity(claims.len());
    for (index, (claim, row)) in claims.iter().zip(rows).enumerate() {
        (kind, now) = (row.try_get(0)?, row.try_get(1)?);
        let bucket = bucket(row, claim)?;
        if kind == 3 && bucket.verdict != Verdict::Room && full.is_none() {
            full = Some(index);
        }
        buckets.push(bucket);
    }
    Ok(match (kind, full) {
        (0, _) => Reply::Held { now, buckets },
        (1, _) => Reply::Refused { now, buckets },
        (3, Some(claim)) => Reply::Overflow { claim },
        _ => Reply::OtherWindow { now },
    })
}

fn bucket(row: &Row, claim: &Claim) -> Result<BucketReply, Error> {
    let verdict = match row.try_get::<_, i16>(2)? {
        0 => Verdict::Room,
        1 => Verdict::Rate,
        2 => Verdict::Reserved,
        _ => Verdict::Spent,
    };
    Ok(BucketReply {
        verdict,
        state: State::reported(claim.window, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?),
        epoch: row.try_get(6)?,
        resets: u32::try_from(row.try_get::<_, i64>(7)?).unwrap_or(u32::MAX),
        amount: row.try_get(8)?,
        is_clamped: row.try_get(9)?,
        is_exhausted_now: row.try_get(10)?,
        // Its hold has that of the bucket.
        generation: claim.limit.generation,
    })
}

/// Settlements as parameters. What a hold is of is in the database: only what takes its place is sent.
pub(super) struct Settling {
    ids: Vec<Uuid>,
    places: Vec<i32>,
    holds: Vec<Uuid>,
    generations: Vec<i64>,
    resets: Vec<i64>,
    actual: Vec<i64>,
    values: Vec<i64>,
    alerts: Vec<i64>,
    are_usage: Vec<bool>,
    cancel: Vec<bool>,
}

impl Settling {
    pub(super) const SQL: &str = "SELECT * FROM limits_settle_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

    pub(super) fn of(settlements: &[Settlement]) -> Self {
        let each = settlements.iter();
        let buckets = Buckets(each.clone().map(|settlement| (settlement.entity, ())).collect());
        let places = buckets.places();
        Self {
            ids: buckets.ids(),
            places: each.clone().filter_map(|of| places.get(&of.entity).copied()).collect(),
            holds: each.clone().map(|of| of.hold).collect(),
            generations: each.clone().map(|of| i64::from(of.generation)).collect(),
            resets: each.clone().map(|of| i64::from(of.resets)).collect(),
            actual: each.clone().map(|of| of.actual).collect(),
            values: each.clone().map(|of| of.limit.value()).collect(),
            alerts: each.clone().map(|of| of.limit.alert_at().unwrap_or(-1)).collect(),
            are_usage: each.clone().map(|of| !of.limit.is_rate()).collect(),
            cancel: each.map(|of| of.amount == UNCONFIRMED).collect(),
        }
    }

    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 10] {
        [
            &self.ids,
            &self.places,
            &self.holds,
            &self.generations,
            &self.resets,
            &self.actual,
            &self.values,
            &self.alerts,
            &self.are_usage,
            &self.cancel,
        ]
    }
}

/// What each settlement came to.
pub(super) fn settled(rows: &[Row]) -> Result<Vec<SettleReply>, Error> {
    let reply = |row: &Row| {
        let is_threshold_now = row.try_get(1)?;
        let is_exhausted_now = row.try_get(2)?;
        Ok(SettleReply { spent: row.try_get(0)?, is_threshold_now, is_exhausted_now })
    };
    rows.iter().map(reply).collect()
}
