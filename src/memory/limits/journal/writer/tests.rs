//! Tests of the thread's jobs, without the thread.

use super::*;
use crate::limits::buckets::Sink;
use crate::limits::journal::BucketName;
use parking_lot::Mutex;

fn hold(id: u128) -> HoldRow {
    let name = BucketName { entity: 7, window_start: 0, generation: 0 };
    let limit = (Uuid::nil(), 0);
    let value_key = "".into();
    HoldRow { id: Uuid::from_u128(id), name, amount: 10, window_end: i64::MAX, limit, value_key }
}

#[test]
fn a_hold_whose_request_has_given_up_waiting_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(&folder.path().join("limits.db"), 600_000).unwrap();
    let sink = Sink { unwritten: Some(Mutex::default()), ..Sink::default() };
    let buckets = Buckets::new(journal.hash().unwrap(), sink);
    let mut serving = Serving { journal, buckets, health: Arc::default() };
    let (jobs, queue) = mpsc::channel();
    let (closed, _) = oneshot::channel();
    let (open, mut outcome) = oneshot::channel();
    assert!(jobs.send(Job::Hold(vec![hold(2)], open)).is_ok());
    serving.run(Job::Hold(vec![hold(1)], closed), &queue);
    assert_eq!(outcome.try_recv().unwrap(), Ok(()));
    let sql = "SELECT count(*), max(id) FROM holds";
    let written = serving.journal.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(written.unwrap(), (1_i64, Uuid::from_u128(2).into_bytes()));
}
