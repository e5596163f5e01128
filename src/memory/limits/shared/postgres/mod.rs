//! Shared counters in PostgreSQL: functions in the database, which lock the buckets of their reservations in one order.
//!
//! Reservations that wait at the same time are sent together: one statement makes many of them, each by itself. What the functions do
//! is in `migrations`; the tables belong to this room and are made when they are first needed.

mod batch;
mod leasing;

use super::super::entity::State;
use super::super::limit::Limit;
use super::super::window::Window;
use super::claim::{
    CounterStore, LeaseOrder, LeaseReply, Order, Reply, SettleReply, Settlement, Shown, end_of,
};
use crate::store::postgres::{Tables, bring_up_to_date, failure, no_connection, pool};
use async_trait::async_trait;
use batch::{Job, Reserving, Settling};
use deadpool_postgres::{Object, Pool};
use leasing::Leasing;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

const TABLES: Tables = Tables {
    steps: &[
        ("V1__counters", include_str!("migrations/V1__counters.sql")),
        ("V2__leases", include_str!("migrations/V2__leases.sql")),
        ("V3__generations", include_str!("migrations/V3__generations.sql")),
        ("V4__short_keys", include_str!("migrations/V4__short_keys.sql")),
        ("V5__idle", include_str!("migrations/V5__idle.sql")),
    ],
    history: "limit_schema_history",
    lock: 0x7475_726e_6c69_6d74,
};
/// Connections that make reservations, and those of settling, announcing and the control plane.
const RESERVING: usize = 4;
const OTHERS: usize = 3;
/// Reservations of one statement.
const MAX_BATCH: usize = 64;
/// Reservations that wait to be sent. More are refused as if the database could not be reached.
const MAX_WAITING: usize = 16_384;
/// Of one reservation. A request waits for it.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Of one statement.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Of making the tables.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(20);
/// A gateway that has not announced itself for so long is gone, milliseconds.
const GONE_AFTER: i64 = 15_000;
/// How many buckets of long ago are forgotten in one statement, and in how many.
const FORGOTTEN_AT_ONCE: i32 = 2_000;
const FORGET_STATEMENTS: u32 = 10;
/// Buckets that are shown at most, and in one statement.
const MAX_SHOWN: i64 = 100_000;
const SHOWN_AT_ONCE: usize = 1_000;
/// How often a statement is tried that another one has come in the way of.
const MAX_TRIES: u32 = 4;

/// The counters in one database.
pub(super) struct Postgres {
    database: Arc<Database>,
    jobs: mpsc::Sender<Job>,
}

struct Database {
    pool: Pool,
    /// Whether the tables were made or found.
    is_prepared: AtomicBool,
}

/// Why a statement failed.
enum Failed {
    /// The database has refused it, and nothing of it happened.
    Refused(String),
    /// Nobody knows whether it happened.
    Unknown(String),
}

impl Failed {
    fn into_reason(self) -> String {
        match self {
            Self::Refused(why) | Self::Unknown(why) => why,
        }
    }
}

impl Postgres {
    /// Connects when it is first used. `setting` names the URL. Must be called on the runtime of the connections.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub(super) fn new(url: &str, setting: &str) -> Result<Self, String> {
        let pool = pool(url, setting, RESERVING + OTHERS).map_err(|why| why.to_string())?;
        let database = Arc::new(Database { pool, is_prepared: AtomicBool::new(false) });
        let (jobs, queue) = mpsc::channel(MAX_WAITING);
        tokio::spawn(serve(Arc::clone(&database), queue));
        Ok(Self { database, jobs })
    }
}

impl Database {
    /// The rows of a statement, which is prepared once a connection; again if another transaction came in its way.
    async fn rows(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failed> {
        let mut tries = 1;
        loop {
            let client = self.client().await.map_err(Failed::Refused)?;
            let query = async { client.query(&client.prepare_cached(sql).await?, values).await };
            match timeout(CALL_TIMEOUT, query).await {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(why)) if is_in_the_way(&why) && tries < MAX_TRIES => tries += 1,
                Ok(Err(why)) => return Err(self.failed(why)),
                Err(_) => {
                    // Nobody else must wait for the end of the statement.
                    drop(Object::take(client));
                    let why = format!("PostgreSQL: no response within {} s", CALL_TIMEOUT.as_secs());
                    return Err(Failed::Unknown(why));
                }
            }
        }
    }

