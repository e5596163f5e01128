//! The counters of the process before: added to this one's, so that a series goes on over an upgrade without a stop.
//!
//! Works on the text of the page, in which every family says what it is: counters and histograms add up, series by series. Gauges are
//! those of this process, and so is everything about the process itself (`process_…`). The process before sends its page when it hands
//! over and then until its last request has ended, each in place of the one before: what it counts while it drains is not lost.

use super::Metrics;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

/// What describes the process, not what it served.
const OWN: &str = "process_";
/// What is counted by labels that the settings choose: with others it begins anew.
const CHOSEN: &str = "turnpike_client_";
/// The most series of one family: each process bounds its own, and one follows the other.
const MAX_SERIES: usize = 5_000;

/// The page of the process before.
#[derive(Debug, Default)]
pub(super) struct Inherited(Mutex<Vec<Family>>);

/// A family of counters or histograms.
#[derive(Debug)]
struct Family {
    name: String,
    /// Its help and type.
    head: String,
    /// In the order of its page.
    series: Vec<(String, f64)>,
}

/// Where a family is in a page, and what it is.
struct Block<'a> {
    name: &'a str,
    kind: &'a str,
    head: Range<usize>,
    series: Range<usize>,
}

impl Metrics {
    /// Adds the counters of the process before to those of this one. `page`: as that one's [`Metrics::render`], in place of its page
    /// before; `in_flight`: the requests that it still serves.
    pub fn inherit(&self, page: &str, in_flight: u64) {
        self.inherited.set(page);
        self.set_predecessor_in_flight(in_flight);
    }

    /// The requests that the process before still serves.
    pub fn predecessor_in_flight(&self) -> u64 {
        u64::try_from(self.traffic.predecessor_in_flight.get()).unwrap_or_default()
    }

    /// So many requests are still served by the process before.
    pub fn set_predecessor_in_flight(&self, requests: u64) {
        self.traffic.predecessor_in_flight.set(i64::try_from(requests).unwrap_or(i64::MAX));
    }
}

impl Inherited {
    /// Takes the page in place of the one before.
    pub fn set(&self, page: &str) {
        let counted = blocks(page).into_iter().filter(Block::adds_up);
        let family = |block: Block<'_>| Family {
            name: block.name.to_owned(),
            head: page.get(block.head).unwrap_or_default().to_owned(),
            series: series(page.get(block.series).unwrap_or_default())
                .map(|(name, value)| (name.to_owned(), value))
                .take(MAX_SERIES)
                .collect(),
        };
        *self.0.lock() = counted.map(family).collect();
    }

    /// The page of this process with what the one before has counted; `None`: there was none.
    pub fn add_to(&self, page: &str) -> Option<String> {
        let families = self.0.lock();
        if families.is_empty() {
            return None;
        }
        let mut left: HashMap<&str, &Family> =
            families.iter().map(|family| (family.name.as_str(), family)).collect();
        let mut out = String::with_capacity(page.len() + page.len() / 4);
        for block in blocks(page) {
            out.push_str(page.get(block.head.clone()).unwrap_or_default());
            let own = page.get(block.series.clone()).unwrap_or_default();
            let before = left.remove(block.name).filter(|_| block.adds_up());
            match before.filter(|before| !block.name.starts_with(CHOSEN) || has_same_labels(own, before)) {
                Some(family) => push_sums(&mut out, own, family),
                None => out.push_str(own),
            }
        }
        // Families that this version does not have.
        let is_left =
            |family: &&Family| left.contains_key(family.name.as_str()) && !family.name.starts_with(CHOSEN);
        for family in families.iter().filter(is_left) {
            out.push_str(&family.head);
            push_sums(&mut out, "", family);
        }
        Some(out)
    }
}

impl Block<'_> {
    fn adds_up(&self) -> bool {
        matches!(self.kind, "counter" | "histogram") && !self.name.starts_with(OWN)
    }
}

/// Whether the series of both have the same labels.
fn has_same_labels(own: &str, before: &Family) -> bool {
    let first = series(own).next().map(|(name, _)| label_names(name));
    first == before.series.first().map(|(name, _)| label_names(name))
}

/// The names of the labels of a series. Values are in quotes, and may have any text.
fn label_names(series: &str) -> Vec<&str> {
    let labels = series.split_once('{').map_or("", |parts| parts.1);
    let mut is_quoted = false;
    let mut is_escaped = false;
    let unquoted = labels.split(|char: char| {
        let after_backslash = std::mem::take(&mut is_escaped);
        match char {
            '\\' => is_escaped = is_quoted && !after_backslash,
            '"' if !after_backslash => is_quoted = !is_quoted,
            _ => {}
        }
        char == ',' && !is_quoted
    });
    unquoted.filter_map(|label| label.split_once('=')).map(|label| label.0).collect()
}

