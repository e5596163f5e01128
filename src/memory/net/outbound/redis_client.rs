//! Connections to Redis or Valkey, and what their errors may say.
//!
//! No commands: those are of the rooms that keep something there.

#[cfg(test)]
pub(crate) mod server;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo, RedisError};
use std::error::Error as _;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// What was sent and is not acknowledged for so long: the connection is broken.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// A connection that connects when it is first used, and again when it breaks. To be made and used on one runtime: its tasks are there.
///
/// # Errors
/// The URL cannot be read.
pub fn connect(url: &str, response_timeout: Duration) -> Result<ConnectionManager, String> {
    let tcp = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(UNACKNOWLEDGED);
    let info = url.into_connection_info().map_err(|why| reason(&why))?.set_tcp_settings(tcp);
    let client = Client::open(info).map_err(|why| reason(&why))?;
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(response_timeout));
    ConnectionManager::new_lazy_with_config(client, config).map_err(|why| reason(&why))
}

/// What went wrong, without what the error may have of the URL.
pub fn reason(why: &RedisError) -> String {
    let source = why.source().map(ToString::to_string);
    match why.detail().map(str::to_owned).or(source).filter(|detail| !detail.is_empty()) {
        Some(detail) => format!("{}: {detail}", why.category()),
        None => why.category().to_owned(),
    }
}
