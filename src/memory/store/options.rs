//! Where the store is and which master key it has, as the settings say it.
//!
//! Opens nothing: that is [`Store::open`](super::Store::open).

use super::StoreError;
use super::master_key::KeySource;
use std::path::PathBuf;
use words::config::secret::Secret;
use words::settings::{NodeRole, StoreSettings};

/// The options of [`Store::open`](super::Store::open).
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// `sqlite:///PATH`, `sqlite::memory:` (for tests) or `postgres://…`. It may hold a password. `None`:
    /// `turnpike.db` in the state directory.
    pub url: Option<Secret>,
    /// For what belongs to this process: the snapshot on disk, the default database and its master key.
    pub state_dir: PathBuf,
    /// `None`: the file `master.key` beside the database.
    pub encryption_key: Option<Secret>,
    /// Keys that were the master key before; they only unseal.
    pub previous_encryption_keys: Vec<Secret>,
    /// Nothing but the row of this gateway is written: `commit` refuses.
    pub reads_only: bool,
}

impl StoreOptions {
    /// What the settings say; `state_dir` as [`StateDir`](super::StateDir) finds it. An edge node
    /// only reads.
    pub fn new(settings: &StoreSettings, state_dir: PathBuf, role: NodeRole) -> Self {
        Self {
            url: settings.url.clone(),
            state_dir,
            encryption_key: settings.encryption_key.clone(),
            previous_encryption_keys: settings.previous_encryption_keys.clone(),
            reads_only: role.is_edge(),
        }
    }

    /// A store that ends with the process.
    pub fn in_memory() -> Self {
        Self {
            url: Some(Secret::new("sqlite::memory:")),
            state_dir: PathBuf::new(),
            encryption_key: None,
            previous_encryption_keys: Vec::new(),
            reads_only: false,
        }
    }

    /// The database.
    ///
    /// # Errors
    /// `Misconfigured`, without repeating the URL.
    pub fn location(&self) -> Result<Location, StoreError> {
        match &self.url {
            Some(url) => Location::parse(url.expose())
                .map_err(|why| StoreError::Misconfigured(format!("store.url: {why}"))),
            None => Ok(Location::File(self.state_dir.join("turnpike.db"))),
        }
    }

    /// Where the master key comes from.
    ///
    /// # Errors
    /// `Misconfigured`: none is set, and there is no place for a file that only one gateway has.
    pub(super) fn key_source(&self, location: &Location) -> Result<KeySource, StoreError> {
        if let Some(current) = &self.encryption_key {
            let previous = self.previous_encryption_keys.clone();
            return Ok(KeySource::Settings { current: current.clone(), previous });
        }
        if !self.previous_encryption_keys.is_empty() {
            let why = "store.previous_encryption_keys: needs store.encryption_key, the key that is used now";
            return Err(StoreError::Misconfigured(why.to_owned()));
        }
        match location {
            Location::File(file) => Ok(KeySource::File(file.with_file_name("master.key"))),
            Location::Memory => Ok(KeySource::Random),
            Location::Postgres(_) => {
                let why = "store.encryption_key: is required with PostgreSQL, the same for all gateways (openssl rand -hex 32)";
                Err(StoreError::Misconfigured(why.to_owned()))
            }
        }
    }
}

/// A database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// SQLite in this file.
    File(PathBuf),
    /// SQLite in memory.
    Memory,
    /// PostgreSQL; the whole URL.
    Postgres(Secret),
}

impl Location {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it: it may hold a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let wrong = |why: &str| why.to_owned();
        if url == "sqlite::memory:" {
            return Ok(Self::Memory);
        }
        if let Some(rest) = url.strip_prefix("sqlite:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if path.is_empty() || path.ends_with('/') {
                return Err(wrong("names no file; write sqlite:///var/lib/turnpike/turnpike.db"));
            }
            if path.contains(['?', '#']) {
                return Err(wrong("takes no parameters for SQLite"));
            }
            return Ok(Self::File(PathBuf::from(path)));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            super::postgres::check_url(url)?;
            return Ok(Self::Postgres(Secret::new(url)));
        }
        Err(wrong("must begin with sqlite:// or postgres://"))
    }

    /// `sqlite` or `postgres`, for logs and metrics.
    pub const fn backend_name(&self) -> &'static str {
        match self {
            Self::File(_) | Self::Memory => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// Names the database without its password, for logs and for what the snapshot on disk belongs to.
    pub fn describe(&self) -> String {
        match self {
            Self::File(file) => format!("sqlite://{}", file.display()),
            Self::Memory => "sqlite::memory:".to_owned(),
            Self::Postgres(url) => super::postgres::describe(url.expose()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_or_a_server() {
        let file = |path: &str| Ok(Location::File(PathBuf::from(path)));
        assert_eq!(Location::parse("sqlite:///var/lib/t.db"), file("/var/lib/t.db"));
        assert_eq!(Location::parse("sqlite://data/t.db"), file("data/t.db"));
        assert_eq!(Location::parse("sqlite:t.db"), file("t.db"));
        assert_eq!(Location::parse("sqlite::memory:"), Ok(Location::Memory));
        let url = "postgres://gateway:hunter22@db.internal:5433/turnpike?sslmode=require";
        let server = Location::parse(url).unwrap();
        assert_eq!(server.describe(), "postgres://gateway@db.internal:5433/turnpike");
        assert!(!format!("{server:?}").contains("hunter22"));
        for bad in [
            "",
            "t.db",
            "sqlite:",
            "sqlite://",
            "sqlite:///var/",
            "sqlite:///t.db?mode=ro",
            "mysql://a/b",
            "postgres://h:hunter22@[/db",
            "postgres://h:hunter22@a:99999/db",
            "postgres://h:hunter22@a/db?sslmode=sometimes",
            "postgres://h:hunter22@a/db?unheard=hunter22",
        ] {
            let why = Location::parse(bad).unwrap_err();
            assert!(!why.is_empty() && !why.contains("hunter22"), "{bad}: {why}");
        }
    }

    #[test]
    fn several_gateways_need_the_same_key() {
        let url = Secret::new("postgres://db/turnpike");
        let options = StoreOptions { url: Some(url), ..StoreOptions::in_memory() };
        let why = options.key_source(&options.location().unwrap()).unwrap_err();
        assert!(why.is_fatal() && why.to_string().contains("store.encryption_key"), "{why}");
    }
}
