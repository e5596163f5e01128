//! Shared counters in Redis or Valkey: scripts, which run one at a time by the server's clock.
//!
//! All keys have one hash tag, so that a cluster keeps them in one slot.

use super::super::entity::State;
use super::super::limit::Limit;
use super::super::window::Window;
use super::claim::{
    BucketReply, Claim, CounterStore, LeaseOrder, LeaseReply, Order, Reply, Rule, SettleReply, Settlement,
    Shown, UNCONFIRMED, Verdict, end_of,
};
use super::keeping::Keeping;
use crate::net::outbound::redis_client::{self, reason};
use async_trait::async_trait;
use redis::aio::ConnectionManager;
use redis::{ErrorKind, RedisError, Script, ScriptInvocation};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Of one script. A request waits for it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// A gateway that has not announced itself for so long is gone, seconds.
const GONE_AFTER: i64 = 15;
/// Buckets that are shown at most.
const MAX_SHOWN: usize = 100_000;

/// A connection that is made again when it breaks.
pub(super) struct Redis {
    connection: ConnectionManager,
    reserve: Script,
    settle: Script,
    lease: Script,
    look: Script,
}

impl Redis {
    /// Connects when it is first used.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub(super) fn new(url: &str) -> Result<Self, String> {
        let connection = redis_client::connect(url, RESPONSE_TIMEOUT)?;
        let script = |text: &str| Script::new(&format!("{}{text}", include_str!("bucket.lua")));
        Ok(Self {
            connection,
            reserve: script(include_str!("reserve.lua")),
            settle: script(include_str!("settle.lua")),
            lease: script(include_str!("lease.lua")),
            look: script(include_str!("look.lua")),
        })
    }

    async fn run(&self, invocation: &ScriptInvocation<'_>) -> Result<Vec<String>, String> {
        let mut connection = self.connection.clone();
        invocation.invoke_async(&mut connection).await.map_err(|why| reason(&why))
    }
}

/// The keys of a bucket: itself, its holds, and those that have expired.
fn keys(entity: u128) -> [String; 3] {
    [
        format!("{{turnpike}}:b:{entity:032x}"),
        format!("{{turnpike}}:h:{entity:032x}"),
        format!("{{turnpike}}:x:{entity:032x}"),
    ]
}

fn members(limit: &Limit) -> String {
    format!("{{turnpike}}:m:{}:{}", limit.id, limit.index)
}

/// The parts of a reply, one after another.
struct Parts(std::vec::IntoIter<String>);

impl Parts {
    fn text(&mut self) -> Result<String, String> {
        self.0.next().ok_or_else(|| "the reply is too short".to_owned())
    }

    fn number(&mut self) -> Result<i64, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("the reply has {text:?} in place of a number"))
    }

    fn flag(&mut self) -> Result<bool, String> {
        Ok(self.number()? == 1)
    }
}

