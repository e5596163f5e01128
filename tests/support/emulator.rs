//! `turnpike emulator` as its own process: for recordings, and where the gateway's memory is measured.
//!
//! Most tests use the emulator inside the gateway instead. The process is killed when its guard is dropped,
//! or by its guardian.

use super::gateway::guardian;
use super::ports::free;
use super::process_output::ProcessOutput;
use super::wait::until_blocking;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running emulator.
pub(crate) struct Emulator {
    pub(crate) port: u16,
    stderr: ProcessOutput,
    process: Child,
    guardian: Child,
}

impl Emulator {
    /// Starts it, optionally with recordings to replay, and waits until it listens.
    pub(crate) fn start(recordings: Option<&Path>) -> Self {
        let port = free();
        let mut process = Command::new(env!("CARGO_BIN_EXE_turnpike"))
            .args(["emulator", "--listen", &format!("127.0.0.1:{port}")])
            .args(recordings.iter().flat_map(|file| ["--replay".as_ref(), file.as_os_str()]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = ProcessOutput::follow(process.stderr.take().unwrap());
        let guardian = guardian(process.id());
        let emulator = Self { port, stderr, process, guardian };
        let listens = until_blocking(|| TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(listens.is_some(), "the emulator did not start\n{}", emulator.stderr.tail("stderr"));
        emulator
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        for process in [&mut self.guardian, &mut self.process] {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.stderr.tail("emulator"));
        }
    }
}
