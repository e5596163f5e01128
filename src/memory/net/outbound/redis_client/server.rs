//! A Redis or Valkey server of one test.
//!
//! For the rooms that keep something there.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Ends with the test.
pub(crate) struct RedisServer {
    pub port: u16,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl RedisServer {
    /// `None`, and a line: it is not installed.
    pub(crate) async fn start() -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_at(port, &[]).await
    }

    /// At this port, with these arguments too.
    pub(crate) async fn start_at(port: u16, arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let spawn = |program: &str| {
            let mut command = Command::new(program);
            let port = port.to_string();
            command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"]);
            command.args(arguments).arg("--dir").arg(folder.path());
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let Ok(process) = spawn("redis-server").or_else(|_| spawn("valkey-server")) else {
            assert!(std::env::var_os("CI").is_none(), "CI installs Redis (.ci/run)");
            eprintln!("SKIPPED on Redis: neither redis-server nor valkey-server is installed");
            return None;
        };
        let server = Self { process, port, _folder: folder };
        for _ in 0..500 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server did not start");
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Has it not respond.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        assert!(status.unwrap().success());
    }
}
