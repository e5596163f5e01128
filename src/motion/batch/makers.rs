//! Whose files and batches a client finds in its workspace: everybody's, or where the person it is sees not all requests (the switches
//! `...ViewAllData`), those that its own keys have made. That is the rule of logs (`memory::auth::roles`), at both ports.
//!
//! Not here: which workspace a client is in.

use memory::auth::ClientIdentity;
use memory::auth::roles::{DataAccess, client_role, keys_of_user};
use memory::store::{Catalog, Record};
use serde::Deserialize;

/// Those whose files and batches a client finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Makers {
    Anybody,
    /// Clients with these ids. What was made before it was kept who had made it is nobody's.
    These(Vec<String>),
}

/// What a record has of it.
#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    made_by: Option<String>,
}

impl Makers {
    pub fn of(client: &ClientIdentity, catalog: &Catalog) -> Self {
        if !DataAccess::of(&client_role(client, catalog)).own_keys_only {
            return Self::Anybody;
        }
        let own = client.id.as_deref().map(str::to_owned);
        Self::These(keys_of_user(client, catalog).into_iter().chain(own).collect())
    }

    /// Whether one of them has made this file or batch.
    pub fn have_made(&self, record: &Record) -> bool {
        let Self::These(ids) = self else { return true };
        let made: Option<Made> = serde_json::from_str(&record.body).ok();
        made.and_then(|made| made.made_by).is_some_and(|maker| ids.contains(&maker))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{File, created, file};
    use super::*;
    use jiff::Timestamp;
    use memory::store::Kind;
    use uuid::Uuid;

    #[test]
    fn what_others_have_made_is_not_found() {
        let of = |made_by: Option<&str>| {
            let file = File {
                filename: "a.jsonl".to_owned(),
                purpose: "batch".to_owned(),
                bytes: 1,
                created: 1,
                expires: None,
                provider: None,
                made_by: made_by.map(str::to_owned),
            };
            created(Kind::File, Uuid::now_v7(), None, &file, Timestamp::UNIX_EPOCH)
        };
        let these = Makers::These(vec!["a".to_owned(), "b".to_owned()]);
        for (made_by, wanted) in [(Some("a"), true), (Some("b"), true), (Some("c"), false), (None, false)] {
            let record = of(made_by);
            assert_eq!(file(&record).unwrap().made_by.as_deref(), made_by);
            assert_eq!((these.have_made(&record), Makers::Anybody.have_made(&record)), (wanted, true));
        }
    }
}
