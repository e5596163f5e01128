//! The rows of a grown log store: requests of a hundred days, written through the log store's own door, and their sums merged as a
//! gateway that had run all the time would have.
//!
//! A tenth of the keys has nine tenths of the requests. Metadata has a team of twenty, a feature of a hundred, and an id that no other
//! request has; one request in a million has a member that others lack.

use super::objects::Samples;
use super::sizes::Sizes;
use super::{Failure, progress};
use fastrand::Rng;
use jiff::Timestamp;
use memory::ledger::id::RowIds;
use memory::ledger::log_store::LogStore;
use memory::ledger::row::MS_A_DAY;
use memory::ledger::sqlite::SqliteLogs;
use memory::ledger::{Attempt, Entry, Row, RowKind, Text};
use std::borrow::Cow;
use std::path::Path;

/// Days that have rows. Those beyond the ninety that rows are kept are deleted a minute after the start.
pub(crate) const DAYS: usize = 100;
const BATCH: usize = 5_000;
/// One request in so many has the rare member of the metadata.
const RARE: usize = 1_000_000;

/// # Errors
/// The log store's.
pub(crate) fn make(file: &Path, sizes: &Sizes, samples: &Samples) -> Result<(), Failure> {
    let store = SqliteLogs::new(file.to_owned());
    let maker = Maker { ids: RowIds::default(), samples };
    let mut random = Rng::with_seed(7);
    let now = Timestamp::now().as_millisecond();
    let step = (DAYS as i64 * MS_A_DAY) as f64 / sizes.rows.max(1) as f64;
    let first = now - DAYS as i64 * MS_A_DAY;
    let mut merged = first / MS_A_DAY;
    let mut batch: Vec<Entry> = Vec::with_capacity(BATCH);
    for number in 0..sizes.rows {
        let at = first + (number as f64 * step) as i64;
        batch.push(Entry::from(maker.row(number, at, &mut random)));
        if batch.len() < BATCH && number + 1 < sizes.rows {
            continue;
        }
        store.write(&batch).map_err(|why| why.to_string())?;
        batch.clear();
        if at / MS_A_DAY > merged {
            merged = at / MS_A_DAY;
            merge(&store, at)?;
            progress(&format!("rows: {number} of {}", sizes.rows));
        }
    }
    merge(&store, now)
}

fn merge(store: &SqliteLogs, now: i64) -> Result<(), Failure> {
    while store.merge_rollups(now).map_err(|why| why.to_string())? {}
    Ok(())
}

struct Maker<'a> {
    ids: RowIds,
    samples: &'a Samples,
}

impl Maker<'_> {
    fn row(&self, number: usize, at: i64, random: &mut Rng) -> Row {
        let keys = &self.samples.key_ids;
        let tenth = (keys.len() / 10).max(1);
        let place = if random.u8(..10) > 0 { random.usize(..tenth) } else { random.usize(..keys.len()) };
        let (workspace, slug) =
            self.samples.workspaces.get(place % self.samples.workspaces.len()).cloned().unwrap_or_default();
        let provider = self.samples.providers.get(place % self.samples.providers.len()).cloned();
        let status = if random.u8(..50) == 0 { 429 } else { 200 };
        let tokens = random.u64(10..2_000);
        let latency = random.u64(200_000..4_000_000);
        let mut row = Row {
            trace_id: Text::from(format!("01a1fc78-943d-7242-ab24-{number:012x}")),
            workspace: Some(workspace),
            workspace_slug: Some(slug.into()),
            api_key: keys.get(place).map(|id| id.to_string().into()),
            api_key_name: Some(format!("key-{place}").into()),
            user: Some(format!("user-{}", place % 2_000).into()),
            metadata: Some(metadata(number, place, random).into()),
            operation: Text::new("chat"),
            method: Text::new("POST"),
            path: Text::new("/v1/chat/completions"),
            provider: provider.clone().map(Text::from),
            vendor: Some(Text::new("openai")),
            model: Some(format!("gpt-{}", place % 20).into()),
            response_model: Some(format!("gpt-{}", place % 20).into()),
            config: Some(format!("c-{}", place % 100).into()),
            status,
            is_success: status == 200,
            responded: true,
            input_tokens: Some(tokens),
            output_tokens: Some(200),
            total_tokens: Some(tokens + 200),
            usage_source: Some(Text::new("reported")),
            cost: Some(tokens.cast_signed() * 2_500 + 2_000_000),
            cost_status: Some(Text::new("priced")),
            latency_us: latency,
            upstream_us: latency - 100,
            overhead_us: 100,
            target: Some(Text::new("config.targets[0]")),
            bytes_in: 500,
            bytes_out: 2_000,
            ..Row::new(self.ids.new_id(at), RowKind::Request, at)
        };
        row.add_attempt(&Attempt {
            number: 1,
            created_ms: at + 1,
            provider: provider.map(Cow::Owned),
            vendor: Some("openai"),
            target: Some("config.targets[0]"),
            status,
            is_success: status == 200,
            responded: true,
            spent_us: row.upstream_us,
            ..Attempt::default()
        });
        row
    }
}

/// As a client would write it.
fn metadata(number: usize, place: usize, random: &mut Rng) -> String {
    let rare = if number % RARE == RARE / 2 { ",\"incident\":\"yes\"" } else { "" };
    let (user, team, feature) = (place % 2_000, place % 20, random.u8(..100));
    format!(
        "{{\"_user\":\"user-{user}\",\"team\":\"team-{team}\",\"feature\":\"f-{feature}\",\"run\":\"run-{number}\"{rare}}}"
    )
}
