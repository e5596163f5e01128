//! Leases as the parameters of one statement, and its rows as what became of each.

use super::super::super::entity::State;
use super::super::claim::{LeaseOrder, LeaseReply, end_of};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

/// Orders as parameters.
pub(super) struct Leasing {
    entities: Vec<Uuid>,
    before: Vec<Option<Uuid>>,
    generations: Vec<i64>,
    resets: Vec<i64>,
    actual: Vec<i64>,
    values: Vec<i64>,
    alerts: Vec<i64>,
    are_usage: Vec<bool>,
    smooth: Vec<bool>,
    next: Vec<Uuid>,
    kept: Vec<i64>,
    rooms: Vec<i64>,
    wanted: Vec<i64>,
    least: Vec<i64>,
    shares: Vec<i64>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    lifetimes: Vec<i64>,
    not_after: Vec<i64>,
}

impl Leasing {
    pub(super) const SQL: &str = "SELECT * FROM limits_lease_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";

    pub(super) fn of(orders: &[LeaseOrder]) -> Self {
        let each = orders.iter();
        let of = |value: fn(&LeaseOrder) -> i64| -> Vec<i64> { orders.iter().map(value).collect() };
        Self {
            entities: each.clone().map(|order| Uuid::from_u128(order.entity)).collect(),
            before: each.clone().map(|order| order.before.map(|(hold, _)| hold)).collect(),
            generations: of(|order| i64::from(order.limit.generation)),
            resets: of(|order| i64::from(order.resets)),
            actual: of(|order| order.actual),
            values: of(|order| order.limit.value()),
            alerts: of(|order| order.limit.alert_at().unwrap_or(-1)),
            are_usage: each.clone().map(|order| !order.limit.is_rate()).collect(),
            smooth: each.clone().map(|order| order.limit.smooth).collect(),
            next: each.map(|order| order.next).collect(),
            kept: of(|order| order.kept),
            rooms: of(|order| order.room),
            wanted: of(|order| order.wanted),
            least: of(|order| order.least),
            shares: of(|order| order.share),
            starts: of(|order| order.window.start),
            ends: of(|order| end_of(&order.window)),
            lifetimes: of(|order| i64::try_from(order.lifetime.as_millis()).unwrap_or(i64::MAX)),
            not_after: of(|order| order.not_after),
        }
    }

    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 19] {
        [
            &self.entities,
            &self.before,
            &self.generations,
            &self.resets,
            &self.actual,
            &self.values,
            &self.alerts,
            &self.are_usage,
            &self.smooth,
            &self.next,
            &self.kept,
            &self.rooms,
            &self.wanted,
            &self.least,
            &self.shares,
            &self.starts,
            &self.ends,
            &self.lifetimes,
            &self.not_after,
        ]
    }
}

/// What became of each.
pub(super) fn replies(rows: &[Row], orders: &[LeaseOrder]) -> Result<Vec<LeaseReply>, Error> {
    rows.iter().zip(orders).map(|(row, order)| reply(row, order)).collect()
}

fn reply(row: &Row, order: &LeaseOrder) -> Result<LeaseReply, Error> {
    Ok(LeaseReply {
        state: State::reported(order.window, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?),
        epoch: row.try_get(4)?,
        resets: u32::try_from(row.try_get::<_, i64>(5)?).unwrap_or(u32::MAX),
        amount: row.try_get(6)?,
        room: row.try_get(7)?,
        is_threshold_now: row.try_get(8)?,
        is_exhausted_now: row.try_get(9)?,
    })
}
