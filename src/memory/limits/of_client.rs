//! The limits over a client, before it sends a request: which of them its requests can meet, and what is left of those that are clear.
//!
//! A client is its key, workspace and organisation. What else limits look at (models, metadata, configs) is the request's, and is named.

use super::limit::Limit;
use super::{CountersFailure, Facts, Limits, UsageView};
use crate::auth::fact_key::FactKey;
use jiff::Timestamp;

impl FactKey {
    /// Whether it is the same for all requests of a client.
    const fn is_of_client(&self) -> bool {
        matches!(self, Self::ApiKey | Self::Organisation | Self::Workspace)
    }
}

impl Limit {
    /// What of a request decides whether the limit counts it, and in which bucket; empty where that is clear. `None`: it counts no request
    /// of this client.
    pub fn over(&self, client: &Facts<'_>) -> Option<Vec<String>> {
        if self.workspace.is_some_and(|own| client.workspace != Some(own)) {
            return None;
        }
        let mut conditions = self.conditions.iter().filter(|condition| condition.key.is_of_client());
        let meets = conditions.all(|condition| client.meet(condition));
        let mut open: Vec<String> =
            self.keys().filter(|key| !key.is_of_client()).map(ToString::to_string).collect();
        open.sort_unstable();
        open.dedup();
        meets.then_some(open)
    }
}

impl Limits {
    /// The usage of the bucket that a client has of a limit by itself. `None`: nothing was used.
    ///
    /// # Errors
    /// The counters cannot be reached.
    pub async fn usage_of(
        &self,
        limit: &Limit,
        client: &Facts<'_>,
        now: Timestamp,
    ) -> Result<Option<UsageView>, CountersFailure> {
        let mut bucket = self.buckets.hash.start(limit);
        for value in limit.group_by.iter().filter_map(|key| client.group_value(key)) {
            value.hash(&mut |bytes| bucket.add(bytes));
        }
        self.bucket(limit, bucket.finish(), now).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Condition, Id, LimitKind, LimitScope, Reset, UsageOf};
    use uuid::Uuid;

    fn limit(conditions: Vec<Condition>, group_by: Vec<FactKey>) -> Limit {
        let kind = LimitKind::Usage { of: UsageOf::Tokens, credit: 10, alert_at: None, reset: Reset::Never };
        Limit { conditions, group_by, ..Limit::new(Uuid::from_u128(9), LimitScope::Policy, kind) }
    }

    #[test]
    fn a_limit_is_over_a_client_whose_key_and_workspace_it_means() {
        let none: &[(&str, &str)] = &[];
        let facts = Facts {
            organisation: None,
            workspace: Some(Uuid::from_u128(1)),
            api_key: Some(Id::Settings("mine")),
            config: None,
            prompt: None,
            endpoint_type: None,
            metadata: &none,
            target: None,
        };
        let of = |key: FactKey, value: &str| Condition::new(key, [value], []);
        let model = || of(FactKey::Model, "gpt-4o");
        let team = || FactKey::Metadata("team".into());
        for (limit, wanted) in [
            (limit(vec![], vec![]), Some(vec![])),
            (limit(vec![of(FactKey::ApiKey, "mine")], vec![FactKey::ApiKey]), Some(vec![])),
            (limit(vec![of(FactKey::ApiKey, "other")], vec![]), None),
            (
                limit(vec![of(FactKey::Workspace, "*"), model()], vec![team(), FactKey::Model]),
                Some(vec!["metadata.team", "model"]),
            ),
            (Limit { workspace: Some(Uuid::from_u128(2)), ..limit(vec![], vec![]) }, None),
        ] {
            let found = limit.over(&facts);
            assert_eq!(found, wanted.map(|open| open.into_iter().map(str::to_owned).collect()), "{limit:?}");
        }
    }
}
