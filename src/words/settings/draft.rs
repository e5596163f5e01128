//! A settings file that was read, while its problems are collected: checks that need more than the text add theirs, and
//! all are reported at once.
//!
//! Not here: those checks (`route::stored_calls`, `main`).

use super::reference::{self, Resolved, SecretSources};
use super::{Settings, yaml};
use crate::config::Checks;
use crate::config::account::names;
use crate::config::node::{Node, NodeKind};
use crate::config::read::Problems;
use crate::error::Problem;
use std::sync::Arc;

/// The settings as far as they could be read, and what is wrong with them so far.
#[derive(Debug)]
pub struct Draft {
    node: Node,
    resolved: Resolved,
    settings: Option<Settings>,
    problems: Vec<Problem>,
}

impl Draft {
    /// Reads a settings file, as [`Settings::parse`] does.
    pub fn read(text: &str, sources: &SecretSources<'_>, checks: &Checks<'_>) -> Self {
        let (mut node, mut problems) = match yaml::read(text) {
            Ok(read) => read,
            Err(problem) => {
                let (node, resolved) = (Node::from(NodeKind::Null), Resolved::default());
                return Self { node, resolved, settings: None, problems: vec![problem] };
            }
        };
        if node.kind == NodeKind::Null {
            node.kind = NodeKind::Map(Vec::new());
        }
        let written = Arc::new(node.clone());
        let resolved = reference::resolve(&mut node, sources);
        let found = Problems::default();
        let mut settings = Settings::read(&node, text, &found, checks);
        if let Some(settings) = &mut settings {
            problems.extend(settings.outbound.read_environment(sources.env));
            settings.source.written = written;
            settings.source.secret_places = found.secret_places().into();
        }
        let found = found.into_vec().into_iter().filter(|problem| !resolved.failed_at(&problem.path));
        problems.extend(found.map(|problem| Problem { message: resolved.mask(&problem.message), ..problem }));
        problems.extend(resolved.problems.iter().cloned());
        Self { node, resolved, settings, problems }
    }

    /// As [`Draft::read`], for a use of these sections only: a reference elsewhere that cannot be resolved is no problem, nor is what
    /// follows from it. The value there is the text of the reference.
    pub fn read_sections(
        text: &str,
        sources: &SecretSources<'_>,
        checks: &Checks<'_>,
        used: &[&str],
    ) -> Self {
        let mut draft = Self::read(text, sources, checks);
        let is_used = |path: &str| used.iter().any(|section| is_below(path, section));
        let ignored: Vec<&str> = draft.resolved.failed().filter(|path| !is_used(path)).collect();
        let follows =
            |path: &str| ignored.iter().any(|failed| is_below(failed, path) || is_below(path, failed));
        draft.problems.retain(|problem| is_used(&problem.path) || !follows(&problem.path));
        draft
    }

    /// The references that could not be resolved.
    pub fn missing_references(&self) -> &[Problem] {
        &self.resolved.problems
    }

    /// The settings as far as they could be read: a key with a problem has its default or is left out.
    pub fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }

    /// Whether nothing at or below `path` has a problem, or a reference that could not be resolved, so that its value is the one that the
    /// file gives.
    pub fn is_sound(&self, path: &str) -> bool {
        let problems = self.problems.iter().map(|problem| problem.path.as_str());
        let mut lacking = problems.chain(self.resolved.failed());
        !lacking.any(|lacking| is_below(lacking, path))
    }

    /// Adds a problem that another check found.
    pub fn add(&mut self, path: &str, message: &str) {
        let problem = self.located(path, message);
        self.problems.push(problem);
    }

    /// A problem with its place in the file (that of the nearest object above it, where the file does not give the key
    /// itself), under the name that the file uses, without resolved references.
    pub fn located(&self, path: &str, message: &str) -> Problem {
        let message = self.resolved.mask(message);
        let mut located = Problem { path: String::new(), message, place: None };
        let (mut node, mut rest) = (&self.node, path);
        while !rest.is_empty() {
            let Some((name, below, after)) = step(node, rest) else {
                located.path.push_str(rest);
                break;
            };
            located.path.push_str(&name);
            (node, rest) = (below, after);
            located.place = node.place.or(located.place);
            if let Some(after) = rest.strip_prefix('.') {
                located.path.push('.');
                rest = after;
            }
        }
        located
    }

    /// The settings, when nothing is wrong with them.
    ///
    /// # Errors
    /// All problems in the order of the file; none of them repeats a resolved reference.
    pub fn finish(mut self) -> Result<Settings, Vec<Problem>> {
        self.problems.sort_by_key(|problem| problem.place.unwrap_or((u64::MAX, 0)));
        match self.settings {
            Some(settings) if self.problems.is_empty() => Ok(settings),
            _ => Err(self.problems),
        }
    }
}

