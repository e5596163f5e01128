//! Entries in Redis or Valkey: their names, the commands, and how gateways learn what others have removed.
//!
//! Has no time limits but the connections' own, and no circuit breaker: `remote` has those.
//!
//! An entry is `{turnpike}:cache:WORKSPACE:NAMESPACE:KEY`, the namespace as a part of its SHA-256 or `-`, so that what is purged together
//! has a pattern. A purge is added to the stream `{turnpike}:cache-purges` before and after the entries are removed. Each gateway reads the new
//! items of that stream twice a second, and removes the same entries from its memory. Unlike a message of publish and subscribe, which is lost for a gateway
//! that is not connected, a purge waits in the stream. A gateway whose last item is no longer in the stream empties its memory.
//! A gateway writes an entry only if it had read the last purge when it got the response (`write.lua`), so no purged entry is written again.

use super::entry::{CacheKey, Scope};
use super::purge::Purge;
use crate::net::outbound::redis_client;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redis::aio::ConnectionManager;
use redis::{ErrorKind, RedisError, RedisResult};
use ring::digest::{SHA256, digest};
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

const PREFIX: &str = "{turnpike}:cache:";
const PURGES: &str = "{turnpike}:cache-purges";
const REMOVALS: &str = "{turnpike}:cache-removals";
/// Purges that the stream keeps at least.
const MAX_PURGES: usize = 1_000;
/// Items of a stream, and names of entries, that one command reads.
const PAGE: usize = 1_000;
/// Of one command, except a look-up.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Timeout,
    Connection,
    /// The server has no memory left, and removes nothing.
    Full,
    /// The server refused the command.
    Refused,
}

/// A failed call.
#[derive(Debug)]
pub(super) struct Failure {
    pub cause: Cause,
    /// Without any part of the URL, which may have a password.
    pub reason: String,
}

impl From<RedisError> for Failure {
    fn from(why: RedisError) -> Self {
        let reason = redis_client::reason(&why);
        let is_full =
            why.code() == Some("OOM") || why.detail().is_some_and(|detail| detail.contains("OOM command"));
        let cause = match why.kind() {
            _ if is_full => Cause::Full,
            _ if why.is_timeout() => Cause::Timeout,
            ErrorKind::Server(_) | ErrorKind::Extension => Cause::Refused,
            _ => Cause::Connection,
        };
        Self { cause, reason }
    }
}

/// What became of an entry that was to be written.
pub(super) type Written = Result<bool, Failure>;

/// What is written.
pub(super) enum Order {
    Put { name: String, value: Vec<u8>, lifetime: Duration, position: Option<String> },
    Remove { name: String, key: CacheKey },
}

/// How far this gateway has read: the id of the last item it has read of each stream; empty for a stream without items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub purges: String,
    pub removals: String,
}

/// What other gateways have removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub purges: Vec<Purge>,
    pub removed: Vec<CacheKey>,
    pub position: Position,
    /// Whether there is more to read.
    pub is_page: bool,
}

/// The items of a stream: id, and names and values of its fields.
type Items = Vec<(String, Vec<Vec<u8>>)>;

/// Connections to one server: look-ups do not wait behind large writes.
pub(super) struct Redis {
    lookups: ConnectionManager,
    writes: ConnectionManager,
    /// Identifies this gateway's own purges in the stream.
    gateway: String,
}

