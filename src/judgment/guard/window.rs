//! Checks over a stream: a window moves over the text, and what has left it behind was looked at by the check.
//!
//! Text is held back as long as a match may begin in it: as many bytes as the longest match has. What is found is denied at once, or
//! replaced when it cannot become another match any more. Where a text ends, all of it is released; what was released then can still be the
//! beginning of a match in text that goes on all the same, or in the next part of the same text. Not here: checks that must see the whole
//! text; their responses are held back by the engine.
//!
//! ```text
//!   sent on | context | held back (the longest match) | one character
//!           '-- b, ^  '-- searched -------------------' '-- b, $: may not be part of a match yet
//! ```

use super::arguments::change_each;
use super::check::{Match, Prepared};
use super::denial::denial_results;
use super::hook::{Hook, HookSet};
use super::judged::{Judged, Part};
use super::result::{CheckResult, HookResult};
use super::subject::Subject;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::chat::{FilterFlow, REFUSALS, TextFilter};
use words::error::Error;

/// The least bytes of text that are kept before the window; as many as are held back, if that is more.
const CONTEXT: usize = 64;
/// The most matches that are kept for the result of a check.
const MAX_MATCHES: usize = 100;
/// The most texts that are told apart: of choices, and of their refusals.
const MAX_CHOICES: usize = 2 * REFUSALS as usize;

/// What the checks of windowed hooks have found in one response.
#[derive(Debug)]
pub struct WindowState {
    hooks: Arc<HookSet>,
    started: Instant,
    created_at: Timestamp,
    /// The results of the hooks that ran before the target was called: a denial shows them as well.
    before: Arc<[HookResult]>,
    /// The response as it is judged where it has no text.
    empty: Subject,
    /// Whether a check that could not decide fails, where its parameters do not say.
    fail_on_error: bool,
    /// What each check of each hook has found.
    found: Mutex<Vec<Vec<Found>>>,
    /// What of the response was looked at.
    judged: Mutex<Judged>,
}

/// What a check has found.
#[derive(Debug, Clone, Default)]
struct Found {
    matches: Vec<Match>,
    /// Matches in the text after the config's hooks have changed it.
    again: Vec<Match>,
    /// The first choice has ended, and has no text.
    has_no_text: bool,
}

/// A check at its window.
pub struct WindowFilter {
    source: Source,
    /// Bytes that are held back.
    hold: usize,
    choices: Vec<ChoiceWindow>,
    /// It is the first one, which counts what all look at.
    counts: bool,
    /// The first choice has a call with a text in it, or a refusal.
    has_other: bool,
}

/// Whether checks change the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    Yes,
    No,
}

/// What the window searches for.
enum Source {
    /// Hook and check, by their places.
    Check(Arc<WindowState>, usize, usize),
    /// As [`Source::Check`], for a text that it has passed and that was changed since.
    CheckAgain(Arc<WindowState>, usize, usize),
    /// What stands for redacted text is replaced by that text again.
    Placeholders(Placeholders),
}

/// The texts that placeholders stand for.
pub struct Placeholders {
    originals: HashMap<String, String>,
    /// The length of the longest placeholder, bytes.
    longest: usize,
}

/// The window over the text of one choice.
#[derive(Debug, Default)]
struct ChoiceWindow {
    /// Context, then what is held back.
    text: String,
    /// Where the context ends.
    from: usize,
    /// Where a match may begin: before `from` where text was released because it ended.
    open: usize,
    /// How much of the text was searched.
    searched: usize,
}

impl WindowState {
    /// For the response to this request. `before`: the results of hooks on it; `fail_on_error`: what the settings say.
    pub fn new(
        hooks: Arc<HookSet>,
        request: &Subject,
        before: Arc<[HookResult]>,
        fail_on_error: bool,
    ) -> Arc<Self> {
        let found = hooks.hooks.iter().map(|hook| vec![Found::default(); hook.checks.len()]).collect();
        let started = Instant::now();
        let created_at = Timestamp::now();
        let empty = request.clone().with_stream(Vec::new());
        let found = Mutex::new(found);
        let judged = Mutex::default();
        Arc::new(Self { hooks, started, created_at, before, empty, fail_on_error, found, judged })
    }