#[async_trait]
impl CounterStore for Redis {
    async fn reserve(&self, order: Arc<Order>) -> Result<Reply, String> {
        let Order { hold, claims, lifetime, not_after, is_made } = &*order;
        let mut invocation = self.reserve.prepare_invoke();
        invocation.arg(hold.simple().to_string());
        invocation.arg(millis(*lifetime));
        invocation.arg(not_after).arg(u8::from(*is_made));
        for claim in claims {
            for key in keys(claim.entity) {
                invocation.key(key);
            }
            invocation.key(members(&claim.limit));
            invocation
                .arg(claim.window.start)
                .arg(end_of(&claim.window))
                .arg(claim.limit.generation)
                .arg(claim.limit.value())
                .arg(claim.amount)
                .arg(claim.rule as u8)
                .arg(u8::from(claim.limit.smooth))
                .arg(claim.alert_at())
                .arg(claim.max_buckets())
                .arg(&*claim.value_key)
                .arg(format!("{:032x}", claim.entity))
                .arg(claim.likely);
        }
        let mut parts = Parts(self.run(&invocation).await?.into_iter());
        let kind = parts.text()?;
        let now = parts.number()?;
        if kind == "window" {
            return Ok(Reply::OtherWindow { now });
        }
        if kind == "overflow" {
            return Ok(Reply::Overflow { claim: usize::try_from(parts.number()?).unwrap_or(usize::MAX) });
        }
        let buckets = claims.iter().map(|claim| bucket(&mut parts, claim)).collect::<Result<_, _>>()?;
        Ok(if kind == "held" { Reply::Held { now, buckets } } else { Reply::Refused { now, buckets } })
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<SettleReply>, String> {
        let each = settlements.iter().map(|settlement| async move {
            let mut invocation = self.settle.prepare_invoke();
            for key in keys(settlement.entity) {
                invocation.key(key);
            }
            let amount = settlement.amount;
            let is_hard = settlement.rule == Rule::HardUsage;
            let is_clamped = u8::from(settlement.is_clamped);
            let is_hard = u8::from(is_hard);
            let limit = &settlement.limit;
            let hold = settlement.hold.simple();
            let hold = match amount {
                UNCONFIRMED => hold.to_string(),
                _ => format!("{hold}:{amount}:{is_clamped}:{is_hard}"),
            };
            invocation
                .arg(hold)
                .arg(settlement.epoch)
                .arg(settlement.generation)
                .arg(settlement.resets)
                .arg(amount)
                .arg(is_clamped)
                .arg(is_hard)
                .arg(settlement.actual)
                .arg(limit.value())
                .arg(limit.alert_at().unwrap_or(-1))
                .arg(u8::from(!limit.is_rate()));
            let mut parts = Parts(self.run(&invocation).await?.into_iter());
            let spent = parts.number()?;
            let is_threshold_now = parts.flag()?;
            let is_exhausted_now = parts.flag()?;
            Ok(SettleReply { spent, is_threshold_now, is_exhausted_now })
        });
        // On one connection they are sent together.
        futures_util::future::try_join_all(each).await
    }

    async fn lease(&self, orders: &[LeaseOrder]) -> Result<Vec<LeaseReply>, String> {
        // On one connection they are sent together.
        futures_util::future::try_join_all(orders.iter().map(|order| self.lease_one(order))).await
    }

    async fn buckets(&self, limit: &Limit) -> Result<Vec<u128>, String> {
        let mut connection = self.connection.clone();
        let mut found = Vec::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SSCAN");
            scan.arg(members(limit)).arg(cursor).arg("COUNT").arg(1000);
            let (next, names): (u64, Vec<String>) =
                scan.query_async(&mut connection).await.map_err(|why| reason(&why))?;
            found.extend(names.iter().filter_map(|name| u128::from_str_radix(name, 16).ok()));
            cursor = next;
            if cursor == 0 || found.len() >= MAX_SHOWN {
                found.sort_unstable();
                found.dedup();
                return Ok(found);
            }
        }
    }

    async fn look(
        &self,
        limit: &Limit,
        window: Window,
        buckets: &[u128],
        reset: bool,
    ) -> Result<Vec<Shown>, String> {
        let end = end_of(&window);
        let mut shown = Vec::new();
        for some in buckets.chunks(100) {
            let mut invocation = self.look.prepare_invoke();
            invocation.arg(u8::from(reset));
            for entity in some {
                for key in keys(*entity) {
                    invocation.key(key);
                }
                invocation.arg(window.start).arg(end).arg(limit.generation);
            }
            let mut parts = Parts(self.run(&invocation).await?.into_iter());
            parts.number()?;
            for entity in some {
                let is_there = parts.flag()?;
                let spent = parts.number()?;
                let held = parts.number()?;
                let previous = parts.number()?;
                let mut state = State::reported(window, spent, held, previous);
                state.unreconciled = parts.number()?;
                (state.threshold_sent, state.exhausted_sent) = (parts.number()?, parts.number()?);
                let value_key = parts.text()?;
                if is_there {
                    shown.push(Shown { entity: *entity, value_key, state });
                }
            }
        }
        self.drop_gone(limit, buckets, &shown).await?;
        Ok(shown)
    }

