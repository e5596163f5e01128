//! Tests of the journal: what is there after the process was killed at any moment, twice read, or shared with another.

use super::super::tests::{at, facts, policy, priced, rate, usage, used};
use super::super::*;
use super::*;
use crate::auth::facts::Facts;
use crate::limits::judgment::Judgment;
use jiff::Timestamp;
use proptest::prelude::*;

const LIFETIME: i64 = 600_000;
const NOON: &str = "2026-11-22T12:00:00Z";
const NONE: &[(&str, &str)] = &[];

/// One process: its counters, and the file.
struct Process {
    buckets: Arc<Buckets>,
    journal: Journal,
    set: LimitSet,
}

impl Process {
    fn start(file: &Path, limits: &[Limit], now: Timestamp) -> Self {
        let mut journal = Journal::open(file, LIFETIME).unwrap();
        let sink = Sink { unwritten: Some(Mutex::default()), ..Sink::default() };
        let buckets = Buckets::new(journal.hash().unwrap(), sink);
        journal.load(&buckets, now.as_millisecond()).unwrap();
        let set = LimitSet::new(limits.to_vec(), buckets.hash);
        Self { buckets, journal, set }
    }

    /// As [`Limits::reserve`] does it, without a thread.
    fn reserve(&mut self, cost: i64, now: Timestamp) -> Result<Reservation, Box<Refusal>> {
        let (mut reservation, holds) = self.unwritten(cost, now)?;
        if !holds.is_empty() {
            self.journal.write(&self.buckets, &holds, now.as_millisecond()).unwrap();
            reservation.confirm();
        }
        Ok(reservation)
    }

    /// A reservation, and the holds that the journal has not got.
    fn unwritten(&self, cost: i64, now: Timestamp) -> Result<(Reservation, Vec<HoldRow>), Box<Refusal>> {
        let facts: Facts<'_> = facts(&NONE);
        let selection = self.set.select(&facts, Phase::Request).unwrap();
        let estimate = priced(cost);
        let calendar = Calendar::default();
        let now = now.as_millisecond();
        let judgment = Judgment { estimate: &estimate, assume_output: 1, calendar: &calendar, now };
        let mut reservation = judgment.reserve(&self.buckets, &selection, None)?;
        let holds = reservation.unjournalled();
        Ok((reservation, holds))
    }

    fn flush(&mut self, now: Timestamp) {
        self.journal.write(&self.buckets, &[], now.as_millisecond()).unwrap();
        self.journal.follow_others(&self.buckets, now.as_millisecond()).unwrap();
    }

    fn view(&self, limit: &Limit, now: Timestamp) -> (i64, i64, i64) {
        let Some(entity) = self.buckets.get(self.buckets.hash.only(limit)) else {
            return (0, 0, 0);
        };
        let mut state = entity.state.lock();
        let past = state.bring_up_to(limit, &Calendar::default(), now.as_millisecond());
        self.buckets.sink.past(limit, &entity, &mut state, past);
        (state.spent, state.all_held(), state.unreconciled)
    }
}

fn budget(hard: bool) -> Limit {
    Limit { hard, ..policy(1, usage(UsageOf::Cost, 1_000, Reset::Weekly)) }
}

fn file() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("limits.db");
    (folder, file)
}

fn later(now: Timestamp, seconds: i64) -> Timestamp {
    now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap()
}

#[test]
fn usage_is_there_after_a_restart_however_often_it_is_read() {
    let (_folder, file) = file();
    let now = at(NOON);
    let limits = [budget(false), policy(2, rate(RateOf::Requests, RateUnit::Day, 5))];
    let mut process = Process::start(&file, &limits, now);
    process.reserve(100, now).unwrap().settle(used(0, 70), now);
    let under_way = process.reserve(100, now).unwrap();
    process.flush(now);
    process.reserve(100, now).unwrap().settle(used(0, 1), now);
    // Killed: what was counted since the last write is lost, and what soft limits held.
    let mut next = Process::start(&file, &limits, now);
    for _ in 0..2 {
        assert_eq!(next.view(&limits[0], now), (70, 0, 0));
        assert_eq!(next.view(&limits[1], now), (1, 0, 0));
        next.journal.load(&next.buckets, now.as_millisecond()).unwrap();
    }
    next.reserve(100, now).unwrap().settle(used(0, 5), now);
    next.flush(now);
    next.flush(now);
    let third = Process::start(&file, &limits, now);
    assert_eq!(third.view(&limits[0], now), (75, 0, 0));
    let monday = at("2026-11-23T00:00:00Z");
    assert_eq!(Process::start(&file, &limits, monday).view(&limits[0], monday), (0, 0, 0));
    drop(under_way);
}

