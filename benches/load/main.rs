//! `cargo bench --bench load`: the gateway, as it is shipped and with governance, against the provider itself and against a plain Pingora
//! proxy, in one run.
//!
//! Every round runs all of them, in rotating order, so that a machine that slows down affects all of them
//! equally; medians are reported. It starts what it needs on loopback (the provider is `turnpike emulator`),
//! pins nothing to a CPU, and stops by itself. Not a test: a wrong response ends it with an error, a slow one
//! is a result.
//!
//! After `--`: `--quick` (fewer, shorter rounds), `--rounds N`, `--threads N` (of each proxy; as many as there are CPUs),
//! `--only direct,plain,gateway,governed`, `--cases small_chat,stream,…,memory`, `--upstream ADDR` (a provider that
//! runs already), `--gateway FILE` (another build of `turnpike`, to compare), `--settings FILE` (YAML behind `settings.yaml`), `--attack SECONDS` (instead of the cases:
//! honest clients beside attackers; with `--each`, also every kind of attack alone; with `--closed`, the honest clients send
//! their next request when they have the response, instead of 1,000 a second).

mod attack;
mod attackers;
mod cases;
mod client;
mod governed;
mod process;
mod response;
mod table;

use cases::{CASES, Path, Subject};
use process::{Bench, Process, SERVICE_KEY};
use std::cell::Cell;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use table::Results;

type Failure = Box<dyn std::error::Error>;

/// The options on the command line.
struct Options {
    rounds: usize,
    /// Duration of one run of one case.
    length: Duration,
    streams: usize,
    threads: usize,
    paths: Vec<Path>,
    cases: Option<String>,
    upstream: Option<SocketAddr>,
    gateway: PathBuf,
    /// YAML behind the settings of the gateways.
    more_settings: String,
    /// How long to attack, instead of running the cases.
    attack: Option<Duration>,
    /// Whether to attack in every way alone, too.
    each: bool,
    /// Honest requests per second beside attackers; `None`: as many as get a response.
    honest_rate: Option<f64>,
}

fn main() -> Result<(), Failure> {
    // Of the control API's client. It is installed once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = Options::read(std::env::args().skip(1))?;
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("load-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let result = match options.attack {
        Some(length) => {
            let trial = attack::Trial { length, each: options.each, rate: options.honest_rate };
            trial.run(&options.bench(directory.clone(), PathBuf::new())).map(|()| None)
        }
        None => measure(&options, directory.clone()).map(Some),
    };
    std::fs::remove_dir_all(&directory)?;
    let Some(results) = result? else { return Ok(()) };
    let mut out = std::io::stdout().lock();
    let of = table::origin(&options)?;
    write!(out, "\n{of}\n\n{}\n{}\n", results.markdown(), results.json())?;
    Ok(())
}

fn measure(options: &Options, directory: PathBuf) -> Result<Results, Failure> {
    process::raise_file_limit(options.streams)?;
    let bench = options.bench(directory, process::plain_proxy()?);
    let (_emulator, upstream) = match options.upstream {
        Some(upstream) => (None, upstream),
        None => bench.start_emulator().map(|(process, address)| (Some(process), address))?,
    };
    let mut results = Results::default();
    if options.wants("memory") {
        for round in 0..options.rounds.min(3) {
            for started in start_all(options, &bench, upstream)? {
                let subject = &started.subject;
                progress(&format!("memory, round {}, {:?}", round + 1, subject.path));
                if let Some(memory) = cases::memory(subject, options.streams)? {
                    results.add_memory(subject.path, memory);
                }
            }
        }
    }
    let mut started = start_all(options, &bench, upstream)?;
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        for Started { subject, .. } in started.iter().filter(|one| case.is_of(one.subject.path)) {
            case.run(subject, options.length / 5)?;
        }
        for round in 0..options.rounds {
            progress(&format!("{}, round {}", case.title, round + 1));
            for Started { subject, access_log } in started.iter().filter(|one| case.is_of(one.subject.path)) {
                results.add(case, subject.path, round, case.run(subject, options.length)?);
                access_log.as_deref().map_or(Ok(()), empty)?;
            }
            started.rotate_left(1);
        }
    }
    if options.wants("memory") {
        progress("memory after the load");
        std::thread::sleep(cases::REST);
        for Started { subject, .. } in &started {
            let resident = subject.proxy.as_ref().map(Process::resident).transpose()?;
            resident.into_iter().for_each(|kib| results.add_rested(subject.path, kib));
        }
    }
    Ok(results)
}

