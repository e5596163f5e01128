//! Sums up repeated log lines: the first is logged at once, equal ones within a second are counted and become one line.
//!
//! So refused connections or a failing listener write a line a second, however many there are. Lines are equal up to
//! ` trace_id=`. Pure: the time is an argument. Not the logging itself (`summing_logger`).

use log::Level;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long equal lines are counted before they are summed up.
const WINDOW: Duration = Duration::from_secs(1);
/// The most different lines that are remembered; further ones are logged each.
const MAX_LINES: usize = 256;

/// The lines logged in the last second, and how often each was repeated.
#[derive(Debug, Default)]
pub struct Repeats(HashMap<Line, Window>);

/// What equal lines have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Line {
    level: Level,
    target: String,
    text: String,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    since: Instant,
    repeats: u64,
}

/// A line that stands for several.
#[derive(Debug, PartialEq, Eq)]
pub struct Summary {
    pub level: Level,
    pub target: String,
    pub text: String,
}

impl Repeats {
    /// What to log for a line: `Some(None)`: the line itself, `Some(Some(text))`: this text in its place, which counts the line
    /// as well, `None`: nothing, because it is counted.
    pub fn admit(&mut self, level: Level, target: &str, text: &str, now: Instant) -> Option<Option<String>> {
        let line = Line { level, target: target.to_owned(), text: subject(text).to_owned() };
        match self.0.get_mut(&line) {
            Some(window) if now.saturating_duration_since(window.since) < WINDOW => {
                window.repeats += 1;
                None
            }
            Some(window) => {
                let repeats = std::mem::take(&mut window.repeats);
                window.since = now;
                Some((repeats > 0).then(|| summary(text, repeats + 1)))
            }
            None => {
                if self.0.len() < MAX_LINES {
                    self.0.insert(line, Window { since: now, repeats: 0 });
                }
                Some(None)
            }
        }
    }

    /// The summaries of what was counted so far. Lines that were not repeated for a second are forgotten.
    pub fn take(&mut self, now: Instant) -> Vec<Summary> {
        let mut summaries = Vec::new();
        self.0.retain(|line, window| {
            let is_recent = now.saturating_duration_since(window.since) < WINDOW;
            if window.repeats == 0 {
                return is_recent;
            }
            let text = summary(&line.text, std::mem::take(&mut window.repeats));
            summaries.push(Summary { level: line.level, target: line.target.clone(), text });
            window.since = now;
            true
        });
        summaries
    }
}

/// The part of a line that equal lines share: all but the id of its request.
fn subject(text: &str) -> &str {
    text.split_once(" trace_id=").map_or(text, |(subject, _)| subject)
}

fn summary(text: &str, repeats: u64) -> String {
    format!("{text} ({repeats} more in the last second)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(repeats: &mut Repeats, text: &str, now: Instant) -> Option<Option<String>> {
        repeats.admit(Level::Warn, "turnpike", text, now)
    }

    #[test]
    fn the_first_line_is_logged_at_once_and_its_repeats_once_a_second() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(admit(&mut repeats, "refused trace_id=1", at(0)), Some(None));
        for ms in 1..1000 {
            assert_eq!(admit(&mut repeats, &format!("refused trace_id={ms}"), at(ms)), None);
        }
        assert_eq!(admit(&mut repeats, "other", at(500)), Some(None));
        let [summary] = &repeats.take(at(1000))[..] else { panic!("one summary") };
        assert_eq!(summary.text, "refused (999 more in the last second)");
        // A flood that goes on writes nothing but a summary a second.
        assert_eq!(admit(&mut repeats, "refused trace_id=a", at(1001)), None);
        assert_eq!(repeats.take(at(2000)).len(), 1);
        // One that ended is forgotten, so that its next line is logged at once.
        assert_eq!(repeats.take(at(3001)), []);
        assert!(repeats.0.is_empty());
        assert_eq!(admit(&mut repeats, "refused trace_id=b", at(3002)), Some(None));
    }

    #[test]
    fn a_line_after_the_second_has_the_count_of_the_repeats() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        let later = start + WINDOW;
        for (text, now, wanted) in [
            ("full", start, Some(None)),
            ("full", start, None),
            ("full", start, None),
            ("full", later, Some(Some("full (3 more in the last second)".to_owned()))),
            ("full", later + WINDOW, Some(None)),
        ] {
            assert_eq!(admit(&mut repeats, text, now), wanted);
        }
    }

    #[test]
    fn lines_differ_by_level_target_and_text() {
        let now = Instant::now();
        let mut repeats = Repeats::default();
        for (level, target, text) in [
            (Level::Warn, "a", "x"),
            (Level::Error, "a", "x"),
            (Level::Warn, "b", "x"),
            (Level::Warn, "a", "y"),
        ] {
            assert_eq!(repeats.admit(level, target, text, now), Some(None));
            assert_eq!(repeats.admit(level, target, text, now), None);
        }
    }

    #[test]
    fn the_lines_that_are_remembered_are_bounded() {
        let now = Instant::now();
        let mut repeats = Repeats::default();
        for number in 0..MAX_LINES * 2 {
            assert_eq!(admit(&mut repeats, &number.to_string(), now), Some(None));
        }
        assert_eq!(repeats.0.len(), MAX_LINES);
    }
}
