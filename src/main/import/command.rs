//! Reads the files, prints settings and report, checks the settings as `turnpike check` does.
//!
//! Exits 1 where a file cannot be read or is of something else, and where the settings would not pass.

use super::super::object_api::ObjectApi;
use super::super::{input, logging, output, read};
use super::arguments::ImportArguments;
use super::cursor::InputAt;
use super::import::{Import, ImportTarget};
use super::litellm;
use super::product::Product;
use super::report::{FileReport, Taken};
use super::store_writer::{self, StoreOutcome};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use words::config::node::{Node, NodeKind};
use words::config::secret::Secret;
use words::error::Problem;

/// The largest file that is read.
const MAX_BYTES: usize = 64 << 20;

/// The report of all files.
#[derive(Serialize)]
struct ImportReport<'r> {
    exact: usize,
    different: usize,
    not_taken: usize,
    files: &'r [FileReport],
    /// What `turnpike check` would say of the settings.
    problems: Vec<String>,
    /// What became of the objects of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'r StoreOutcome>,
}

/// Runs the command.
pub fn run(arguments: &ImportArguments) -> ExitCode {
    match import(arguments) {
        Ok(code) => code,
        Err(why) => logging::fatal(&why),
    }
}

fn import(arguments: &ImportArguments) -> Result<ExitCode, String> {
    let has_database = arguments.db.is_some() || arguments.db_env.is_some();
    let is_store = arguments.to == ImportTarget::Store;
    if is_store && !has_database && arguments.product != Product::Portkey {
        return Err("--to store needs --db: objects of the store are made of keys, teams and limits, which files do not have".to_owned());
    }
    let mut files = read_files(arguments.product, &arguments.files)?;
    files.extend(read_database(arguments)?);
    let roots: Vec<InputAt<'_>> =
        files.iter().enumerate().map(|(number, file)| InputAt::root(&file.node, number)).collect();
    let mut import = Import {
        file_names: files.iter().map(InputFile::stem).collect(),
        target: arguments.to,
        now: Timestamp::now(),
        ..Import::default()
    };
    arguments.product.import(&mut import, &roots);
    let written = Written::new(&import, arguments);
    let problems = written.problems(&import);
    // A database alone, whose keys are in the store, may leave nothing for settings.
    let has_none = is_store && import.moved.is_empty();
    let is_written = !arguments.dry_run && !has_none;
    let mut outcome = None;
    // Settings that are no good are found out before anything is made.
    if is_store && (problems.is_empty() || arguments.dry_run) {
        if is_written {
            written.check(arguments)?;
        }
        check_report(arguments)?;
        outcome = Some(make(&mut import, arguments));
    }
    let keys = arguments.product.keys();
    let reports: Vec<FileReport> = files
        .iter()
        .enumerate()
        .map(|(number, file)| import.findings.report(number, &file.name, &file.node, keys))
        .collect();
    print_report(arguments, &reports, &problems, outcome.as_ref())?;
    let is_good = problems.is_empty() && outcome.as_ref().is_none_or(StoreOutcome::is_good);
    let mut code = if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if is_written {
        let printed = written.print(arguments)?;
        if printed != ExitCode::SUCCESS {
            code = printed;
        }
    }
    Ok(code)
}

/// Makes the objects of the store. What was not made is not taken.
fn make(import: &mut Import, arguments: &ImportArguments) -> StoreOutcome {
    let outcome = match ObjectApi::new(&arguments.connection) {
        Ok(api) => store_writer::write(&api, &import.objects, arguments.dry_run),
        Err(why) => StoreOutcome::of_error(why),
    };
    for (file, path, why) in &outcome.lost {
        import.findings.refused(*file, path, why);
    }
    outcome
}

/// The error where the report could not be written once objects are made.
fn check_report(arguments: &ImportArguments) -> Result<(), String> {
    let Some(file) = &arguments.report else { return Ok(()) };
    if file.exists() && !arguments.force {
        return Err(format!("{}: is there already; --force writes over it", file.display()));
    }
    writable(file)
}

/// The error where a file cannot be written. It is there then.
fn writable(file: &Path) -> Result<(), String> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|why| format!("{}: {why}", file.display()))
}