/// A subject, and the file of its access lines where it is a gateway.
struct Started {
    subject: Subject,
    access_log: Option<PathBuf>,
}

fn start_all(options: &Options, bench: &Bench, upstream: SocketAddr) -> Result<Vec<Started>, Failure> {
    options.paths.iter().map(|path| start(*path, bench, upstream)).collect()
}

fn start(path: Path, bench: &Bench, upstream: SocketAddr) -> Result<Started, Failure> {
    let key = SERVICE_KEY.to_owned();
    match path {
        Path::Direct => {
            let subject = Subject { path, address: upstream, proxy: None, key };
            Ok(Started { subject, access_log: None })
        }
        Path::Plain => {
            let (process, address) = bench.start_plain(upstream)?;
            Ok(Started { subject: Subject { path, address, proxy: Some(process), key }, access_log: None })
        }
        Path::Gateway | Path::Governed => {
            let gateway = bench.start_gateway(upstream)?;
            let key = if path == Path::Governed { governed::prepare(gateway.control)? } else { key };
            let subject = Subject { path, address: gateway.address, proxy: Some(gateway.process), key };
            cases::check_gateway(&subject, gateway.control, &gateway.access_log)?;
            Ok(Started { subject, access_log: Some(gateway.access_log) })
        }
    }
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut options = Self {
            rounds: 5,
            length: Duration::from_secs(3),
            streams: 1000,
            threads: std::thread::available_parallelism()?.get(),
            paths: vec![Path::Direct, Path::Plain, Path::Gateway, Path::Governed],
            cases: None,
            upstream: None,
            gateway: PathBuf::from(env!("CARGO_BIN_EXE_turnpike")),
            more_settings: String::new(),
            attack: None,
            each: false,
            honest_rate: Some(attack::RATE),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                // Cargo passes this to every bench.
                "--bench" => {}
                "--quick" => (options.rounds, options.length) = (3, Duration::from_secs(1)),
                "--rounds" => options.rounds = value()?.parse()?,
                "--threads" => options.threads = value()?.parse()?,
                "--only" => options.paths = value()?.split(',').map(path_named).collect::<Result<_, _>>()?,
                "--cases" => options.cases = Some(value()?),
                "--upstream" => options.upstream = Some(value()?.parse()?),
                "--each" => options.each = true,
                "--closed" => options.honest_rate = None,
                "--attack" => options.attack = Some(Duration::from_secs(value()?.parse()?)),
                "--gateway" => options.gateway = PathBuf::from(value()?),
                "--settings" => options.more_settings = std::fs::read_to_string(value()?)?,
                _ => {
                    return Err(
                        format!("{argument} is not an option; see the top of benches/load/main.rs").into()
                    );
                }
            }
        }
        if options.upstream.is_some_and(|upstream| !upstream.ip().is_loopback()) {
            return Err("--upstream must be a loopback address: this is no tool to load others with".into());
        }
        Ok(options)
    }

    fn bench(&self, directory: PathBuf, plain: PathBuf) -> Bench {
        let gateway = self.gateway.clone();
        let more_settings = self.more_settings.clone();
        Bench { gateway, plain, threads: self.threads, directory, more_settings, started: Cell::default() }
    }

    fn wants(&self, case: &str) -> bool {
        self.cases.as_ref().is_none_or(|cases| cases.split(',').any(|one| one == case))
    }
}

fn path_named(name: &str) -> Result<Path, Failure> {
    match name {
        "direct" => Ok(Path::Direct),
        "plain" => Ok(Path::Plain),
        "gateway" => Ok(Path::Gateway),
        "governed" => Ok(Path::Governed),
        _ => Err(format!("{name}: direct, plain, gateway or governed").into()),
    }
}

/// Truncates an access log, which gets some hundred thousand lines in a run, to save disk space.
fn empty(log: &std::path::Path) -> Result<(), Failure> {
    if log.exists() {
        std::fs::OpenOptions::new().write(true).truncate(true).open(log)?;
    }
    Ok(())
}

fn progress(line: &str) {
    // Errors are ignored: only the table matters.
    let _ = writeln!(std::io::stderr(), "{line}");
}