/// The series of both, with the sum where both have one.
fn push_sums(out: &mut String, own: &str, before: &Family) {
    let mut left: HashMap<&str, f64> =
        before.series.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let mut push = |name: &str, value: f64| {
        let _ = writeln!(out, "{name} {value}");
    };
    for (name, value) in series(own) {
        push(name, value + left.remove(name).unwrap_or_default());
    }
    for (name, value) in before.series.iter().filter(|(name, _)| left.contains_key(name.as_str())) {
        push(name, *value);
    }
}

/// The lines of series: name with labels, value.
fn series(lines: &str) -> impl Iterator<Item = (&str, f64)> {
    lines.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name, value.parse().ok()?))
    })
}

/// The families of a page in text format: each has its help, its type, its series.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        let end = at + line.len();
        if line.starts_with("# HELP ") {
            blocks.push(Block { name: "", kind: "", head: at..end, series: end..end });
        } else if let Some(block) = blocks.last_mut() {
            match line.strip_prefix("# TYPE ").and_then(|kind| kind.trim_end().split_once(' ')) {
                Some((name, kind)) => {
                    *block = Block { name, kind, head: block.head.start..end, series: end..end };
                }
                None => block.series.end = end,
            }
        }
        at = end;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# HELP a_total Of a.\n# TYPE a_total counter\na_total{b=\"x y\"} 5\na_total{b=\"gone\"} 2\n\
        # HELP g Of g.\n# TYPE g gauge\ng 9\n\
        # HELP h Of h.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4.5\nh_count 3\n\
        # HELP old_total Not of this version.\n# TYPE old_total counter\nold_total 1\n\
        # HELP process_cpu_seconds_total CPU.\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 7\n";
    const OWN: &str = "# HELP a_total Of a.\n# TYPE a_total counter\na_total{b=\"new\"} 1\na_total{b=\"x y\"} 2\n\
        # HELP g Of g.\n# TYPE g gauge\ng 1\n\
        # HELP h Of h.\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_sum 0.25\nh_count 1\n\
        # HELP process_cpu_seconds_total CPU.\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1\n";

    #[test]
    fn counters_go_on_and_gauges_are_of_this_process() {
        let inherited = Inherited::default();
        assert_eq!(inherited.add_to(OWN), None);
        inherited.set("# HELP a_total Of a.\n# TYPE a_total counter\na_total{b=\"x y\"} 400\n");
        inherited.set(BEFORE);
        let sum = "# HELP a_total Of a.\n# TYPE a_total counter\na_total{b=\"new\"} 1\na_total{b=\"x y\"} 7\na_total{b=\"gone\"} 2\n\
            # HELP g Of g.\n# TYPE g gauge\ng 1\n\
            # HELP h Of h.\n# TYPE h histogram\nh_bucket{le=\"1\"} 3\nh_bucket{le=\"+Inf\"} 4\nh_sum 4.75\nh_count 4\n\
            # HELP process_cpu_seconds_total CPU.\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1\n\
            # HELP old_total Not of this version.\n# TYPE old_total counter\nold_total 1\n";
        assert_eq!(inherited.add_to(OWN).as_deref(), Some(sum));
        // A process that has counted nothing of it yet goes on where the one before was.
        let without = OWN.replace("a_total{b=\"new\"} 1\na_total{b=\"x y\"} 2\n", "");
        let page = inherited.add_to(&without).unwrap();
        assert!(page.contains("a_total{b=\"x y\"} 5\na_total{b=\"gone\"} 2\n"), "{page}");
    }

    #[test]
    fn what_is_counted_by_chosen_labels_goes_on_with_the_same_labels_only() {
        let page = |labels: &str| {
            format!(
                "# HELP turnpike_client_requests_total R.\n# TYPE turnpike_client_requests_total counter\nturnpike_client_requests_total{{{labels}}} 2\n"
            )
        };
        let inherited = Inherited::default();
        inherited.set(&page(r#"key="a\",user=\"b",workspace="w""#));
        let same = inherited.add_to(&page(r#"key="c",workspace="w""#)).unwrap();
        assert!(same.contains(r#"{key="c",workspace="w"} 2"#) && same.contains(r#"key="a\",user"#), "{same}");
        let other = page(r#"user="c""#);
        assert_eq!(inherited.add_to(&other).unwrap(), other);
        assert_eq!(inherited.add_to("").unwrap(), "");
    }

    #[test]
    fn nonsense_is_no_page() {
        let inherited = Inherited::default();
        inherited.set("a 1\n# TYPE x\n\n# HELP\nz");
        assert_eq!(inherited.add_to(OWN), None);
    }
}