    /// A connection to a database that has the tables.
    async fn client(&self) -> Result<Object, String> {
        let mut client = self.pool.get().await.map_err(|why| no_connection(why).to_string())?;
        if !self.is_prepared.load(Ordering::Relaxed) {
            match timeout(PREPARE_TIMEOUT, bring_up_to_date(&mut client, &TABLES)).await {
                Ok(made) => made.map_err(|why| why.to_string())?,
                Err(_) => {
                    drop(Object::take(client));
                    return Err("PostgreSQL: the tables of limits could not be made in time".to_owned());
                }
            }
            self.is_prepared.store(true, Ordering::Relaxed);
        }
        Ok(client)
    }

    fn failed(&self, why: tokio_postgres::Error) -> Failed {
        let code = why.code();
        if code == Some(&SqlState::UNDEFINED_FUNCTION) || code == Some(&SqlState::UNDEFINED_TABLE) {
            self.is_prepared.store(false, Ordering::Relaxed);
        }
        let is_refused = code.is_some();
        let why = failure(why).to_string();
        if is_refused { Failed::Refused(why) } else { Failed::Unknown(why) }
    }
}

/// Whether the transaction failed only because of another one.
fn is_in_the_way(why: &tokio_postgres::Error) -> bool {
    let codes = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    why.code().is_some_and(|code| codes.contains(code))
}

/// Makes the reservations of the queue, those together that wait at the same time.
async fn serve(database: Arc<Database>, mut queue: mpsc::Receiver<Job>) {
    let places = Arc::new(Semaphore::new(RESERVING));
    while let Some(first) = queue.recv().await {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let mut jobs = vec![first];
        while jobs.len() < MAX_BATCH
            && let Ok(next) = queue.try_recv()
        {
            jobs.push(next);
        }
        let database = Arc::clone(&database);
        tokio::spawn(async move {
            let (made, judged): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.order.is_made);
            for jobs in [judged, made].into_iter().filter(|jobs| !jobs.is_empty()) {
                reserve(&database, jobs).await;
            }
            drop(place);
        });
    }
}

/// Makes these reservations, which are judged or which nothing may refuse; where that fails for all, each by itself.
async fn reserve(database: &Database, jobs: Vec<Job>) {
    let reserving = Reserving::of(&jobs);
    let is_made = jobs.iter().all(|job| job.order.is_made);
    let outcome = if is_made {
        database.rows(Reserving::SQL_OF_MADE, &reserving.values_of_made()).await
    } else {
        database.rows(Reserving::SQL, &reserving.values()).await
    };
    let replies = outcome.and_then(|rows| batch::replies(&rows, &jobs).map_err(unreadable));
    match replies {
        Ok(replies) => {
            for (job, reply) in jobs.into_iter().zip(replies) {
                // Who gave up waiting cancels it.
                let _ = job.reply.send(Ok(reply));
            }
        }
        Err(Failed::Refused(_)) if jobs.len() > 1 => {
            for job in jobs {
                Box::pin(reserve(database, vec![job])).await;
            }
        }
        Err(failed) => {
            let why = failed.into_reason();
            for job in jobs {
                let _ = job.reply.send(Err(why.clone()));
            }
        }
    }
}

#[async_trait]
impl CounterStore for Postgres {
    async fn reserve(&self, order: Arc<Order>) -> Result<Reply, String> {
        let (reply, done) = oneshot::channel();
        let full = |_| "too many reservations wait for PostgreSQL".to_owned();
        self.jobs.try_send(Job { order, reply }).map_err(full)?;
        match timeout(RESERVE_TIMEOUT, done).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("it is being closed".to_owned()),
            Err(_) => Err("PostgreSQL: no response within 1 s".to_owned()),
        }
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<SettleReply>, String> {
        let settling = Settling::of(settlements);
        let rows = self.database.rows(Settling::SQL, &settling.values()).await;
        let replies = rows.and_then(|rows| batch::settled(&rows).map_err(unreadable));
        replies.map_err(Failed::into_reason)
    }