    /// The filters of windowed hooks: the workspace's that change the text, all that judge what is left, the config's that change it. The
    /// workspace's look again at the text after the config's have changed it.
    pub fn filters(self: &Arc<Self>, is_windowed: impl Fn(&Hook) -> bool) -> Vec<WindowFilter> {
        let mut filters = Vec::new();
        let windowed = self.hooks.hooks.iter().enumerate().filter(|(_, hook)| is_windowed(hook));
        let (own, of_config): (Vec<_>, Vec<_>) = windowed.partition(|(_, hook)| hook.is_of_workspace);
        let both = [Changes::Yes, Changes::No];
        both.iter().for_each(|changes| self.add_filters(&own, *changes, Source::Check, &mut filters));
        self.add_filters(&of_config, Changes::No, Source::Check, &mut filters);
        self.add_filters(&of_config, Changes::Yes, Source::Check, &mut filters);
        if of_config.iter().any(|(_, hook)| hook.may_change()) {
            both.iter()
                .for_each(|changes| self.add_filters(&own, *changes, Source::CheckAgain, &mut filters));
        }
        if let Some(first) = filters.first_mut() {
            first.counts = true;
        }
        filters
    }

    fn add_filters(
        self: &Arc<Self>,
        hooks: &[(usize, &Hook)],
        changes: Changes,
        source: fn(Arc<Self>, usize, usize) -> Source,
        filters: &mut Vec<WindowFilter>,
    ) {
        for (place, hook) in hooks {
            for (check, finder) in hook.checks.iter().enumerate() {
                let is_wanted = finder.may_change() == (changes == Changes::Yes);
                let Some(finder) = finder.finder().filter(|_| is_wanted) else { continue };
                let hold = hook.overlap.or(finder.longest()).unwrap_or_default();
                let source = source(Arc::clone(self), *place, check);
                filters.push(WindowFilter { hold, ..WindowFilter::new(source) });
            }
        }
    }

    /// The results of the windowed hooks so far.
    pub fn results(&self, is_windowed: impl Fn(&Hook) -> bool) -> Vec<HookResult> {
        let found = self.found.lock();
        let hooks = self.hooks.hooks.iter().zip(found.iter()).filter(|(hook, _)| is_windowed(hook));
        hooks.map(|(hook, found)| self.result(hook, found)).collect()
    }

    fn result(&self, hook: &Hook, found: &[Found]) -> HookResult {
        let taken = self.started.elapsed();
        let checks =
            hook.checks.iter().zip(found).filter_map(|(check, Found { matches, again, has_no_text })| {
                let matches = if matches.is_empty() { again } else { matches };
                let finding = match (&check.prepared, has_no_text) {
                    (Ok(Prepared::Local(check)), true) => check.run(&self.empty),
                    _ => check.finder()?.finding(matches),
                };
                let is_transformed = matches.iter().any(|found| found.replacement.is_some());
                let fail_on_error = check.fail_on_error.unwrap_or(self.fail_on_error);
                let mut result =
                    CheckResult::new(&check.id, finding, fail_on_error, Duration::ZERO, self.created_at);
                result.transformed = is_transformed;
                Some(result)
            });
        hook.result(checks.collect(), Some(*self.judged.lock()), taken, self.created_at)
    }

    fn denies(&self, hook: usize) -> bool {
        self.hooks.hooks.get(hook).is_some_and(|hook| hook.denies_on_fail)
    }

    /// Notes what a check has found. The denial, if that makes its hook deny.
    fn note(&self, place: usize, check: usize, is_again: bool, matches: &[Match]) -> Option<Error> {
        self.change(place, check, |found| {
            let noted = if is_again { &mut found.again } else { &mut found.matches };
            let room = MAX_MATCHES.saturating_sub(noted.len());
            noted.extend(matches.iter().take(room).cloned());
            found.has_no_text = false;
        })
    }

    /// Notes that there is no text. The denial, if that makes its hook deny: a check that needs one cannot decide.
    fn note_no_text(&self, place: usize, check: usize) -> Option<Error> {
        self.change(place, check, |found| found.has_no_text = true)
    }

    fn change(&self, place: usize, check: usize, change: impl FnOnce(&mut Found)) -> Option<Error> {
        let hook = self.hooks.hooks.get(place)?;
        let mut found = self.found.lock();
        let of_hook = found.get_mut(place)?;
        change(of_hook.get_mut(check)?);
        if !hook.denies_on_fail {
            return None;
        }
        let result = self.result(hook, of_hook);
        result.deny.then(|| {
            let results = denial_results(&self.before, &[result]);
            Error::hooks_failed(hook.message.as_deref(), results)
        })
    }
}

impl WindowFilter {
    /// Gives placeholders the texts back that they stand for.
    pub fn restoring(placeholders: &[(String, String)]) -> Self {
        let placeholders = Placeholders::new(placeholders);
        let hold = placeholders.longest;
        Self { hold, ..Self::new(Source::Placeholders(placeholders)) }
    }

