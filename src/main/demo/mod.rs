//! `turnpike run --demo`: a gateway with objects, a week of requests and traffic, to look at. Everything in it is made up.
//!
//! It has settings and a state directory of its own, in a new folder that goes when the process ends, and listens on loopback only. Its
//! objects come through the control API, its history through the ledger, its traffic over the data port; there is no other way in.

mod history;
mod objects;
mod traffic;

use super::{logging, output, serve};
use async_trait::async_trait;
use memory::state::Shared;
use objects::DemoTeam;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::fs::DirBuilder;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const SETTINGS: &str = include_str!("settings.yaml");
/// The ports of the shipped settings: data, control, emulator. Where one is taken, the demo has three others.
const PORTS: [u16; 3] = [8787, 8788, 8790];

/// Where a demo is.
#[derive(Debug, Clone)]
pub struct Demo {
    folder: PathBuf,
    data: SocketAddr,
    control: SocketAddr,
    emulator: SocketAddr,
}

/// Serves until a signal stops the process.
pub fn run() -> ExitCode {
    match Demo::prepare() {
        Ok(demo) => {
            let settings = demo.settings_file();
            let ended = serve::run(&settings, false, Some(&demo));
            // Not after a stop, which ends the process by itself.
            demo.remove();
            ended
        }
        Err(why) => logging::fatal(&format!("the demo cannot start: {why}")),
    }
}

impl Demo {
    /// Makes the folder and the settings in it.
    fn prepare() -> io::Result<Self> {
        let [data, control, emulator] = free(PORTS).or_else(|_| free([0; 3]))?;
        let folder = std::env::temp_dir().join(format!("turnpike-demo-{}", uuid::Uuid::now_v7()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let demo = Self { folder, data, control, emulator };
        let text = SETTINGS.replace("FOLDER", &demo.folder.display().to_string());
        let text = text.replace("DATA_PORT", &data.port().to_string());
        let text = text.replace("CONTROL_PORT", &control.port().to_string());
        let text = text.replace("EMULATOR_PORT", &emulator.port().to_string());
        std::fs::write(demo.settings_file(), text).inspect_err(|_| demo.remove())?;
        Ok(demo)
    }

    /// What fills it.
    pub fn task(&self, shared: &Arc<Shared>) -> DemoTask {
        DemoTask { demo: self.clone(), shared: Arc::clone(shared) }
    }

    fn settings_file(&self) -> PathBuf {
        self.folder.join("turnpike.yaml")
    }

    /// Removes everything that the demo has kept.
    pub fn remove(&self) {
        if let Err(why) = std::fs::remove_dir_all(&self.folder) {
            log::warn!(target: "turnpike", "{} is left: {why}", self.folder.display());
        }
    }

    /// The administrator's key, which the start has made.
    fn key(&self) -> io::Result<String> {
        let text = std::fs::read_to_string(self.folder.join("administrator.key"))?;
        Ok(text.trim().to_owned())
    }

    /// What it says of itself on standard output.
    fn announce(&self, key: &str) {
        let Self { data, control, folder, .. } = self;
        output::print(
            format!(
                "\nThe console  http://{control}/console/\nIts key      {key}\nClients      http://{data}/v1\n\
                 Kept in      {} until Ctrl-C\n\n",
                folder.display()
            )
            .as_bytes(),
        );
    }
}

/// The addresses of three ports that nobody listens on. `0`: any.
fn free(ports: [u16; 3]) -> io::Result<[SocketAddr; 3]> {
    // All three are held until all are found.
    let found: Vec<TcpListener> = ports
        .into_iter()
        .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
        .collect::<io::Result<_>>()?;
    let addresses: Vec<SocketAddr> = found.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
    addresses.try_into().map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Fills a demo, and keeps it busy.
pub struct DemoTask {
    demo: Demo,
    shared: Arc<Shared>,
}

#[async_trait]
impl BackgroundService for DemoTask {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            done = self.fill() => {
                if let Err(why) = done {
                    log::error!(target: "turnpike", "the demo is not full: {why}");
                }
            }
            _ = shutdown.changed() => {}
        }
    }
}

impl DemoTask {
    async fn fill(&self) -> Result<(), String> {
        while !self.shared.lifecycle.is_ready() {
            sleep(Duration::from_millis(10)).await;
        }
        let key = self.demo.key().map_err(|why| format!("its key: {why}"))?;
        self.demo.announce(&key);
        let Demo { control, emulator, .. } = self.demo;
        let made = tokio::task::spawn_blocking(move || objects::make(control, emulator, &key));
        let teams: Arc<[DemoTeam]> = made.await.map_err(|why| why.to_string())??.into();
        if let Some(key) = teams.iter().flat_map(|team| &team.keys).next() {
            output::print(format!("A client's   {}\n\n", key.text.expose()).as_bytes());
        }
        let shared = Arc::clone(&self.shared);
        let of_history = Arc::clone(&teams);
        let written = tokio::task::spawn_blocking(move || history::write(&shared, &of_history));
        let traffic = traffic::send(self.demo.data, &teams);
        tokio::pin!(traffic);
        tokio::select! {
            written = written => written.map_err(|why| why.to_string())??,
            ended = &mut traffic => return ended,
        }
        traffic.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_has_a_folder_of_its_own_and_free_ports() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(free([port, 0, 0]).is_err());
        let demo = Demo::prepare().unwrap();
        let text = std::fs::read_to_string(demo.settings_file()).unwrap();
        assert!(text.contains(&format!("state_dir: \"{}\"", demo.folder.display())), "{text}");
        assert!(!text.contains("_PORT") && !text.contains("FOLDER"), "{text}");
        let ports = [demo.data, demo.control, demo.emulator];
        assert!(ports.iter().all(|address| address.ip().is_loopback() && address.port() != 0), "{ports:?}");
        demo.remove();
        assert!(!demo.folder.exists());
    }
}