/// The database, where one is named.
fn read_database(arguments: &ImportArguments) -> Result<Option<InputFile>, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let url = match (&arguments.db, &arguments.db_env) {
        (Some(url), _) => url.clone(),
        (None, Some(name)) => {
            Secret::new(variable(name).ok_or_else(|| format!("--db-env: {name} is not set"))?)
        }
        (None, None) => return Ok(None),
    };
    if arguments.product != Product::Litellm {
        let name = arguments.product.name();
        return Err(format!("--db: {name} has no database that is read; only LiteLLM's is"));
    }
    let salt = variable(&arguments.salt_key_env).map(Secret::new);
    let node = litellm::read_database(url.expose(), salt.as_ref())?;
    Ok(Some(InputFile { name: "database".to_owned(), node }))
}

/// A file of the input.
struct InputFile {
    name: String,
    node: Node,
}

impl InputFile {
    /// The name without folder and ending.
    fn stem(&self) -> String {
        Path::new(&self.name).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

fn read_files(product: Product, files: &[PathBuf]) -> Result<Vec<InputFile>, String> {
    let mut read = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let bytes = input::read(file, "the configuration")?;
        if bytes.len() > MAX_BYTES {
            return Err(format!("{name}: has more than {} MiB, which no configuration has", MAX_BYTES >> 20));
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("{name}: is no text in UTF-8"))?;
        let text = text.trim_start_matches('\u{feff}');
        let mut node = parse(text).map_err(|why| format!("{name}{why}"))?;
        product.prepare(&mut node);
        if let Some(why) = product.refuse(&node) {
            return Err(format!("{name}: {why}"));
        }
        read.push(InputFile { name, node });
    }
    Ok(read)
}

/// JSON or YAML. The error begins with the place.
fn parse(text: &str) -> Result<Node, String> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(node) = Node::from_json(text.as_bytes())
    {
        // One of two equal keys would be lost without a line.
        return match twice(&node, "") {
            Some(path) => Err(format!(": {path} stands there twice: remove one of them")),
            None => Ok(node),
        };
    }
    let (node, problems) = words::settings::read_yaml(text)
        .map_err(|problem| placed(&problem, &format!("is neither YAML nor JSON: {}", problem.message)))?;
    // One of two equal keys would be lost without a line.
    match problems.first() {
        Some(problem) => Err(placed(problem, &format!("{}: remove one of them", problem.message))),
        None => Ok(node),
    }
}

/// The path of a key that stands twice in an object.
fn twice(node: &Node, path: &str) -> Option<String> {
    match &node.kind {
        NodeKind::Map(entries) => {
            let mut names = HashSet::new();
            entries.iter().find_map(|entry| {
                let path =
                    if path.is_empty() { entry.name.clone() } else { format!("{path}.{}", entry.name) };
                if names.insert(&entry.name) { twice(&entry.value, &path) } else { Some(path) }
            })
        }
        NodeKind::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| twice(item, &format!("{path}[{index}]")))
        }
        _ => None,
    }
}

fn placed(problem: &Problem, message: &str) -> String {
    let place = problem.place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
    format!("{place}: {message}")
}

/// The texts that are written.
struct Written {
    settings: String,
    prices: Option<String>,
    /// Where the prices are written.
    overlay: Option<PathBuf>,
}

impl Written {
    fn new(import: &Import, arguments: &ImportArguments) -> Self {
        let heading = format!(
            "Settings of Turnpike, made by turnpike import from a configuration of {}.\nThe report of the import says what became of each key.",
            arguments.product.name()
        );
        let heading = match import.moved.has_keys() || import.target == ImportTarget::Store {
            true => heading,
            false => format!(
                "{heading}\nNo key of a client is in it: whoever reaches the gateway may call it (auth.keys, docs/keys.md)."
            ),
        };
        let prices = import.moved.prices_text();
        let overlay = prices.as_ref().and(arguments.out.as_deref()).map(prices_file);
        // The gateway may run in another directory.
        let overlay = overlay.map(|path| std::path::absolute(&path).unwrap_or(path));
        let named = overlay.as_ref().map(|path| path.display().to_string());
        let mut settings = import.moved.text(&heading, named.as_deref());
        if let (Some(prices), None) = (&prices, &overlay) {
            settings.push_str("\n# Prices of the imported models. Write them into a file, and name it in prices.overlay (docs/prices.md);\n# turnpike import --out FILE does both.\n#\n");
            for line in prices.lines() {
                settings.push_str(&format!("#   {line}\n"));
            }
        }
        Self { settings, prices, overlay }
    }