    fn new(source: Source) -> Self {
        Self { source, hold: 0, choices: Vec::new(), counts: false, has_other: false }
    }

    fn choice(&mut self, choice: u32) -> usize {
        let at = (choice as usize).min(MAX_CHOICES - 1);
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, ChoiceWindow::default);
        }
        at
    }

    fn advance(&mut self, choice: u32, text: &str, is_end: bool, out: &mut String) -> FilterFlow {
        let at = self.choice(choice);
        if self.choices.get(at).is_some_and(|window| window.text.is_empty()) {
            self.source.count(self.counts, Part::Answer);
        }
        let Some(window) = self.choices.get_mut(at) else { return FilterFlow::Continue };
        window.text.push_str(text);
        let end = if is_end {
            window.text.len()
        } else {
            window.text.char_indices().next_back().map_or(0, |(last, _)| last)
        };
        // Searching anew for a few bytes would cost more than it releases.
        if !is_end && end < window.searched + self.hold / 4 {
            return FilterFlow::Continue;
        }
        let range = window.open..end.max(window.open);
        let matches = self.source.find(&window.text, range.clone());
        let is_final = if is_end {
            range.end
        } else {
            window.text.floor_char_boundary(range.end.saturating_sub(self.hold)).max(range.start)
        };
        // A match that may still grow can be found again, so it is noted only when it is final. A denial is made at
        // once.
        let settled = |found: &&Match| is_end || found.range.start < is_final;
        let noted: Vec<Match> = match &self.source {
            Source::Check(state, hook, _) | Source::CheckAgain(state, hook, _) if state.denies(*hook) => {
                matches.clone()
            }
            _ => matches.iter().filter(settled).cloned().collect(),
        };
        if let Some(error) = self.source.note(&noted) {
            return FilterFlow::Deny(error);
        }
        window.release(matches.iter().filter(settled), is_final, out);
        if is_end {
            window.end(self.hold, matches.last());
        } else {
            window.searched = end.saturating_sub(window.drop_context(self.hold));
        }
        FilterFlow::Continue
    }

    /// A choice without text has ended: a check that needs one cannot decide, and its hook may deny for that.
    fn end_without_text(&self, choice: u32) -> FilterFlow {
        match &self.source {
            Source::Check(state, hook, check) if choice == 0 && !self.has_other => {
                state.note_no_text(*hook, *check).map_or(FilterFlow::Continue, FilterFlow::Deny)
            }
            _ => FilterFlow::Continue,
        }
    }
}

impl ChoiceWindow {
    /// Appends what is before `until` to `out`, with what was found replaced, and what a match that began there takes beyond. Of a match
    /// that begins in what was released already, the rest is replaced.
    fn release<'m>(&mut self, matches: impl Iterator<Item = &'m Match>, until: usize, out: &mut String) {
        let mut at = self.from;
        self.open = until;
        for found in matches {
            let is_released = found.range.start < at && found.range.end <= at;
            let Some(replacement) = found.replacement.as_ref().filter(|_| !is_released) else { continue };
            out.push_str(self.text.get(at..found.range.start).unwrap_or_default());
            out.push_str(replacement);
            at = found.range.end;
            self.open = until.max(at);
        }
        let until = until.max(at);
        out.push_str(self.text.get(at..until).unwrap_or_default());
        self.from = until;
    }

    /// Releases everything. What may be the beginning of a match after `last` is still remembered.
    fn end(&mut self, hold: usize, last: Option<&Match>) {
        let begin = self.text.floor_char_boundary(self.text.len().saturating_sub(hold));
        self.open = last.map_or(begin, |last| last.range.end.max(begin));
        self.searched = self.text.len();
    }

    /// Drops text that is too far back to be context. Returns how many bytes were dropped.
    fn drop_context(&mut self, hold: usize) -> usize {
        let start = self.text.floor_char_boundary(self.open.saturating_sub(CONTEXT.max(hold)));
        self.text.drain(..start);
        self.from -= start;
        self.open -= start;
        start
    }
}

impl Source {
    /// Another text is looked at; it is counted by one of the filters.
    fn count(&self, counts: bool, part: Part) {
        if let Self::Check(state, ..) = self
            && counts
        {
            state.judged.lock().add(part);
        }
    }

    /// Notes what was found. The denial, if that makes a hook deny.
    fn note(&self, matches: &[Match]) -> Option<Error> {
        let (state, hook, check, is_again) = match self {
            Self::Placeholders(_) => return None,
            Self::Check(state, hook, check) => (state, *hook, *check, false),
            Self::CheckAgain(state, hook, check) => (state, *hook, *check, true),
        };
        if matches.is_empty() { None } else { state.note(hook, check, is_again, matches) }
    }