/// Values were kept whole once: a bucket of then is the same one, and takes less.
#[test]
fn a_bucket_with_a_long_value_keeps_its_usage_over_an_upgrade() {
    let (_folder, file) = file();
    let now = at(NOON);
    let limit = Limit { group_by: vec![FactKey::Metadata("_user".into())], ..budget(false) };
    let user = "u".repeat(4_000);
    let spend = |process: &Process| {
        let members = [("_user", user.as_str())];
        let metadata = members.as_slice();
        let facts = facts(&metadata);
        let selection = process.set.select(&facts, Phase::Request).unwrap();
        let calendar = Calendar::default();
        let estimate = priced(100);
        let now_ms = now.as_millisecond();
        let judgment = Judgment { estimate: &estimate, assume_output: 1, calendar: &calendar, now: now_ms };
        judgment.reserve(&process.buckets, &selection, None).unwrap().settle(used(0, 70), now);
    };
    let mut before = Process::start(&file, std::slice::from_ref(&limit), now);
    spend(&before);
    before.flush(now);
    let whole = format!("metadata._user:{user}");
    before.journal.connection.execute("UPDATE usage SET value_key = ?1", [&whole]).unwrap();
    // As the version of before has left it.
    before.journal.connection.execute_batch("DELETE FROM refinery_schema_history WHERE version > 2").unwrap();
    drop(before);
    let mut after = Process::start(&file, std::slice::from_ref(&limit), now);
    spend(&after);
    after.flush(now);
    let length = "SELECT max(length(value_key)) FROM usage";
    let length: i64 = after.journal.connection.query_row(length, [], |row| row.get(0)).unwrap();
    assert_eq!(length, 513);
    let found = after.buckets.of_limit(limit.id, limit.index);
    let spent: Vec<i64> = found.iter().map(|entity| entity.state.lock().spent).collect();
    assert_eq!(spent, [140]);
    assert!(found[0].value_key.len() < 520);
}