    /// What `turnpike check` would say, with a value for each variable.
    fn problems(&self, import: &Import) -> Vec<String> {
        let text = import.moved.checkable(&self.settings, &|name| std::env::var_os(name).is_some());
        let stand_in = |name: &str| import.moved.stand_in(name);
        let found = read::of_text(&text, &stand_in, self.prices.as_deref());
        words::settings::report("settings", &found).lines().map(str::to_owned).collect()
    }

    /// The files that are written, with their texts.
    fn files<'w>(&'w self, out: &'w Path) -> impl Iterator<Item = (&'w Path, &'w str)> {
        let prices = self.overlay.as_deref().zip(self.prices.as_deref());
        [Some((out, self.settings.as_str())), prices].into_iter().flatten()
    }

    /// The error where a file could not be written.
    fn check(&self, arguments: &ImportArguments) -> Result<(), String> {
        let Some(out) = &arguments.out else { return Ok(()) };
        for (file, text) in self.files(out) {
            let is_new = !file.exists();
            keep(file, text, arguments)?;
            writable(file)?;
            if is_new {
                std::fs::remove_file(file).map_err(|why| format!("{}: {why}", file.display()))?;
            }
        }
        Ok(())
    }

    fn print(&self, arguments: &ImportArguments) -> Result<ExitCode, String> {
        let Some(out) = &arguments.out else { return Ok(output::print(self.settings.as_bytes())) };
        for (file, text) in self.files(out) {
            keep(file, text, arguments)?;
        }
        for (file, text) in self.files(out) {
            std::fs::write(file, text).map_err(|why| format!("{}: {why}", file.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The error where a file of another text would be written over.
fn keep(file: &Path, text: &str, arguments: &ImportArguments) -> Result<(), String> {
    let is_same = std::fs::read_to_string(file).is_ok_and(|there| there == *text);
    if file.exists() && !is_same && !arguments.force {
        return Err(format!("{}: is there already; --force writes over it", file.display()));
    }
    Ok(())
}

/// The file of the prices: beside the settings, with `.prices` in its name.
fn prices_file(out: &Path) -> PathBuf {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!("{stem}.prices.yaml"))
}

#[expect(clippy::print_stderr, reason = "the report of a command")]
fn print_report(
    arguments: &ImportArguments,
    reports: &[FileReport],
    problems: &[String],
    store: Option<&StoreOutcome>,
) -> Result<(), String> {
    let count = |taken| reports.iter().map(|report| report.count(taken)).sum();
    let report = ImportReport {
        exact: count(Taken::Exact),
        different: count(Taken::Different),
        not_taken: count(Taken::Not),
        files: reports,
        problems: problems.to_vec(),
        store,
    };
    let text = if arguments.json {
        serde_json::to_string_pretty(&report).map_err(|why| why.to_string())? + "\n"
    } else {
        report.text(arguments.dry_run)
    };
    let Some(file) = &arguments.report else {
        eprint!("{text}");
        return Ok(());
    };
    // Where objects were made, it was looked before whether the file may be written over.
    if store.is_none() {
        keep(file, &text, arguments)?;
    }
    std::fs::write(file, &text).map_err(|why| {
        eprint!("{text}");
        format!("{}: {why}", file.display())
    })
}

impl ImportReport<'_> {
    fn text(&self, is_dry: bool) -> String {
        let mut text: String = self.files.iter().map(FileReport::text).collect();
        let all = self.exact + self.different + self.not_taken;
        text.push_str(&format!(
            "{all} keys: {} exact, {} different, {} not taken\n",
            self.exact, self.different, self.not_taken
        ));
        if !self.problems.is_empty() {
            text.push_str("turnpike check would not accept the settings:\n");
            for problem in &self.problems {
                text.push_str(&format!("  {problem}\n"));
            }
        }
        if let Some(store) = self.store {
            text.push_str(&store.text(is_dry));
        }
        text
    }
}
