//! `--attack SECONDS`: honest clients at a fixed rate or in a closed loop, alone, beside attackers, and after them.
//!
//! The attackers first attack another gateway, with a provider of its own, on the same machine: what honest requests lose
//! then is what busy cores cost. Only the rest is what the attack does to the gateway. What attackers send is in
//! `attackers`. Not a test: a wrong response to an honest client ends it with an error, a slow one is a result.

use super::Failure;
use super::attackers::{Attackers, leave_a_stream};
use super::cases;
use super::client::drive;
use super::process::{Bench, Process};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The bound of the gateway's held bytes.
const MAX_HELD: usize = 512 << 20;
/// Honest requests per second, where nothing else is said.
pub(crate) const RATE: f64 = 1000.0;
const QUIET: Duration = Duration::from_secs(30);
/// Looks at the memory of an idle gateway, and the time from one to the next. Compiled configs are kept for a minute after
/// their last use.
const LOOKS: u32 = 6;
const LOOK: Duration = Duration::from_secs(15);

/// A gateway, the provider of its honest clients, and that of the attackers.
struct Pair {
    gateway: Process,
    address: SocketAddr,
    _emulators: [Process; 2],
}

impl Pair {
    fn start(bench: &Bench, name: &str) -> Result<Self, Failure> {
        let directory = bench.directory.join(name);
        std::fs::create_dir_all(&directory)?;
        let mut bench = Bench {
            gateway: bench.gateway.clone(),
            plain: bench.plain.clone(),
            threads: std::thread::available_parallelism()?.get(),
            directory,
            more_settings: bench.more_settings.clone(),
            started: Cell::default(),
        };
        let (emulator, upstream) = bench.start_emulator()?;
        let (others, attacked) = bench.start_nice_emulator()?;
        bench.more_settings += &format!(
            r#"limits: {{max_held_bytes: {MAX_HELD}}}
configs:
  chat: {{provider: openai, custom_host: "http://{attacked}/v1", api_key: "bench-provider-key"}}
  messages: {{provider: anthropic, custom_host: "http://{attacked}/v1", api_key: "bench-provider-key"}}
"#
        );
        let started = bench.start_gateway(upstream)?;
        Ok(Self { gateway: started.process, address: started.address, _emulators: [emulator, others] })
    }
}

/// What is to be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    /// Of an attack.
    pub(crate) length: Duration,
    /// Whether every kind of attack is also made alone.
    pub(crate) each: bool,
    /// Honest requests per second; `None`: each client sends the next one when it has the response.
    pub(crate) rate: Option<f64>,
}

impl Trial {
    /// Runs all phases and prints a line for each.
    ///
    /// # Errors
    /// A program does not start, or an honest request was not answered.
    pub(crate) fn run(self, bench: &Bench) -> Result<(), Failure> {
        let Self { length, each, rate } = self;
        let pair = Pair::start(bench, "attacked")?;
        drive(cases::honest(pair.address, rate, Duration::from_secs(5)))?;
        // From then on the gateway has its tokenizer, which is no memory of an attack.
        leave_a_stream(pair.address)?;
        self.phase("quiet", &pair, QUIET)?;
        {
            let other = Pair::start(bench, "other")?;
            let attackers = Attackers::start(other.address, None);
            self.phase("another gateway attacked", &pair, QUIET.min(length))?;
            print_line(&attackers.stop());
        }
        // After the honest clients alone, as idle as it will be after the attack: what they leave is theirs.
        let before = rest(&pair)?;
        for name in super::attackers::names().filter(|_| each) {
            let attackers = Attackers::start(pair.address, Some(name));
            self.phase(&format!("attacked by {name}"), &pair, length)?;
            attackers.stop();
        }
        let attackers = Attackers::start(pair.address, None);
        self.phase("attacked", &pair, length)?;
        print_line(&attackers.stop());
        let peak = pair.gateway.peak()? / 1024.0;
        let after = rest(&pair)?;
        let share = (after / before - 1.0) * 100.0;
        print_line(&format!(
            "idle: {before:.1} MiB before the attack, {after:.1} after it ({share:+.1} %), {peak:.1} at the peak"
        ));
        self.phase("quiet again", &pair, QUIET)
    }

    fn phase(self, name: &str, pair: &Pair, length: Duration) -> Result<(), Failure> {
        let health = Health::watch(pair.address);
        let cpu = pair.gateway.cpu()?;
        let load = cases::honest(pair.address, self.rate, length);
        let mut tally = drive(load).map_err(|failure| format!("{name}: {failure}"))?;
        let cpu = pair.gateway.cpu()?.saturating_sub(cpu).as_secs_f64() / tally.elapsed.as_secs_f64();
        let mut share = |share| cases::percentile(&mut tally.whole, share) / 1000.0;
        let (p50, p99, p999, most) = (share(0.5), share(0.99), share(0.999), share(1.0));
        let (requests, health) = (tally.whole.len(), health.stop());
        let resident = pair.gateway.resident()? / 1024.0;
        print_line(&format!(
            "{name}: {requests} requests, p50 {p50:.2} ms, p99 {p99:.2}, p99.9 {p999:.1}, longest {most:.0}; gateway {cpu:.2} \
             cores, {resident:.0} MiB; {health}"
        ));
        Ok(())
    }
}

/// Lets the gateway idle until it has given back what it will; its resident memory then, MiB.
fn rest(pair: &Pair) -> Result<f64, Failure> {
    let mut resident = pair.gateway.resident()? / 1024.0;
    let mut line = format!("no load: {resident:.1} MiB, then every {} s", LOOK.as_secs());
    for _ in 0..LOOKS {
        std::thread::sleep(LOOK);
        resident = pair.gateway.resident()? / 1024.0;
        line += &format!(" {resident:.1}");
    }
    print_line(&line);
    Ok(resident)
}

/// Asks for `/livez` at the data port every 20 ms.
struct Health {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<u64>, usize)>,
}

impl Health {
    fn watch(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut times, mut failed) = (Vec::new(), 0);
            while !stopped.load(Ordering::Relaxed) {
                let start = Instant::now();
                match is_live(address) {
                    Ok(true) => times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
                    _ => failed += 1,
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            (times, failed)
        });
        Self { stop, thread }
    }

    fn stop(self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        let (mut times, failed) = self.thread.join().unwrap_or_default();
        let p99 = cases::percentile(&mut times, 0.99) / 1000.0;
        let most = cases::percentile(&mut times, 1.0) / 1000.0;
        format!("/livez p99 {p99:.1} ms, longest {most:.0}, {failed} failed")
    }
}

fn is_live(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /livez HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response.starts_with("HTTP/1.1 200"))
}

fn print_line(line: &str) {
    // Errors cannot be handled here.
    let _ = writeln!(std::io::stdout(), "{line}");
}