    fn find(&self, text: &str, range: Range<usize>) -> Vec<Match> {
        match self {
            Self::Placeholders(placeholders) => placeholders.find(text, range),
            Self::Check(state, hook, check) | Self::CheckAgain(state, hook, check) => {
                let check = state.hooks.hooks.get(*hook).and_then(|hook| hook.checks.get(*check));
                check
                    .and_then(|check| check.finder())
                    .map(|finder| finder.find(text, range))
                    .unwrap_or_default()
            }
        }
    }
}

impl Placeholders {
    pub fn new(placeholders: &[(String, String)]) -> Self {
        let mut originals = HashMap::with_capacity(placeholders.len());
        for (placeholder, original) in placeholders {
            originals.entry(placeholder.clone()).or_insert_with(|| original.clone());
        }
        let longest = placeholders.iter().map(|(placeholder, _)| placeholder.len()).max().unwrap_or_default();
        Self { originals, longest }
    }

    /// In time that grows with the text alone: there may be as many placeholders as a large request has values.
    fn find(&self, text: &str, range: Range<usize>) -> Vec<Match> {
        let mut found = Vec::new();
        let part = text.get(range.clone()).unwrap_or_default();
        let mut from = 0;
        while let Some(at) = part.get(from..).and_then(|rest| rest.find("{{")) {
            let rest = part.get(from + at..).unwrap_or_default();
            let near = rest.as_bytes().get(..rest.len().min(self.longest)).unwrap_or_default();
            let end = memchr::memmem::find(near, b"}}").map_or(0, |end| end + 2);
            let original = rest.get(..end).and_then(|placeholder| self.originals.get(placeholder));
            let begin = range.start + from + at;
            from += at + if original.is_some() { end } else { 1 };
            found.extend(original.map(|original| Match {
                range: begin..begin + end,
                replacement: Some(original.clone()),
                detail: serde_json::Value::Null,
            }));
        }
        found
    }
}

impl TextFilter for WindowFilter {
    fn text(&mut self, choice: u32, text: &str, out: &mut String) -> FilterFlow {
        self.has_other |= choice == REFUSALS;
        self.advance(choice, text, false, out)
    }

    fn held(&self, choice: u32) -> usize {
        let window = self.choices.get((choice as usize).min(MAX_CHOICES - 1));
        window.map_or(0, |window| window.text.len() - window.from)
    }

    fn finish(&mut self, choice: u32, out: &mut String) -> FilterFlow {
        let at = self.choice(choice);
        if self.choices.get(at).is_some_and(|window| !window.text.is_empty()) {
            self.advance(choice, "", true, out)
        } else {
            self.end_without_text(choice)
        }
    }

    fn reads_calls(&self) -> bool {
        true
    }

    /// Each text in the arguments is one that is complete: nothing of it is held back, and nothing stands around it.
    fn arguments(&mut self, choice: u32, arguments: &mut String) -> FilterFlow {
        let mut denial = None;
        change_each(arguments, |text| {
            self.source.count(self.counts, Part::Arguments);
            self.has_other |= choice == 0;
            let found = self.source.find(text, 0..text.len());
            denial = denial.take().or_else(|| self.source.note(&found));
            let changes = found.iter().any(|found| found.replacement.is_some());
            changes.then(|| with_replacements(text, &found))
        });
        denial.map_or(FilterFlow::Continue, FilterFlow::Deny)
    }

    fn follow(&mut self, choice: u32, before: u32) {
        let before = self.choice(before);
        let Some(ChoiceWindow { text, open, .. }) = self.choices.get(before) else { return };
        let text = text.clone();
        let open = *open;
        let at = self.choice(choice);
        if let Some(window) = self.choices.get_mut(at).filter(|window| window.text.is_empty()) {
            *window = ChoiceWindow { from: text.len(), open, searched: text.len(), text };
        }
    }
}

impl fmt::Debug for WindowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowFilter").field("hold", &self.hold).finish_non_exhaustive()
    }
}

/// Replaces placeholders in one whole text.
pub fn restored(text: &str, placeholders: &Placeholders) -> Option<String> {
    let found = placeholders.find(text, 0..text.len());
    (!found.is_empty()).then(|| with_replacements(text, &found))
}

/// A whole text with what was found in it replaced.
fn with_replacements(text: &str, found: &[Match]) -> String {
    let mut window = ChoiceWindow { text: text.to_owned(), ..ChoiceWindow::default() };
    let mut out = String::with_capacity(text.len());
    window.release(found.iter(), text.len(), &mut out);
    out
}

#[cfg(test)]
mod tests;