/// Such a window ends later with each use, and its row with it.
#[test]
fn a_bucket_that_is_not_idle_goes_on_over_a_restart() {
    let (_folder, file) = file();
    let now = at(NOON);
    let limits = [policy(1, usage(UsageOf::Cost, 1_000, Reset::Idle { minutes: 30 }))];
    let mut process = Process::start(&file, &limits, now);
    process.reserve(100, now).unwrap().settle(used(0, 70), now);
    process.flush(now);
    let soon = later(now, 20 * 60);
    process.reserve(100, soon).unwrap().settle(used(0, 7), soon);
    process.flush(soon);
    let after = later(now, 45 * 60);
    let mut next = Process::start(&file, &limits, after);
    assert_eq!(next.view(&limits[0], after), (77, 0, 0));
    next.reserve(100, after).unwrap().settle(used(0, 1), after);
    next.flush(after);
    let rows = "SELECT count(*) FROM usage WHERE spent > 0";
    let rows: i64 = next.journal.connection.query_row(rows, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
    let idle = later(now, 76 * 60);
    assert_eq!(Process::start(&file, &limits, idle).view(&limits[0], idle), (0, 0, 0));
}

#[test]
fn holds_of_hard_limits_survive_and_become_spent() {
    let (_folder, file) = file();
    let limit = budget(true);
    let now = at(NOON);
    let mut process = Process::start(&file, std::slice::from_ref(&limit), now);
    let lost = process.reserve(400, now).unwrap();
    process.reserve(100, now).unwrap().settle(used(0, 50), now);
    process.flush(now);
    let late = process.reserve(300, now).unwrap();
    let mut next = Process::start(&file, std::slice::from_ref(&limit), now);
    assert_eq!(next.view(&limit, now), (50, 700, 0));
    assert_eq!(next.reserve(251, now).unwrap_err().cause, Cause::Reserved);
    next.reserve(250, now).unwrap().settle(used(0, 250), now);
    next.flush(now);
    // The other process was not killed after all, it drains: what it settles is taken over.
    late.settle(used(0, 20), now);
    process.flush(now);
    next.flush(now);
    assert_eq!(next.view(&limit, now), (320, 400, 0));
    // Nobody settles the other.
    let then = later(now, LIFETIME / 1000 + 1);
    next.flush(then);
    assert_eq!(next.view(&limit, then), (720, 0, 400));
    assert_eq!(next.reserve(281, then).unwrap_err().cause, Cause::DoesNotFit);
    // Or does so very late: what was taken for spent is replaced by what was.
    lost.settle(used(0, 30), then);
    process.flush(then);
    let third = Process::start(&file, std::slice::from_ref(&limit), then);
    assert_eq!(third.view(&limit, then), (350, 0, 0));
}

/// A limit that is changed and changed back before anything is written, or while nothing can be.
#[test]
fn a_period_that_comes_back_keeps_the_usage_over_a_restart() {
    let now = at(NOON);
    let of = |reset| policy(1, usage(UsageOf::Cost, 1_000, reset));
    for periods in [
        &[Reset::Never, Reset::Monthly, Reset::Never][..],
        &[Reset::Monthly, Reset::Never, Reset::Monthly],
        &[Reset::Weekly, Reset::Monthly, Reset::Never, Reset::Weekly],
        &[Reset::Never, Reset::Monthly],
        &[Reset::Monthly, Reset::Never],
    ] {
        for is_written_between in [false, true] {
            let (_folder, file) = file();
            let first = of(periods[0]);
            let mut process = Process::start(&file, std::slice::from_ref(&first), now);
            process.reserve(100, now).unwrap().settle(used(0, 12), now);
            process.flush(now);
            for reset in periods {
                assert_eq!(process.view(&of(*reset), now), (12, 0, 0));
                // As when the file cannot be written: what is to be written waits.
                process.journal.collect(&process.buckets.sink);
                if is_written_between {
                    process.flush(now);
                }
            }
            process.flush(now);
            let last = of(periods[periods.len() - 1]);
            let next = Process::start(&file, std::slice::from_ref(&last), now);
            assert_eq!(next.view(&last, now), (12, 0, 0), "{periods:?} {is_written_between}");
        }
    }
}

#[test]
fn a_reset_keeps_what_a_process_before_holds() {
    let (_folder, file) = file();
    let limit = budget(true);
    let now = at(NOON);
    let mut process = Process::start(&file, std::slice::from_ref(&limit), now);
    let lost = process.reserve(400, now).unwrap();
    let settled = process.reserve(200, now).unwrap();
    process.flush(now);
    let mut next = Process::start(&file, std::slice::from_ref(&limit), now);
    assert_eq!(next.view(&limit, now), (0, 600, 0));
    let entity = next.buckets.get(next.buckets.hash.only(&limit)).unwrap();
    {
        let mut state = entity.state.lock();
        let past = state.reset();
        next.buckets.sink.past(&limit, &entity, &mut state, past);
        next.buckets.sink.changed(&limit, &entity, &mut state);
    }
    drop(entity);
    for _ in 0..2 {
        next.flush(now);
        assert_eq!(next.view(&limit, now), (0, 600, 0));
    }
    // What is settled of it counts for the time before the reset, and so does what nobody settles.
    settled.settle(used(0, 150), now);
    process.flush(now);
    next.flush(now);
    assert_eq!(next.view(&limit, now), (0, 400, 0));
    let then = later(now, LIFETIME / 1000 + 1);
    next.flush(then);
    assert_eq!(next.view(&limit, then), (0, 0, 0));
    let third = Process::start(&file, std::slice::from_ref(&limit), then);
    assert_eq!(third.view(&limit, then), (0, 0, 0));
    lost.settle(used(0, 30), then);
}

#[test]
fn resets_and_windows_have_rows_of_their_own() {
    let (_folder, file) = file();
    let limit = budget(false);
    let now = at(NOON);
    let mut process = Process::start(&file, std::slice::from_ref(&limit), now);
    let before = process.reserve(100, now).unwrap();
    process.reserve(100, now).unwrap().settle(used(0, 60), now);
    process.flush(now);
    let entity = process.buckets.get(process.buckets.hash.only(&limit)).unwrap();
    {
        let mut state = entity.state.lock();
        let past = state.reset();
        process.buckets.sink.past(&limit, &entity, &mut state, past);
        process.buckets.sink.changed(&limit, &entity, &mut state);
    }
    process.reserve(100, now).unwrap().settle(used(0, 7), now);
    before.settle(used(0, 900), now);
    process.flush(now);
    assert_eq!(Process::start(&file, std::slice::from_ref(&limit), now).view(&limit, now), (7, 0, 0));
    // Another rule: the usage moves along, and back.
    let mut limit = limit;
    for reset in [Reset::Monthly, Reset::Weekly, Reset::Never, Reset::Monthly] {
        limit.kind = usage(UsageOf::Cost, 1_000, reset);
        let mut process = Process::start(&file, std::slice::from_ref(&limit), now);
        assert_eq!(process.view(&limit, now), (7, 0, 0), "{reset:?}");
        process.flush(now);
        assert_eq!(
            Process::start(&file, std::slice::from_ref(&limit), now).view(&limit, now),
            (7, 0, 0),
            "{reset:?}"
        );
    }
}

#[test]
fn what_cannot_be_written_is_written_later() {
    let (_folder, file) = file();
    let limit = budget(false);
    let now = at(NOON);
    let mut process = Process::start(&file, std::slice::from_ref(&limit), now);
    process.reserve(100, now).unwrap().settle(used(0, 60), now);
    process.journal.connection.pragma_update(None, "query_only", true).unwrap();
    let flush = |process: &mut Process| process.journal.write(&process.buckets, &[], now.as_millisecond());
    assert!(flush(&mut process).is_err());
    process.reserve(100, now).unwrap().settle(used(0, 6), now);
    assert!(flush(&mut process).is_err());
    let monday = at("2026-11-23T00:00:00Z");
    assert_eq!(process.view(&limit, monday), (0, 0, 0));
    assert!(flush(&mut process).is_err());
    process.journal.connection.pragma_update(None, "query_only", false).unwrap();
    process.flush(now);
    assert_eq!(Process::start(&file, std::slice::from_ref(&limit), now).view(&limit, now), (66, 0, 0));
}

#[test]
fn nothing_counts_as_written_to_a_file_that_is_gone() {
    let (folder, file) = file();
    let limit = budget(false);
    let now = at(NOON);
    let mut process = Process::start(&file, std::slice::from_ref(&limit), now);
    process.reserve(100, now).unwrap().settle(used(0, 60), now);
    let away = folder.path().join("away");
    std::fs::rename(&file, &away).unwrap();
    let written = process.journal.write(&process.buckets, &[], now.as_millisecond());
    assert!(written.as_ref().is_err_and(|why| why.contains("limits.db")), "{written:?}");
    assert!(process.journal.compact(&process.buckets, now.as_millisecond()).is_err());
    std::fs::rename(&away, &file).unwrap();
    process.flush(now);
    assert_eq!(Process::start(&file, std::slice::from_ref(&limit), now).view(&limit, now), (60, 0, 0));
}

/// The disk stalls or fails, and requests give up waiting for it.
#[test]
fn a_hold_that_is_cancelled_before_it_is_written_leaves_no_trace() {
    let (_folder, file) = file();
    let limit = budget(true);
    let now = at(NOON);
    let mut before = Process::start(&file, std::slice::from_ref(&limit), now);
    let lost = before.reserve(300, now).unwrap();
    let then = later(now, LIFETIME / 1000 + 1);
    for is_failing in [false, true] {
        let mut process = Process::start(&file, std::slice::from_ref(&limit), then);
        assert_eq!(process.view(&limit, then), (300, 0, 300), "{is_failing}");
        let (reservation, holds) = process.unwritten(100, then).unwrap();
        if is_failing {
            process.journal.connection.pragma_update(None, "query_only", true).unwrap();
            assert!(process.journal.write(&process.buckets, &holds, then.as_millisecond()).is_err());
            process.journal.connection.pragma_update(None, "query_only", false).unwrap();
            reservation.cancel(then);
        } else {
            reservation.cancel(then);
            process.journal.write(&process.buckets, &holds, then.as_millisecond()).unwrap();
        }
        process.flush(then);
        assert_eq!(process.view(&limit, then), (300, 0, 300), "{is_failing}");
        let next = Process::start(&file, std::slice::from_ref(&limit), then);
        assert_eq!(next.view(&limit, then), (300, 0, 300), "{is_failing}");
    }
    drop(lost);
}

#[test]
fn rows_of_windows_long_over_are_dropped() {
    let (_folder, file) = file();
    let limit = budget(true);
    let now = at(NOON);
    let mut process = Process::start(&file, std::slice::from_ref(&limit), now);
    let held = process.reserve(100, now).unwrap();
    process.reserve(100, now).unwrap().settle(used(0, 60), now);
    process.flush(now);
    let count = |process: &Process| -> (i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM usage), (SELECT count(*) FROM holds)";
        process.journal.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    process.journal.compact(&process.buckets, at("2026-11-23T12:00:00Z").as_millisecond()).unwrap();
    assert_eq!(count(&process), (1, 1));
    process.journal.compact(&process.buckets, at("2026-11-24T12:00:00Z").as_millisecond()).unwrap();
    assert_eq!(count(&process), (0, 0));
    drop(held);
}

#[tokio::test]
async fn the_thread_writes_by_itself_and_at_the_end() {
    let (_folder, file) = file();
    let limit = budget(true);
    let now = Timestamp::now();
    let options = LimitsOptions { journal: Some(file.clone()), ..LimitsOptions::default() };
    let limits = Limits::open(&options, now).unwrap();
    let set = LimitSet::new(vec![limit.clone()], limits.hash());
    let facts = facts(&NONE);
    let selection = set.select(&facts, Phase::Request).unwrap();
    let estimate = priced(10);
    let first = limits.reserve(&selection, &estimate, None, now).await.unwrap();
    // On the disk before it returned.
    let other = Limits::open(&options, now).unwrap();
    assert_eq!(other.usage(&limit, now).await.unwrap().unwrap().held, 10);
    first.settle(used(0, 7), now);
    drop((limits, other));
    let view = Limits::open(&options, now).unwrap().usage(&limit, now).await.unwrap().unwrap();
    assert_eq!((view.spent, view.held), (7, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Killed at any moments, a hard budget is never exceeded by what providers were paid.
    #[test]
    fn a_hard_budget_holds_through_crashes(steps in prop::collection::vec((0u8..8, 1i64..200), 1..60)) {
        let (_folder, file) = file();
        let limit = budget(true);
        let mut now = at("2026-11-17T00:00:00Z");
        let mut process = Process::start(&file, std::slice::from_ref(&limit), now);
        let mut paid = 0;
        let mut under_way = Vec::new();
        let mut lost = 0;
        for (kind, amount) in steps {
            match kind {
                0..=3 => under_way.extend(process.reserve(amount, now).ok().map(|one| (one, amount))),
                4..=5 if !under_way.is_empty() => {
                    let (one, most) = under_way.remove(0);
                    paid += most - most / 3;
                    one.settle(used(0, most - most / 3), now);
                }
                6 => process.flush(now),
                7 => {
                    // Killed: the provider is paid for all that was under way, and nobody hears of it.
                    lost += under_way.iter().map(|(_, most)| *most).sum::<i64>();
                    let old = std::mem::replace(&mut process, Process::start(&file, std::slice::from_ref(&limit), now));
                    under_way.clear();
                    drop(old);
                    now = later(now, amount * 10);
                }
                _ => {}
            }
            prop_assert!(paid + lost <= 1_000, "paid {paid}, lost {lost}");
            let (spent, held, _) = process.view(&limit, now);
            prop_assert!(spent + held >= paid + lost, "what was paid is not counted: {paid} + {lost}");
        }
    }
}

#[test]
fn usage_of_limits_that_are_gone_is_dropped_a_week_later() {
    let (_folder, file) = file();
    let now = at(NOON);
    let forever = |id| policy(id, usage(UsageOf::Cost, 1_000, Reset::Never));
    let limits = [forever(1), forever(2), budget(false)];
    let limits =
        [limits[0].clone(), limits[1].clone(), Limit { id: Uuid::from_u128(3), ..limits[2].clone() }];
    let mut process = Process::start(&file, &limits, now);
    process.reserve(100, now).unwrap().settle(used(0, 70), now);
    process.flush(now);
    let ids = |numbers: &[usize]| numbers.iter().map(|number| limits[*number].id).collect::<HashSet<_>>();
    let spent = |process: &Process, now| limits.each_ref().map(|limit| process.view(limit, now).0);
    // The second is gone; the third as well, but it comes back.
    process.journal.note_present(&ids(&[0]), now.as_millisecond()).unwrap();
    let next_day = later(now, 86_400);
    process.journal.note_present(&ids(&[0, 2]), next_day.as_millisecond()).unwrap();
    let before = later(now, gone::KEEP_GONE / 1000 - 1);
    process.journal.compact(&process.buckets, before.as_millisecond()).unwrap();
    assert_eq!(process.buckets.len(), 3);
    process.journal.note_present(&ids(&[0, 2]), before.as_millisecond()).unwrap();
    // A reservation that is under way keeps its bucket, and what it used is written.
    let then = later(before, 1);
    let under_way = process.reserve(10, then).unwrap();
    process.journal.compact(&process.buckets, then.as_millisecond()).unwrap();
    assert_eq!(spent(&process, then)[..2], [70, 70]);
    under_way.settle(used(0, 1), then);
    process.flush(then);
    let mut next = Process::start(&file, &limits, then);
    assert_eq!(spent(&next, then)[..2], [71, 1]);
    next.journal.note_present(&ids(&[0, 2]), then.as_millisecond()).unwrap();
    let much_later = later(then, gone::KEEP_GONE / 1000);
    next.journal.compact(&next.buckets, much_later.as_millisecond()).unwrap();
    assert_eq!(spent(&next, much_later)[..2], [71, 0]);
    assert_eq!(spent(&Process::start(&file, &limits, much_later), much_later)[..2], [71, 0]);
}

#[test]
fn many_buckets_of_a_limit_that_is_gone_are_dropped_bit_by_bit() {
    let (_folder, file) = file();
    let mut journal = Journal::open(&file, LIFETIME).unwrap();
    let sql = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 25000)
        INSERT INTO usage SELECT cast(n AS BLOB), 0, 0, 9223372036854775807, zeroblob(16), 0, 'k', 5, 0, 0, 0 FROM numbers";
    journal.connection.execute(sql, []).unwrap();
    journal.note_present(&HashSet::new(), 0).unwrap();
    let buckets = Buckets::new(BucketHash::Common, Sink::default());
    let mut left = Vec::new();
    for _ in 0..4 {
        journal.compact(&buckets, gone::KEEP_GONE).unwrap();
        let sql = "SELECT (SELECT count(*) FROM usage), (SELECT count(*) FROM gone)";
        let counts = journal.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        left.push(counts.unwrap());
    }
    assert_eq!(left, [(15_000_i64, 1_i64), (5_000, 1), (0, 0), (0, 0)]);
}
