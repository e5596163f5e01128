//! `cargo bench --bench load`: the gateway against the provider itself and against a plain Pingora proxy, in one run.
//!
//! Every round runs all three, in rotating order, so that a machine that slows down affects all of them
//! equally; medians are reported. It starts what it needs on loopback (the provider is `turnpike emulator`),
//! pins nothing to a CPU, and stops by itself. Not a test: a wrong response ends it with an error, a slow one
//! is a result.
//!
//! After `--`: `--quick` (fewer, shorter rounds), `--rounds N`, `--threads N` (of each proxy, 1),
//! `--only direct,plain,gateway`, `--cases small_chat,stream,…,memory`, `--upstream ADDR` (a provider that
//! runs already), `--gateway FILE` (another build of `turnpike`, to compare), `--attack SECONDS` (instead of the cases:
//! honest clients beside attackers; with `--each`, also every kind of attack alone; with `--closed`, the honest clients send
//! their next request when they have the response, instead of 1,000 a second).

mod attack;
mod attackers;
mod cases;
mod client;
mod process;
mod response;
mod table;

use cases::{CASES, Path, Subject};
use process::{Bench, Process};
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
    /// How long to attack, instead of running the cases.
    attack: Option<Duration>,
    /// Whether to attack in every way alone, too.
    each: bool,
    /// Honest requests per second beside attackers; `None`: as many as get a response.
    honest_rate: Option<f64>,
}

fn main() -> Result<(), Failure> {
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
    write!(out, "\n{}\n{}\n", results.markdown(), results.json())?;
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
            for subject in start_all(options, &bench, upstream)? {
                progress(&format!("memory, round {}, {:?}", round + 1, subject.path));
                if let Some(memory) = cases::memory(&subject, options.streams)? {
                    results.add_memory(subject.path, memory);
                }
            }
        }
    }
    let mut subjects = start_all(options, &bench, upstream)?;
    if let Some(gateway) = subjects.iter().find(|subject| subject.path == Path::Gateway) {
        cases::check_gateway(gateway, &bench.access_log())?;
    }
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        for subject in &subjects {
            case.run(subject, options.length / 5)?;
        }
        for round in 0..options.rounds {
            progress(&format!("{}, round {}", case.title, round + 1));
            for subject in &subjects {
                results.add(case, subject.path, round, case.run(subject, options.length)?);
            }
            subjects.rotate_left(1);
            empty(&bench.access_log())?;
        }
    }
    Ok(results)
}

fn start_all(options: &Options, bench: &Bench, upstream: SocketAddr) -> Result<Vec<Subject>, Failure> {
    let start = |&path: &Path| {
        let up = |(process, address): (Process, SocketAddr)| Subject { path, address, proxy: Some(process) };
        match path {
            Path::Direct => Ok(Subject { path, address: upstream, proxy: None }),
            Path::Plain => bench.start_plain(upstream).map(up),
            Path::Gateway => bench.start_gateway(upstream).map(up),
        }
    };
    options.paths.iter().map(start).collect()
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut options = Self {
            rounds: 5,
            length: Duration::from_secs(3),
            streams: 1000,
            threads: 1,
            paths: vec![Path::Direct, Path::Plain, Path::Gateway],
            cases: None,
            upstream: None,
            gateway: PathBuf::from(env!("CARGO_BIN_EXE_turnpike")),
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
        Bench { gateway, plain, threads: self.threads, directory, more_settings: String::new() }
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
        _ => Err(format!("{name}: direct, plain or gateway").into()),
    }
}

/// Truncates the access log, which gets some hundred thousand lines in a run, to save disk space.
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
