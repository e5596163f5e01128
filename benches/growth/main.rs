//! `cargo bench --bench growth`: what a gateway takes whose store and log store have grown, against what it may take, beside one with an
//! empty store in the same run.
//!
//! It makes the objects through the store's own door and the rows through the log store's, starts both gateways as processes on loopback,
//! and prints a table of aims and figures. Without arguments it makes a fiftieth of what it is about, in about a minute.
//!
//! After `--`: `--whole` (100,000 keys with two limits each, 1,000 providers, 10,000 configs, 50 million rows: hours, and 20 GB),
//! `--keys N`, `--providers N`, `--configs N`, `--rows N`, `--yaml-keys N`, `--calls N` (of each gateway in a round), `--gateway FILE`
//! (another build of `turnpike`), `--state DIRECTORY` (where the state is made, and kept; what is there already is used again: then sizes
//! are those of the run that made it), `--no-deletion` (the oldest rows stay, for another run). Not a test: a figure above its aim is a result.

#![allow(clippy::print_stderr, reason = "a bench that takes long says what it does")]

mod figures;
mod objects;
#[path = "../load/process.rs"]
#[allow(dead_code, reason = "the load bench uses more of it")]
mod process;
mod rows;
mod sizes;

use figures::{Figures, Subjects};
use process::{Bench, Gateway, Process};
use sizes::Sizes;
use std::cell::Cell;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// YAML behind the settings of the load bench: providers of the store may be on loopback.
const MORE_SETTINGS: &str = "custom_hosts: {allow: [127.0.0.1]}\n";

/// The options on the command line.
struct Options {
    sizes: Sizes,
    calls: usize,
    gateway: PathBuf,
    /// `None`: one that is deleted afterwards.
    state: Option<PathBuf>,
    deletes: bool,
}

fn main() -> Result<(), Failure> {
    // Of the control API's client. It is installed once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = Options::read(std::env::args().skip(1))?;
    let own = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("growth-{}", std::process::id()));
    let directory = options.state.clone().unwrap_or_else(|| own.clone());
    std::fs::create_dir_all(&directory)?;
    let measured = measure(&options, &directory);
    if options.state.is_none() {
        std::fs::remove_dir_all(&own)?;
    }
    let figures = measured?;
    let mut out = std::io::stdout().lock();
    write!(out, "\n{}\n\n{}", figures.origin()?, figures.markdown())?;
    Ok(())
}

fn measure(options: &Options, directory: &Path) -> Result<Figures, Failure> {
    let bench = Bench {
        gateway: options.gateway.clone(),
        plain: PathBuf::new(),
        threads: std::thread::available_parallelism()?.get(),
        directory: directory.to_owned(),
        more_settings: MORE_SETTINGS.to_owned(),
        started: Cell::default(),
    };
    let (_emulator, upstream) = start_emulator(&bench)?;
    let empty = bench.start_gateway(upstream)?;
    let sizes = match Sizes::of_state(directory)? {
        Some(sizes) => sizes,
        None => make(options, directory, &empty, upstream)?,
    };
    let mut figures = Figures::new(sizes.clone());
    progress("start");
    let began = Instant::now();
    let full = bench.start_gateway(upstream)?;
    let started = began.elapsed();
    let subjects = Subjects::new(directory, empty, full, options.calls)?;
    figures.start(&subjects, started)?;
    figures.calls(&subjects)?;
    figures.changes(&subjects)?;
    figures.lists(&subjects)?;
    figures.groups(&subjects)?;
    figures.pages(&subjects)?;
    if options.deletes {
        figures.deletion(&subjects, began)?;
    }
    figures.memory(&subjects)?;
    figures.check(&bench.gateway, directory, options.sizes.yaml_keys)?;
    Ok(figures)
}

/// Makes the state of the gateway that is started next.
fn make(
    options: &Options,
    directory: &Path,
    empty: &Gateway,
    upstream: SocketAddr,
) -> Result<Sizes, Failure> {
    let began = Instant::now();
    let data = directory.join("gateway-1").join("data");
    std::fs::create_dir_all(&data)?;
    let samples = objects::make(&options.sizes, empty, upstream, &directory.join("gateway-0/data"), &data)?;
    progress(&format!("objects: {:.1} s", began.elapsed().as_secs_f64()));
    let began = Instant::now();
    rows::make(&data.join("logs.db"), &options.sizes, &samples)?;
    progress(&format!("rows: {:.1} s", began.elapsed().as_secs_f64()));
    samples.write(directory)?;
    options.sizes.write(directory)?;
    Ok(options.sizes.clone())
}

/// The provider. Stored providers have its address, so it is the same whenever a state is used again.
fn start_emulator(bench: &Bench) -> Result<(Process, SocketAddr), Failure> {
    let file = bench.directory.join("provider");
    let Ok(address) = std::fs::read_to_string(&file) else {
        let (process, address) = bench.start_emulator()?;
        std::fs::write(&file, address.to_string())?;
        return Ok((process, address));
    };
    let address: SocketAddr = address.trim().parse()?;
    let mut command = Command::new(&bench.gateway);
    command.arg("emulator").arg("--listen").arg(address.to_string());
    Ok((Process::start(command, address, &bench.directory.join("emulator.out"))?, address))
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut options = Self {
            sizes: Sizes::default(),
            calls: 400,
            gateway: PathBuf::from(env!("CARGO_BIN_EXE_turnpike")),
            state: None,
            deletes: true,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            let sizes = &mut options.sizes;
            match argument.as_str() {
                // Cargo passes this to every bench.
                "--bench" => {}
                "--whole" => *sizes = Sizes::whole(),
                "--keys" => sizes.keys = value()?.parse()?,
                "--providers" => sizes.providers = value()?.parse()?,
                "--configs" => sizes.configs = value()?.parse()?,
                "--rows" => sizes.rows = value()?.parse()?,
                "--yaml-keys" => sizes.yaml_keys = value()?.parse()?,
                "--calls" => options.calls = value()?.parse()?,
                "--gateway" => options.gateway = PathBuf::from(value()?),
                "--state" => options.state = Some(std::path::absolute(value()?)?),
                "--no-deletion" => options.deletes = false,
                _ => {
                    let why = format!("{argument} is not an option; see the top of benches/growth/main.rs");
                    return Err(why.into());
                }
            }
        }
        Ok(options)
    }
}

/// What it does, with the time since the start of the process being the reader's matter.
pub(crate) fn progress(line: &str) {
    eprintln!("{line}");
}

/// Milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
