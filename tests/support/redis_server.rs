//! A Redis server of one test, for gateways that count together.
//!
//! Killed when its guard is dropped, or by its guardian.

use super::gateway::guardian;
use super::ports::free;
use super::wait::until_blocking;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running server.
pub(crate) struct RedisServer {
    pub(crate) port: u16,
    process: Child,
    guardian: Child,
    _folder: tempfile::TempDir,
}

impl RedisServer {
    /// `None` where neither Redis nor Valkey is installed; CI has one.
    pub(crate) fn start() -> Option<Self> {
        let (port, folder) = (free(), tempfile::tempdir().unwrap());
        let spawn = |program: &str| {
            let mut command = Command::new(program);
            command.args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ]);
            command.arg("--dir").arg(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let Ok(process) = spawn("redis-server").or_else(|_| spawn("valkey-server")) else {
            assert!(std::env::var_os("CI").is_none(), "CI installs Redis (.ci/run)");
            eprintln!("SKIPPED on Redis: neither redis-server nor valkey-server is installed");
            return None;
        };
        let guardian = guardian(process.id());
        let server = Self { port, process, guardian, _folder: folder };
        let listens = until_blocking(|| TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(listens.is_some(), "the Redis server did not start");
        Some(server)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        for process in [&mut self.guardian, &mut self.process] {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
    }
}