impl Redis {
    /// Connects when it is first used. To be called on the runtime it is used on.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub(super) fn new(url: &str, lookup_timeout: Duration) -> Result<Self, String> {
        Ok(Self {
            lookups: redis_client::connect(url, lookup_timeout)?,
            writes: redis_client::connect(url, RESPONSE_TIMEOUT)?,
            gateway: Uuid::now_v7().simple().to_string(),
        })
    }

    /// The value of an entry.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        Ok(redis::cmd("GET").arg(name).query_async(&mut self.lookups.clone()).await?)
    }

    /// Whether the server responds to look-ups, once connected within their time limit.
    pub(super) async fn ping(&self) -> Result<(), Failure> {
        Ok(redis::cmd("PING").query_async(&mut self.lookups.clone()).await?)
    }

    /// Writes and removes, in this order. `false` for a write that was refused because of a purge.
    pub(super) async fn write(&self, orders: &[Order]) -> Result<Vec<Written>, Failure> {
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for order in orders {
            let command = pipe.cmd("EVAL");
            match order {
                Order::Put { name, value, lifetime, position } => {
                    let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX).max(1);
                    command.arg(include_str!("write.lua")).arg(2).arg(name).arg(PURGES);
                    command.arg(value).arg(lifetime).arg(position.as_deref().unwrap_or("?"));
                }
                Order::Remove { name, key } => {
                    command.arg(include_str!("remove.lua")).arg(2).arg(name).arg(REMOVALS);
                    command.arg(&self.gateway).arg(key.to_string());
                }
            }
        }
        let replies: Vec<RedisResult<i64>> = pipe.query_async(&mut self.writes.clone()).await?;
        Ok(replies.into_iter().map(|reply| Ok(reply? == 1)).collect())
    }

    /// What other gateways have removed since the position. Without a position, only the present ends of the streams.
    pub(super) async fn changes(&self, position: Option<&Position>) -> Result<Changes, Failure> {
        let mut pipe = redis::pipe();
        let start = |id: &str| if id.is_empty() { "-".to_owned() } else { id.to_owned() };
        match position {
            Some(Position { purges, removals }) => {
                for (stream, id) in [(PURGES, purges), (REMOVALS, removals)] {
                    pipe.cmd("XRANGE").arg(stream).arg(start(id)).arg("+").arg("COUNT").arg(PAGE);
                }
            }
            None => {
                for stream in [PURGES, REMOVALS] {
                    pipe.cmd("XREVRANGE").arg(stream).arg("+").arg("-").arg("COUNT").arg(1);
                }
            }
        }
        let (purges, removals): (Items, Items) = pipe.query_async(&mut self.writes.clone()).await?;
        let last = |items: &Items| items.last().map(|(id, _)| id.clone()).unwrap_or_default();
        let end = Position { purges: last(&purges), removals: last(&removals) };
        let Some(position) = position else { return Ok(Changes { position: end, ..Changes::default() }) };
        let is_page = purges.len() >= PAGE || removals.len() >= PAGE;
        // The first item must be the last one that was read. Otherwise the stream was shortened or made anew.
        let is_continued =
            position.purges.is_empty() || purges.first().is_some_and(|(id, _)| *id == position.purges);
        let values = |items: Items, after: &str| {
            let new = items.into_iter().filter(|(id, _)| id != after).collect::<Vec<_>>();
            new.into_iter().flat_map(|(_, fields)| pairs(fields))
        };
        let mut changes = Changes { position: end, is_page, ..Changes::default() };
        if !is_continued {
            changes.purges.push(Purge::All);
        }
        changes.purges.extend(values(purges, &position.purges).map(|(_, value)| read_purge(&value)));
        let others = values(removals, &position.removals).filter(|(by, _)| by != self.gateway.as_bytes());
        changes.removed.extend(others.filter_map(|(_, value)| CacheKey::parse(str::from_utf8(&value).ok()?)));
        Ok(changes)
    }

    /// Removes all entries of a purge. Returns how many there were, without those in `counted`.
    pub(super) async fn purge(&self, purge: &Purge, counted: &HashSet<CacheKey>) -> Result<u64, Failure> {
        let mut connection = self.writes.clone();
        announce(&mut connection, purge).await?;
        let pattern = pattern(purge);
        let mut cursor = 0_u64;
        let mut removed = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(PAGE);
            let (next, names): (u64, Vec<String>) = scan.query_async(&mut connection).await?;
            let is_counted = |name: &&String| {
                let key = name.rsplit(':').next().and_then(CacheKey::parse);
                key.is_some_and(|key| counted.contains(&key))
            };
            let (counted, others): (Vec<&String>, Vec<&String>) = names.iter().partition(is_counted);
            for (names, counts) in [(counted, 0), (others, 1)] {
                if !names.is_empty() {
                    let unlinked: u64 = redis::cmd("UNLINK").arg(names).query_async(&mut connection).await?;
                    removed += unlinked * counts;
                }
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        // Once more: another gateway may have read one of the entries into its memory in the meantime.
        announce(&mut connection, purge).await?;
        Ok(removed)
    }
}

async fn announce(connection: &mut ConnectionManager, purge: &Purge) -> Result<(), Failure> {
    let mut add = redis::cmd("XADD");
    add.arg(PURGES).arg("MAXLEN").arg("~").arg(MAX_PURGES).arg("*").arg("purge").arg(write_purge(purge));
    Ok(add.query_async(connection).await?)
}

/// The name of an entry.
pub(super) fn name(key: &CacheKey, scope: &Scope) -> String {
    let namespace = scope.namespace.as_deref().map_or_else(|| "-".to_owned(), namespace_name);
    format!("{PREFIX}{}:{namespace}:{key}", scope.workspace.simple())
}