    async fn keeping(&self) -> Result<Keeping, String> {
        let mut connection = self.connection.clone();
        let mut why = String::new();
        let mut info = redis::cmd("INFO");
        match info.arg("memory").query_async::<String>(&mut connection).await {
            Ok(text) => match text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")) {
                Some(policy) => return Ok(Keeping::of_policy(policy.trim())),
                None => why.push_str("INFO memory has no maxmemory_policy"),
            },
            Err(error) if !is_reply(&error) => return Err(reason(&error)),
            Err(error) => why.push_str(&reason(&error)),
        }
        let mut config = redis::cmd("CONFIG");
        match config.arg("GET").arg("maxmemory-policy").query_async::<Vec<String>>(&mut connection).await {
            Ok(pair) => match pair.get(1) {
                Some(policy) => Ok(Keeping::of_policy(policy)),
                None => Ok(Keeping::Unknown(why)),
            },
            Err(error) if !is_reply(&error) => Err(reason(&error)),
            Err(error) => Ok(Keeping::Unknown(format!("{why}; {}", reason(&error)))),
        }
    }

    async fn announce(&self, gateway: Uuid) -> Result<(usize, i64), String> {
        let mut connection = self.connection.clone();
        let key = "{turnpike}:gateways";
        let time: (i64, i64) =
            redis::cmd("TIME").query_async(&mut connection).await.map_err(|why| reason(&why))?;
        let mut pipe = redis::pipe();
        pipe.cmd("ZADD").arg(key).arg(time.0).arg(gateway.simple().to_string()).ignore();
        pipe.cmd("ZREMRANGEBYSCORE").arg(key).arg("-inf").arg(time.0 - GONE_AFTER).ignore();
        pipe.cmd("ZCARD").arg(key);
        let (count,): (usize,) = pipe.query_async(&mut connection).await.map_err(|why| reason(&why))?;
        Ok((count, time.0.saturating_mul(1000).saturating_add(time.1 / 1000)))
    }
}

/// Whether the server has refused, and not the connection failed.
fn is_reply(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

fn millis(lifetime: Duration) -> i64 {
    i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX)
}

impl Redis {
    async fn lease_one(&self, order: &LeaseOrder) -> Result<LeaseReply, String> {
        let mut invocation = self.lease.prepare_invoke();
        for key in keys(order.entity) {
            invocation.key(key);
        }
        let limit = &order.limit;
        let before = order.before;
        invocation
            .arg(before.map(|(hold, amount)| format!("{}:{amount}:0:0", hold.simple())).unwrap_or_default())
            .arg(order.epoch)
            .arg(limit.generation)
            .arg(order.resets)
            .arg(before.map_or(0, |(_, amount)| amount))
            .arg(order.actual)
            .arg(limit.value())
            .arg(limit.alert_at().unwrap_or(-1))
            .arg(u8::from(!limit.is_rate()))
            .arg(u8::from(limit.smooth))
            .arg(order.next.simple().to_string())
            .arg(order.kept)
            .arg(order.room)
            .arg(order.wanted)
            .arg(order.least)
            .arg(order.share)
            .arg(order.window.start)
            .arg(end_of(&order.window))
            .arg(millis(order.lifetime))
            .arg(order.not_after);
        let mut parts = Parts(self.run(&invocation).await?.into_iter());
        parts.number()?;
        let spent = parts.number()?;
        let held = parts.number()?;
        let previous = parts.number()?;
        Ok(LeaseReply {
            state: State::reported(order.window, spent, held, previous),
            epoch: parts.number()?,
            resets: u32::try_from(parts.number()?).unwrap_or(u32::MAX),
            amount: parts.number()?,
            room: parts.number()?,
            is_threshold_now: parts.flag()?,
            is_exhausted_now: parts.flag()?,
        })
    }

    /// Takes buckets that have expired out of the list of the limit.
    async fn drop_gone(&self, limit: &Limit, buckets: &[u128], shown: &[Shown]) -> Result<(), String> {
        if shown.len() == buckets.len() {
            return Ok(());
        }
        let there: std::collections::HashSet<u128> = shown.iter().map(|shown| shown.entity).collect();
        let gone = buckets.iter().filter(|entity| !there.contains(entity));
        let names: Vec<String> = gone.map(|entity| format!("{entity:032x}")).collect();
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("SREM");
        command.arg(members(limit)).arg(names);
        command.query_async::<()>(&mut connection).await.map_err(|why| reason(&why))
    }
}

fn bucket(parts: &mut Parts, claim: &Claim) -> Result<BucketReply, String> {
    let verdict = match parts.number()? {
        0 => Verdict::Room,
        1 => Verdict::Rate,
        2 => Verdict::Reserved,
        _ => Verdict::Spent,
    };
    let spent = parts.number()?;
    let held = parts.number()?;
    let previous = parts.number()?;
    Ok(BucketReply {
        verdict,
        state: State::reported(claim.window, spent, held, previous),
        epoch: parts.number()?,
        resets: u32::try_from(parts.number()?).unwrap_or(u32::MAX),
        amount: parts.number()?,
        is_clamped: parts.flag()?,
        is_exhausted_now: parts.flag()?,
        generation: u32::try_from(parts.number()?).unwrap_or(u32::MAX),
    })
}
