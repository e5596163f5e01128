//! The page in OpenMetrics' text format, made of that in Prometheus's: other names in the heads of counters, exemplars, an end.
//!
//! Values and labels are the same in both, so that a series goes on when a scraper changes its format.

use std::borrow::Cow;
use std::collections::HashMap;

/// `page`: in Prometheus's text format. `exemplars`: by the text of a bucket's series.
pub(super) fn open_metrics(page: &str, exemplars: &HashMap<String, String>) -> String {
    let mut out = String::with_capacity(page.len() + 128 * exemplars.len() + 8);
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        // The head of a family: its help, then its type.
        if let Some(help) = line.strip_prefix("# HELP ") {
            let kind = lines.peek().copied().unwrap_or_default();
            push_head(&mut out, "# HELP ", help, kind.ends_with(" counter"));
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            push_head(&mut out, "# TYPE ", kind, kind.ends_with(" counter"));
        } else {
            out.push_str(line);
            let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
            out.push_str(exemplars.get(series).map_or("", String::as_str));
        }
        out.push('\n');
    }
    out.push_str("# EOF\n");
    out
}

/// A family of counters is named without the `_total` of its series.
fn push_head(out: &mut String, mark: &str, rest: &str, is_counter: bool) {
    let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let name = if is_counter { name.strip_suffix("_total").unwrap_or(name) } else { name };
    for part in [mark, name, " ", text] {
        out.push_str(part);
    }
}

/// The value of a label as both formats have it.
pub(super) fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return value.into();
    }
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_counters_lose_their_ending_and_buckets_get_exemplars() {
        let page = "# HELP a_total Help \\\\ of a.\n# TYPE a_total counter\na_total{b=\"c d\"} 1\n\
                    # HELP h Help.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_count 2\n";
        let exemplars =
            HashMap::from([("h_bucket{le=\"1\"}".to_owned(), " # {trace_id=\"t\"} 0.5".to_owned())]);
        let expected = "# HELP a Help \\\\ of a.\n# TYPE a counter\na_total{b=\"c d\"} 1\n\
                        # HELP h Help.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2 # {trace_id=\"t\"} 0.5\nh_count 2\n# EOF\n";
        assert_eq!(open_metrics(page, &exemplars), expected);
        assert_eq!(escaped("a\\b\"c\nd"), r#"a\\b\"c\nd"#);
    }
}
