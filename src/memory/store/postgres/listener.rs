//! Listens for the announcements of other gateways' writes, on a connection of its own.
//!
//! Reads no records: the tasks that wait for it do. An announcement that is lost costs a second, because positions are polled as well.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The channel of `NOTIFY`.
pub(super) const CHANNEL: &str = "turnpike_changes";
const FIRST_RETRY: Duration = Duration::from_millis(200);
const MAX_RETRY: Duration = Duration::from_secs(5);

/// Runs until its runtime ends.
pub(super) async fn listen(config: Config, tls: MakeRustlsConnect, announced: Arc<Notify>) {
    let mut retry = FIRST_RETRY;
    loop {
        let mut connected = false;
        if let Err(error) = listen_once(&config, tls.clone(), &announced, &mut connected).await {
            log::debug!(target: "turnpike", "postgres: the connection that listens has ended: {error}");
        }
        if connected {
            retry = FIRST_RETRY;
        }
        sleep(retry).await;
        retry = (retry * 2).min(MAX_RETRY);
    }
}

async fn listen_once(
    config: &Config,
    tls: MakeRustlsConnect,
    announced: &Notify,
    connected: &mut bool,
) -> Result<(), Error> {
    let (client, mut connection) = config.connect(tls).await?;
    let receive = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message? {
                announced.notify_one();
            }
        }
        Ok(())
    };
    let subscribe = async {
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        *connected = true;
        // What was announced while there was no connection.
        announced.notify_one();
        pending().await
    };
    tokio::select! {
        ended = receive => ended,
        failed = subscribe => failed,
    }
}
