//! A machine of a cluster: a network namespace with two links, one towards clients and one towards the stores, and a gateway in it.
//!
//! Only for a process that is in a network namespace of its own ([`isolate`]), so that nothing outside is touched.

use super::gateway::guardian;
use super::process_output::ProcessOutput;
use super::wait::until_blocking;
use parking_lot::Mutex;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// One of two machines, with the gateway that runs there.
pub(crate) struct Machine {
    /// 1 or 2.
    number: usize,
    /// Keeps the namespace.
    holder: Child,
    holder_guardian: Child,
    folder: tempfile::TempDir,
    /// A library that is loaded before others; see [`wrong_clock`].
    preload: Option<String>,
    gateway: Mutex<Option<Running>>,
    log: Mutex<Vec<ProcessOutput>>,
}

/// A process of the gateway.
struct Running {
    id: u32,
    /// `None`: it was started by the process that it has replaced.
    child: Option<Child>,
    guardian: Child,
}

impl Running {
    fn has_ended(&mut self) -> bool {
        match &mut self.child {
            Some(child) => child.try_wait().unwrap().is_some(),
            None => match std::fs::read_to_string(format!("/proc/{}/stat", self.id)) {
                Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
                Err(_) => true,
            },
        }
    }

    /// Waits for its end.
    fn ended(mut self) {
        let ended = until_blocking(|| self.has_ended().then_some(()));
        let _ended_already = self.guardian.kill();
        let _ = self.guardian.wait();
        assert!(ended.is_some(), "the gateway {} does not end", self.id);
    }
}

/// Runs the test `name` of this binary again, in a network namespace of its own. `Err`: none can be made here.
pub(crate) fn isolate(name: &str, mark: &str) -> Result<Output, String> {
    let probe = Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]).output();
    match probe {
        Ok(output) if output.status.success() && rustix::process::geteuid().is_root() => {}
        Ok(output) => {
            return Err(format!("no network namespace: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Err(why) => return Err(format!("unshare: {why}")),
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--"]).arg(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(mark, "1");
    Ok(command.stdin(Stdio::null()).output().unwrap())
}

/// Runs a program that must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A library that shows programs a wall clock an hour ahead. `None` without a C compiler.
pub(crate) fn wrong_clock(folder: &Path) -> Option<String> {
    const SOURCE: &str = "
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += 3600;
    return failed;
}
";
    std::fs::write(folder.join("clock.c"), SOURCE).unwrap();
    let library = folder.join("clock.so");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(folder.join("clock.c"))
        .status();
    made.is_ok_and(|status| status.success()).then(|| library.to_str().unwrap().to_owned())
}

impl Machine {
    /// Makes the namespace and its links: 10.231.N.2 towards clients, 10.232.N.2 towards the stores; .1 is this side.
    pub(crate) fn new(number: usize, preload: Option<String>) -> Self {
        let holder = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn().unwrap();
        let machine = Self {
            number,
            holder_guardian: guardian(holder.id()),
            holder,
            folder: tempfile::tempdir().unwrap(),
            preload,
            gateway: Mutex::default(),
            log: Mutex::default(),
        };
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let namespace = format!("/proc/{}/ns/net", machine.holder.id());
        let made = until_blocking(|| (std::fs::read_link(&namespace).ok()? != own).then_some(()));
        assert!(made.is_some(), "no namespace");
        machine.inside("ip", &["link", "set", "lo", "up"]);
        for (link, net) in [("front", 231), ("back", 232)] {
            let link = format!("{link}{number}");
            let namespace = machine.holder.id().to_string();
            run("ip", &["link", "add", &link, "type", "veth", "peer", "name", "far", "netns", &namespace]);
            run("ip", &["addr", "add", &format!("10.{net}.{number}.1/24"), "dev", &link]);
            run("ip", &["link", "set", &link, "up"]);
            machine.inside("ip", &["link", "set", "far", "name", &link]);
            machine.inside("ip", &["addr", "add", &format!("10.{net}.{number}.2/24"), "dev", &link]);
            machine.inside("ip", &["link", "set", &link, "up"]);
        }
        machine
    }

    fn inside(&self, program: &str, arguments: &[&str]) {
        let target = format!("--target={}", self.holder.id());
        run("nsenter", &[&[&target, "--net", program], arguments].concat());
    }

    /// A command in the namespace, in the folder of the gateway.
    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id())).args(["--net", "--"]);
        command.arg(env!("CARGO_BIN_EXE_turnpike")).current_dir(self.folder.path());
        command.env("RUNTIME_DIRECTORY", ".").stdin(Stdio::null());
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    /// Starts the gateway with these settings.
    pub(crate) fn start(&self, yaml: &str) {
        std::fs::write(self.folder.path().join("turnpike.yaml"), yaml).unwrap();
        let mut command = self.command();
        command.args(["run", "-c", "turnpike.yaml"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        self.log.lock().push(ProcessOutput::follow(process.stderr.take().unwrap()));
        let guardian = guardian(process.id());
        *self.gateway.lock() = Some(Running { id: process.id(), child: Some(process), guardian });
    }

    /// Ends the gateway by a signal (`KILL`, `TERM`), and waits for its end.
    pub(crate) fn stop(&self, signal: &str) {
        let running = self.gateway.lock().take().unwrap();
        run("kill", &["-s", signal, &running.id.to_string()]);
        running.ended();
    }

    /// Has the gateway replaced by a new process (`turnpike upgrade`), and waits for the old one to end.
    pub(crate) fn upgrade(&self) {
        let output = self.command().arg("upgrade").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let id = text.strip_prefix("process ").and_then(|text| text.strip_suffix(" serves now\n"));
        let id: u32 = id.unwrap_or_else(|| panic!("{output:?}\n{}", self.log())).parse().unwrap();
        let next = Running { id, child: None, guardian: guardian(id) };
        let old = self.gateway.lock().replace(next).unwrap();
        old.ended();
    }

    /// Takes the link towards the stores away, or brings it back.
    pub(crate) fn set_store_link(&self, state: &str) {
        run("ip", &["link", "set", &format!("back{}", self.number), state]);
    }

    /// Whether the gateway has written what it starts with when the database is away.
    pub(crate) fn has_sealed_copy(&self) -> bool {
        self.folder.path().join("data/snapshot.sealed").exists()
    }

    pub(crate) fn has_wrong_clock(&self) -> bool {
        self.preload.is_some()
    }

    /// An address of the gateway.
    pub(crate) fn address(&self, port: u16) -> String {
        format!("10.231.{}.2:{port}", self.number)
    }

    pub(crate) fn log(&self) -> String {
        let log = self.log.lock();
        log.iter().map(|output| output.tail(&format!("machine {}", self.number))).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut running) = self.gateway.lock().take() {
            let _ended_already = Command::new("kill").args(["-s", "KILL", &running.id.to_string()]).status();
            for process in std::iter::once(&mut running.guardian).chain(&mut running.child) {
                let _ended_already = process.kill();
                let _ = process.wait();
            }
        }
        for process in [&mut self.holder_guardian, &mut self.holder] {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}
