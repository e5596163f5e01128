//! A Redis server of one test, for gateways that count together.
//!
//! Killed when its guard is dropped, or by its guardian.

use super::gateway::guardian;
use super::ports::free;
use super::wait::until_blocking;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server, or one that was stopped and may run again.
pub(crate) struct RedisServer {
    pub(crate) port: u16,
    process: Child,
    guardian: Child,
    folder: tempfile::TempDir,
}

impl RedisServer {
    /// `None` where neither Redis nor Valkey is installed; CI has one.
    pub(crate) fn start() -> Option<Self> {
        let port = free();
        let folder = tempfile::tempdir().unwrap();
        let Some((process, guardian)) = spawn(port, &folder) else {
            assert!(std::env::var_os("CI").is_none(), "CI installs Redis (.ci/run)");
            eprintln!("SKIPPED on Redis: neither redis-server nor valkey-server is installed");
            return None;
        };
        Some(Self { port, process, guardian, folder })
    }

    /// Ends it as a crash does; it loses what it had.
    pub(crate) fn stop(&mut self) {
        for process in [&mut self.guardian, &mut self.process] {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again at its port.
    pub(crate) fn start_again(&mut self) {
        (self.process, self.guardian) = spawn(self.port, &self.folder).unwrap();
    }

    /// Sends a signal by its short name (`STOP`, `CONT`).
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.id();
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status().unwrap();
        assert!(sent.success(), "kill -{name} {id}");
    }

    /// The first line of the reply to a command whose arguments have no blanks.
    pub(crate) fn command(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            reply.extend(byte);
        }
        String::from_utf8(reply).unwrap().trim_end().to_owned()
    }
}

/// The server and its guardian, once it listens; `None` where none is installed.
fn spawn(port: u16, folder: &tempfile::TempDir) -> Option<(Child, Child)> {
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
    let process = spawn("redis-server").or_else(|_| spawn("valkey-server")).ok()?;
    let guardian = guardian(process.id());
    let listens = until_blocking(|| TcpStream::connect(("127.0.0.1", port)).ok());
    assert!(listens.is_some(), "the Redis server did not start");
    Some((process, guardian))
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}
