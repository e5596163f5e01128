//! Changes the master key while gateways run, and checks that everything can be unsealed.
//!
//! A gateway knows the old key and the new one meanwhile: both are in its settings, or in the key file, which it reads again
//! when it sees a record under a key that it does not have.

use super::master_key::{self, KeySource};
use super::{Change, Kind, Record, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Records that are sealed again in one write.
const BATCH: u32 = 50;
/// How often a batch is tried that gateways change at the same time.
const MAX_CONFLICTS: u32 = 100;
/// Until every gateway has seen the new key: twice what a change takes at most.
const NOTICE_TIME: Duration = Duration::from_secs(2);

impl Store {
    /// Seals all secrets under the first master key of the settings; without one in the settings, under a new key in the
    /// key file. Returns how many records it sealed again.
    ///
    /// # Errors
    /// See [`StoreError`]. What was sealed again stays so, and a second call goes on.
    pub async fn rekey(&self) -> Result<u64, StoreError> {
        let KeySource::File(file) = self.key_source() else { return self.reseal().await };
        let mut keys = master_key::read_file(&file)?;
        // With several keys in it, a call before was stopped: it goes on.
        if keys.len() == 1 {
            keys.insert(0, master_key::generate()?);
            master_key::replace_file(&file, &keys)?;
        }
        self.read_keys()?;
        let first = self.reseal().await?;
        // A gateway that has not seen the new key yet may just have sealed something under the old one.
        sleep(NOTICE_TIME).await;
        let rest = self.reseal().await?;
        keys.truncate(1);
        master_key::replace_file(&file, &keys)?;
        self.read_keys()?;
        Ok(first + rest)
    }

    async fn reseal(&self) -> Result<u64, StoreError> {
        let key_id = self.current_key_id();
        let mut done = 0;
        let mut conflicts = 0;
        loop {
            let batch = self.backend()?.sealed_under_others(&key_id, BATCH).await?;
            if batch.is_empty() {
                return Ok(done);
            }
            let changes =
                batch.iter().map(|record| self.reseal_record(record)).collect::<Result<Vec<_>, _>>()?;
            let count = u64::try_from(changes.len()).unwrap_or(u64::MAX);
            match self.commit(changes, Vec::new()).await {
                Ok(_) => done += count,
                Err(StoreError::Changed) if conflicts < MAX_CONFLICTS => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn reseal_record(&self, record: &Record) -> Result<Change, StoreError> {
        let plain = self.unseal_bytes(record)?;
        let sealed = plain.map(|plain| self.seal_bytes(record.kind, record.id, &plain)).transpose()?;
        Ok(Change::Put(Arc::new(Record { revision: record.revision + 1, sealed, ..record.clone() })))
    }

    /// Checks the database, every row and every sealed part. Returns the number of records.
    ///
    /// # Errors
    /// `Damaged`: the first thing that is wrong.
    pub async fn verify(&self) -> Result<u64, StoreError> {
        let count = self.backend()?.verify().await?;
        let catalog = self.load(self.backend()?).await?;
        for record in Kind::ALL.into_iter().flat_map(|kind| catalog.all(kind)) {
            self.unseal_bytes(record)?;
        }
        Ok(count)
    }
}