    async fn lease(&self, orders: &[LeaseOrder]) -> Result<Vec<LeaseReply>, String> {
        let leasing = Leasing::of(orders);
        let rows = self.database.rows(Leasing::SQL, &leasing.values()).await;
        let replies = rows.and_then(|rows| leasing::replies(&rows, orders).map_err(unreadable));
        replies.map_err(Failed::into_reason)
    }

    async fn buckets(&self, limit: &Limit) -> Result<Vec<u128>, String> {
        let index = i16::from(limit.index);
        let sql = "SELECT entity FROM limit_buckets WHERE limit_id = $1 AND limit_index = $2 ORDER BY entity LIMIT $3";
        let rows = self.database.rows(sql, &[&limit.id, &index, &MAX_SHOWN]).await;
        let rows = rows.map_err(Failed::into_reason)?;
        let ids = rows.iter().map(|row| row.try_get::<_, Uuid>(0).map(|id| id.as_u128()));
        ids.collect::<Result<_, _>>().map_err(|why| why.to_string())
    }

    async fn look(
        &self,
        limit: &Limit,
        window: Window,
        buckets: &[u128],
        reset: bool,
    ) -> Result<Vec<Shown>, String> {
        let mut shown = Vec::new();
        let end = end_of(&window);
        let generation = i64::from(limit.generation);
        for some in buckets.chunks(SHOWN_AT_ONCE) {
            let some: Vec<Uuid> = some.iter().map(|id| Uuid::from_u128(*id)).collect();
            let sql = "SELECT entity, value_key, spent, held, previous, unreconciled, threshold_sent, exhausted_sent \
                       FROM limits_look_1($1, $2, $3, $4, $5)";
            let rows = self.database.rows(sql, &[&some, &window.start, &end, &generation, &reset]).await;
            for row in rows.map_err(Failed::into_reason)? {
                shown.push(shown_of(&row, window).map_err(|why| why.to_string())?);
            }
        }
        Ok(shown)
    }

    async fn announce(&self, gateway: Uuid) -> Result<(usize, i64), String> {
        let sql = "SELECT gateways, moment FROM limits_announce_1($1, $2)";
        let rows = self.database.rows(sql, &[&gateway, &GONE_AFTER]).await.map_err(Failed::into_reason)?;
        let gateways = number(&rows, 0)?;
        let now = number(&rows, 1)?;
        Ok((usize::try_from(gateways).unwrap_or(1), now))
    }

    async fn forget(&self) -> Result<(), String> {
        // What is left waits for the next time.
        for _ in 0..FORGET_STATEMENTS {
            let rows = self.database.rows("SELECT limits_forget_1($1)", &[&FORGOTTEN_AT_ONCE]).await;
            if number(&rows.map_err(Failed::into_reason)?, 0)? < i64::from(FORGOTTEN_AT_ONCE) {
                break;
            }
        }
        Ok(())
    }
}

fn unreadable(why: tokio_postgres::Error) -> Failed {
    Failed::Unknown(format!("PostgreSQL: a response cannot be read: {why}"))
}

/// A number of the only row.
fn number(rows: &[Row], column: usize) -> Result<i64, String> {
    let row = rows.first().ok_or("PostgreSQL: a response has no row")?;
    row.try_get(column).map_err(|why| unreadable(why).into_reason())
}

fn shown_of(row: &Row, window: Window) -> Result<Shown, tokio_postgres::Error> {
    let mut state = State::reported(window, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
    state.unreconciled = row.try_get(5)?;
    (state.threshold_sent, state.exhausted_sent) = (row.try_get(6)?, row.try_get(7)?);
    let entity: Uuid = row.try_get(0)?;
    Ok(Shown { entity: entity.as_u128(), value_key: row.try_get(1)?, state })
}
