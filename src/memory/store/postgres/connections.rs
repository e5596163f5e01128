//! Pools of connections to a PostgreSQL database, and the runtime that they live on.
//!
//! Nothing is connected here. Not here: what is done with connections.

use super::super::StoreError;
use super::{CALL_TIMEOUT, CONNECT_TIMEOUT, tls, url};
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Timeouts};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres_rustls::MakeRustlsConnect;

/// A pool of connections, the runtime they live on, and what others are made with.
pub struct Connections {
    pub runtime: Runtime,
    pub pool: Pool,
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: MakeRustlsConnect,
}

/// A pool of connections to the database of this URL. Connects to nothing yet. `setting`: the setting that has the URL.
///
/// # Errors
/// `Misconfigured` for a URL or authorities that cannot be read; `Unavailable` for a runtime that cannot be made.
pub fn connections(text: &str, setting: &str, max_size: usize) -> Result<Connections, StoreError> {
    let (config, tls) = connector(text, setting)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let name = format!("{}-postgres", setting.split('.').next().unwrap_or_default());
    let runtime = runtime.worker_threads(1).thread_name(name).enable_all().build();
    let runtime = runtime.map_err(|why| StoreError::Unavailable(format!("no runtime: {why}")))?;
    let pool = pool_of(&config, &tls, max_size, RecyclingMethod::Verified)?;
    Ok(Connections { runtime, pool, config, tls })
}

/// A pool whose connections live on the runtime of whoever takes them. They are not tested before they are given out, which would take
/// a round trip.
///
/// # Errors
/// As [`connections`].
pub fn pool(text: &str, setting: &str, max_size: usize) -> Result<Pool, StoreError> {
    let (config, tls) = connector(text, setting)?;
    pool_of(&config, &tls, max_size, RecyclingMethod::Fast)
}

fn connector(text: &str, setting: &str) -> Result<(tokio_postgres::Config, MakeRustlsConnect), StoreError> {
    let wrong = |why: String| StoreError::Misconfigured(format!("{setting}: {why}"));
    let (mut config, verification) = url::parse(text).map_err(wrong)?;
    config.connect_timeout(CONNECT_TIMEOUT);
    config.tcp_user_timeout(CALL_TIMEOUT);
    config.keepalives_idle(Duration::from_secs(15));
    let tls = tls::connector(&verification).map_err(wrong)?;
    Ok((config, tls))
}

fn pool_of(
    config: &tokio_postgres::Config,
    tls: &MakeRustlsConnect,
    max_size: usize,
    recycling_method: RecyclingMethod,
) -> Result<Pool, StoreError> {
    let manager = Manager::from_config(config.clone(), tls.clone(), ManagerConfig { recycling_method });
    let limits = Timeouts {
        wait: Some(CONNECT_TIMEOUT),
        create: Some(CONNECT_TIMEOUT),
        recycle: Some(CONNECT_TIMEOUT),
    };
    let pool = Pool::builder(manager).max_size(max_size).timeouts(limits);
    let pool = pool.runtime(deadpool_postgres::Runtime::Tokio1).build();
    pool.map_err(|why| StoreError::Unavailable(why.to_string()))
}