/// The pattern that the names of the purged entries match.
fn pattern(purge: &Purge) -> String {
    match purge {
        Purge::Key(key) => format!("{PREFIX}*:{key}"),
        Purge::OwnKey { workspace, key } => format!("{PREFIX}{}:*:{key}", workspace.simple()),
        Purge::Namespace { workspace, namespace } => {
            format!("{PREFIX}{}:{}:*", workspace.simple(), namespace_name(namespace))
        }
        Purge::Workspace(workspace) => format!("{PREFIX}{}:*", workspace.simple()),
        Purge::All => format!("{PREFIX}*"),
    }
}

/// The namespace is a client's text, so names have the first half of its digest instead.
fn namespace_name(namespace: &str) -> String {
    let digest = digest(&SHA256, namespace.as_bytes());
    URL_SAFE_NO_PAD.encode(digest.as_ref().first_chunk::<16>().map_or(&[][..], |half| half.as_slice()))
}

/// A purge as an item of the stream has it.
fn write_purge(purge: &Purge) -> String {
    match purge {
        Purge::Key(key) => format!("key:{key}"),
        Purge::OwnKey { workspace, key } => format!("own-key:{}:{key}", workspace.simple()),
        Purge::Namespace { workspace, namespace } => format!("namespace:{}:{namespace}", workspace.simple()),
        Purge::Workspace(workspace) => format!("workspace:{}", workspace.simple()),
        Purge::All => "all".to_owned(),
    }
}

/// An item that cannot be read was written by a newer gateway, and may be a purge of any entries.
fn read_purge(text: &[u8]) -> Purge {
    let read = || {
        let (kind, rest) = str::from_utf8(text).ok()?.split_once(':')?;
        Some(match kind {
            "key" => Purge::Key(CacheKey::parse(rest)?),
            "own-key" => {
                let (workspace, key) = rest.split_once(':')?;
                Purge::OwnKey { workspace: workspace.parse().ok()?, key: CacheKey::parse(key)? }
            }
            "workspace" => Purge::Workspace(rest.parse().ok()?),
            "namespace" => {
                let (workspace, namespace) = rest.split_once(':')?;
                Purge::Namespace { workspace: workspace.parse().ok()?, namespace: namespace.into() }
            }
            _ => return None,
        })
    };
    read().unwrap_or(Purge::All)
}

fn pairs(fields: Vec<Vec<u8>>) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut fields = fields.into_iter();
    std::iter::from_fn(move || Some((fields.next()?, fields.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::{key, scope};

    #[test]
    fn names_are_below_what_they_are_purged_by() {
        let plain = name(&key(1), &scope(2, None));
        let named = name(&key(1), &scope(2, Some("a:*b")));
        assert!(plain.ends_with(&format!("00000002:-:{}", key(1))), "{plain}");
        let matches = |pattern: &str, name: &str| match pattern.split_once('*') {
            Some((before, after)) => name.starts_with(before) && name.ends_with(after),
            None => pattern == name,
        };
        let workspace = Uuid::from_u128(2);
        let namespace = "a:*b".into();
        for (purge, plain_too) in [
            (Purge::Key(key(1)), true),
            (Purge::OwnKey { workspace, key: key(1) }, true),
            (Purge::Workspace(workspace), true),
            (Purge::All, true),
            (Purge::Namespace { workspace, namespace }, false),
        ] {
            assert!(matches(&pattern(&purge), &named), "{purge:?}");
            assert_eq!(matches(&pattern(&purge), &plain), plain_too, "{purge:?}");
        }
        let elsewhere = Uuid::from_u128(3);
        for other in [
            Purge::Key(key(2)),
            Purge::OwnKey { workspace, key: key(2) },
            Purge::OwnKey { workspace: elsewhere, key: key(1) },
            Purge::Workspace(elsewhere),
        ] {
            assert!(!matches(&pattern(&other), &plain));
        }
        assert!(![PURGES, REMOVALS].iter().any(|stream| matches(&pattern(&Purge::All), stream)));
    }

    #[test]
    fn purges_are_read_as_they_were_written() {
        let workspace = Uuid::from_u128(7);
        for purge in [
            Purge::Key(key(9)),
            Purge::OwnKey { workspace, key: key(9) },
            Purge::Workspace(workspace),
            Purge::All,
            Purge::Namespace { workspace, namespace: "with: colon, and ü".into() },
            Purge::Namespace { workspace, namespace: "".into() },
        ] {
            assert_eq!(read_purge(write_purge(&purge).as_bytes()), purge);
        }
        for unreadable in ["", "key:AA", "key:é", "own-key:AA", "workspace:", "namespace:x:y", "model:gpt"] {
            assert_eq!(read_purge(unreadable.as_bytes()), Purge::All, "{unreadable}");
        }
        assert_eq!(read_purge(b"\xff:\xff"), Purge::All);
    }
}
