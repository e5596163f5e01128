//! The programs under test: started on free loopback ports, observed through `/proc`, stopped with the bench.
//!
//! Linux only. What is measured is defined in `cases`.

use super::Failure;
use std::cell::Cell;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running program; dropping it ends it.
pub(crate) struct Process {
    child: Child,
}

/// The settings of each gateway.
pub(crate) const SETTINGS: &str = include_str!("settings.yaml");
/// The service key the bench sends to the gateway.
pub(crate) const SERVICE_KEY: &str = "bench-service-key-0002";

impl Process {
    /// Starts `command` and waits until `address` accepts connections; its output goes to `log`.
    ///
    /// # Errors
    /// It does not start; the error contains its output.
    pub(crate) fn start(mut command: Command, address: SocketAddr, log: &Path) -> Result<Self, Failure> {
        let output = File::create(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let name = command.get_program().to_string_lossy().into_owned();
        let mut process = Self { child: command.spawn().map_err(|error| format!("{name}: {error}"))? };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
            let ended = process.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let output_text = fs::read_to_string(log).unwrap_or_default();
                return Err(format!(
                    "{name} does not listen on {address} ({ended:?}). Its output: {output_text}"
                )
                .into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(process)
    }

    /// CPU time of all threads so far, exact to the nanosecond (`/proc/PID/stat` counts in 10 ms ticks).
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        let mut total = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            total += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(total))
    }

    /// Resident memory, KiB.
    pub(crate) fn resident(&self) -> Result<f64, Failure> {
        self.memory("VmRSS:")
    }

    /// The most resident memory so far, KiB.
    pub(crate) fn peak(&self) -> Result<f64, Failure> {
        self.memory("VmHWM:")
    }

    /// A line of the system's figures of its memory, KiB.
    pub(crate) fn memory(&self, name: &str) -> Result<f64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line in /proc")?;
        Ok(line.trim_end_matches("kB").trim().parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors cannot be handled here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the programs are and which resources they get.
pub(crate) struct Bench {
    pub(crate) gateway: PathBuf,
    pub(crate) plain: PathBuf,
    /// Worker threads of each proxy.
    pub(crate) threads: usize,
    /// For settings and logs.
    pub(crate) directory: PathBuf,
    /// YAML behind the gateway's settings.
    pub(crate) more_settings: String,
    /// How many gateways were started.
    pub(crate) started: Cell<usize>,
}

impl Bench {
    /// `turnpike emulator`: the provider.
    pub(crate) fn start_emulator(&self) -> Result<(Process, SocketAddr), Failure> {
        self.emulator(Command::new(&self.gateway))
    }

    /// A provider whose work waits for everybody else's: it stands for one that has a machine of its own.
    pub(crate) fn start_nice_emulator(&self) -> Result<(Process, SocketAddr), Failure> {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(&self.gateway);
        self.emulator(command)
    }

    fn emulator(&self, mut command: Command) -> Result<(Process, SocketAddr), Failure> {
        let address = free_address()?;
        command.arg("emulator").arg("--listen").arg(address.to_string());
        Ok((Process::start(command, address, &self.directory.join("emulator.out"))?, address))
    }

    /// The plain Pingora proxy in front of `upstream`.
    pub(crate) fn start_plain(&self, upstream: SocketAddr) -> Result<(Process, SocketAddr), Failure> {
        let address = free_address()?;
        let mut command = Command::new(&self.plain);
        command.args([address.to_string(), upstream.to_string(), self.threads.to_string()]);
        Ok((Process::start(command, address, &self.directory.join("plain.out"))?, address))
    }

    /// The gateway in front of `upstream`, with the settings that it is shipped with.
    pub(crate) fn start_gateway(&self, upstream: SocketAddr) -> Result<Gateway, Failure> {
        let (address, control) = (free_address()?, free_address()?);
        let number = self.started.replace(self.started.get() + 1);
        // Each has a log store and a store of its own.
        let directory = self.directory.join(format!("gateway-{number}"));
        fs::create_dir_all(&directory)?;
        let settings = SETTINGS
            .replace("THREADS", &self.threads.to_string())
            .replace("DATA", &address.to_string())
            .replace("CONTROL", &control.to_string())
            .replace("UPSTREAM", &upstream.to_string())
            .replace("DIRECTORY", &directory.display().to_string());
        let file = directory.join("turnpike.yaml");
        fs::write(&file, settings + &self.more_settings)?;
        let mut command = Command::new(&self.gateway);
        command.arg("run").arg("-c").arg(&file);
        let process = Process::start(command, address, &directory.join("gateway.out"))?;
        Ok(Gateway { process, address, control, access_log: directory.join("access.log") })
    }
}

/// A running gateway.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) control: SocketAddr,
    /// The file that it writes its access lines to.
    pub(crate) access_log: PathBuf,
}

/// Finds the plain proxy beside this bench, and builds it if cargo is available: cargo does not build
/// examples for a bench, and one built before a Pingora upgrade would be a wrong baseline.
pub(crate) fn plain_proxy() -> Result<PathBuf, Failure> {
    let bench = std::env::current_exe()?;
    let profile = bench.parent().and_then(Path::parent).ok_or("the bench runs outside a target directory")?;
    let target = profile.parent().ok_or("no target directory")?;
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut command = Command::new(cargo);
        // The inner cargo must not inherit the variables that cargo set for our package: build scripts that
        // watch them (ring's) would run again and rebuild half the tree on every bench.
        let names = std::env::vars().map(|(name, _)| name);
        for name in names.filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
        command.args(["build", "--quiet", "--release", "--example", "plain_proxy", "--target-dir"]);
        let status = command.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
        if !status.success() {
            return Err("cargo could not build the example plain_proxy".into());
        }
    }
    let plain = profile.join("examples/plain_proxy");
    if plain.exists() {
        return Ok(plain);
    }
    Err(format!("{} is missing: cargo build --release --example plain_proxy", plain.display()).into())
}

/// Raises the limit of open files, for this process and those it starts, to what `streams` streams need.
pub(crate) fn raise_file_limit(streams: usize) -> Result<(), Failure> {
    let wanted = streams * 2 + 500;
    let limits = fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let soft: usize =
        line.split_whitespace().nth(3).and_then(|field| field.parse().ok()).unwrap_or(usize::MAX);
    if soft >= wanted {
        return Ok(());
    }
    let own = std::process::id().to_string();
    let status = Command::new("prlimit").args(["--pid", &own, &format!("--nofile={wanted}:")]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{streams} streams need {wanted} open files: ulimit -n {wanted}").into()),
    }
}

fn free_address() -> Result<SocketAddr, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