/// Whether `path` is `above` or below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The first segment of `path` in `node`: its name there, its value, and the rest of the path. A slug may have dots, so
/// the longest name that fits is taken. A field of an account may stand under another of its names.
fn step<'a, 'p>(node: &'a Node, path: &'p str) -> Option<(String, &'a Node, &'p str)> {
    match &node.kind {
        NodeKind::List(items) => {
            let (number, rest) = path.strip_prefix('[')?.split_once(']')?;
            let item = items.get(number.parse::<usize>().ok()?)?;
            Some((format!("[{number}]"), item, rest))
        }
        NodeKind::Map(entries) => {
            let fits = |name: &str| {
                let rest = path.strip_prefix(name)?;
                (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
            };
            let fitting = entries.iter().filter_map(|entry| Some((entry, fits(&entry.name)?)));
            let found = fitting.max_by_key(|(entry, _)| entry.name.len()).or_else(|| {
                let names = names::find(path)?;
                entries.iter().find(|entry| names.contains(&entry.name.as_str())).map(|entry| (entry, ""))
            });
            found.map(|(entry, rest)| (entry.name.clone(), &entry.value, rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
listen:
  data: [127.0.0.1:1, 127.0.0.1:2]
providers:
  a.b:
    provider: openai
    aws_region: canary-region
  a:
    provider: openai
limits: {max_body_bytes: 1}
";

    fn draft() -> Draft {
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let checks = Checks::NONE;
        Draft::read(TEXT, &sources, &checks)
    }

    #[test]
    fn a_path_has_the_place_of_the_key_or_of_what_is_above_it() {
        let draft = draft();
        for (path, place, shown) in [
            ("listen.data[1]", Some((2, 23)), "listen.data[1]"),
            ("listen.data[7]", Some((2, 9)), "listen.data[7]"),
            ("listen.control", Some((2, 3)), "listen.control"),
            ("providers.a.b", Some((5, 5)), "providers.a.b"),
            ("providers.a.b.provider", Some((5, 15)), "providers.a.b.provider"),
            ("providers.a.provider", Some((8, 15)), "providers.a.provider"),
            ("providers.a.b.cloud_a_region", Some((6, 17)), "providers.a.b.aws_region"),
            ("providers.a.api_key", Some((8, 5)), "providers.a.api_key"),
            ("access_log.path", None, "access_log.path"),
        ] {
            let found = draft.located(path, "m");
            assert_eq!((found.place, found.path.as_str()), (place, shown), "{path}");
        }
    }

    #[test]
    fn a_command_misses_no_reference_of_other_sections() {
        let text = "\
providers:
  a: {provider: openai, api_key: 'credential:openai', custom_host: '${HOST}/v1'}
auth: {keys: [{name: a, key: '${KEY}'}]}
listen: {data: ['${ADDRESS}']}
store: {url: '${DATABASE}'}
";
        let sources = SecretSources { env: &|_| None, credential: &|_| Err("it is not there".to_owned()) };
        let checks = Checks::NONE;
        let paths =
            |text: &str, used: &[&str]| match Draft::read_sections(text, &sources, &checks, used).finish() {
                Ok(_) => Vec::new(),
                Err(problems) => problems.into_iter().map(|problem| problem.path).collect(),
            };
        assert_eq!(paths(text, &["prices"]), Vec::<String>::new());
        assert_eq!(paths(text, &["server", "store"]), ["store.url"]);
        let draft = Draft::read_sections(text, &sources, &checks, &[]);
        for (path, is_sound) in [("store", false), ("store.url", false), ("listen", false), ("prices", true)]
        {
            assert_eq!(draft.is_sound(path), is_sound, "{path}");
        }
        // A mistake is one everywhere: it may hide a section.
        assert_eq!(paths(&format!("{text}stroe: {{}}\n"), &["prices"]), ["stroe"]);
    }

    #[test]
    fn what_is_below_a_problem_is_not_sound() {
        let mut draft = draft();
        assert!(!draft.is_sound("limits") && draft.is_sound("listen") && draft.is_sound("lim"));
        assert!(draft.settings().is_some());
        draft.add("providers.a.b.api_key", "is required");
        assert!(!draft.is_sound("providers.a.b") && !draft.is_sound("providers"));
        let paths: Vec<_> = draft.finish().unwrap_err().into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["providers.a.b.api_key", "limits.max_body_bytes"]);
    }
}
