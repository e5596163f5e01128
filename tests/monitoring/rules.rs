//! The alert rules: what they name exists, each has its section in the runbook, fires within two scrapes of its failure, and is
//! silent over an hour of load before that.
//!
//! The failures are series (`rule_cases`), which promtool runs the rules over. That providers' failures look like them is tested
//! with a real Prometheus (`faults`).

use super::catalogue::{families, page};
use super::expressions::{Checker, Recorded};
use super::rule_cases::{CASES, Case, HEALTHY, Series};
use crate::support::prometheus::promtool;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(super) const RULES: &str = "dist/monitoring/turnpike.rules.yml";
/// Seconds between two scrapes, which the rules are made for.
const INTERVAL: u64 = 15;
/// Scrapes before a failure.
const HEALTHY_SCRAPES: u64 = 24;

/// A rule of the file.
struct Rule {
    /// Of an alert, or of a recorded series.
    name: String,
    is_alert: bool,
    expression: String,
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
}

fn texts(map: &Value) -> BTreeMap<String, String> {
    let members = map.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn rules() -> Vec<Rule> {
    let file: Value = serde_saphyr::from_str(&page(RULES)).unwrap();
    let groups = file["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "alerts of another group may see what was recorded a scrape before");
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    rules
        .map(|rule| {
            let alert = rule["alert"].as_str();
            Rule {
                name: alert.or(rule["record"].as_str()).unwrap().to_owned(),
                is_alert: alert.is_some(),
                expression: rule["expr"].as_str().unwrap().to_owned(),
                annotations: texts(&rule["annotations"]),
                labels: texts(&rule["labels"]),
            }
        })
        .collect()
}

/// The labels of recorded series: what each groups by.
pub(super) fn recorded() -> Recorded {
    let records = rules().into_iter().filter(|rule| !rule.is_alert);
    records
        .map(|rule| {
            let by = rule.expression.split("sum by (").nth(1).unwrap().split(')').next().unwrap();
            (rule.name, by.split(',').map(|label| label.trim().to_owned()).collect())
        })
        .collect()
}

fn alerts() -> Vec<Rule> {
    rules().into_iter().filter(|rule| rule.is_alert).collect()
}

#[test]
fn rules_name_what_exists() {
    let families = families();
    let recorded = recorded();
    let checker = Checker { families: &families, recorded: &recorded };
    let mut problems = Vec::new();
    for rule in rules() {
        let found = checker.check(&rule.expression);
        problems.extend(found.problems.iter().map(|problem| format!("{}: {problem}", rule.name)));
        for text in rule.annotations.values() {
            let labels = text.split("$labels.").skip(1);
            let labels =
                labels.map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap());
            let unknown = labels.filter(|label| !found.labels.contains(*label));
            problems.extend(unknown.map(|label| format!("{}: no series has the label {label}", rule.name)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn each_alert_has_a_severity_and_its_section_in_the_runbook() {
    let runbook = page("docs/runbook.md");
    let sections: BTreeMap<&str, &str> = runbook
        .split("\n## ")
        .flat_map(|chapter| chapter.split("\n### ").skip(1))
        .map(|section| section.split_once('\n').unwrap())
        .collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    assert_eq!(names.len(), alerts.len(), "an alert is there twice");
    let titles: BTreeSet<&str> = sections.keys().copied().collect();
    assert_eq!(titles, names, "sections of docs/runbook.md, and alerts");
    for alert in &alerts {
        let Rule { name, annotations, labels, .. } = alert;
        let link = format!("docs/runbook.md#{}", name.to_lowercase());
        assert_eq!(annotations["runbook_url"], link, "{name}");
        assert!(["critical", "warning", "info"].contains(&labels["severity"].as_str()), "{name}");
        assert!(annotations["summary"].len() > 20, "{name}");
        let section = sections[name.as_str()];
        for part in ["**Means:** ", "**Look at:** ", "**Do:** "] {
            assert!(section.contains(part), "{name}: its section has no {part}");
        }
    }
}

/// The samples of a series, of which `healthy` are before the failure.
fn samples(series: &Series, healthy: u64) -> String {
    let last = healthy - 1;
    match *series {
        Series::Counter { before, then, .. } => {
            format!("0+{before}x{last} {}+{then}x9", before * last + then)
        }
        Series::New { then, .. } => format!("_x{healthy} {then}+{then}x9"),
        Series::Gauge { before, then, .. } => format!("{before}+0x{last} {then}+0x9"),
        Series::Samples { samples, .. } => samples.to_owned(),
    }
}

fn input<'a>(series: impl Iterator<Item = &'a Series>, samples: impl Fn(&Series) -> String) -> Vec<Value> {
    let of_target = |name: &str| name.replace('@', "job=\"turnpike\",instance=\"a:8788\"");
    series.map(|one| json!({"series": of_target(one.name()), "values": samples(one)})).collect()
}

/// What promtool expects of an expression: one series for each of these alerts.
fn expected(expression: &str, seconds: u64, alerts: &BTreeSet<&str>) -> Value {
    let sample = |name: &&str| json!({"labels": format!("{{alertname=\"{name}\"}}"), "value": 1});
    let samples: Vec<Value> = alerts.iter().map(sample).collect();
    json!({"expr": expression, "eval_time": format!("{seconds}s"), "exp_samples": samples})
}

/// That no alert has fired so far.
fn silence(seconds: u64) -> Value {
    let over = format!("count_over_time(ALERTS{{alertstate=\"firing\"}}[{seconds}s])");
    expected(&over, seconds, &BTreeSet::new())
}

/// A test of promtool: a healthy load, the failure, and what fires at its second scrape.
fn test_of(case: &Case) -> Value {
    let interval = interval(case);
    let healthy = case.hours.map_or(HEALTHY_SCRAPES, |hours| hours * 3_600 / interval);
    let changed: BTreeSet<&str> = case.failing.iter().map(Series::name).collect();
    let load = HEALTHY.iter().filter(|series| case.hours.is_none() && !changed.contains(series.name()));
    let firing = "count by (alertname) (count by (alertname, severity) (ALERTS{alertstate=\"firing\"}))";
    json!({
        "name": case.alert,
        "interval": format!("{interval}s"),
        "input_series": input(load.chain(case.failing), |series| samples(series, healthy)),
        "promql_expr_test": [
            silence((healthy - 1) * interval),
            expected(firing, (healthy + 1) * interval, &BTreeSet::from([case.alert])),
        ],
    })
}

/// Seconds between two scrapes of a case's test.
fn interval(case: &Case) -> u64 {
    if case.hours.is_some() { 600 } else { INTERVAL }
}

/// Runs these tests of promtool; `false` where there is none.
fn run(tests: &[Value], interval: u64) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join(RULES);
    let file = json!({"rule_files": [rules], "evaluation_interval": format!("{interval}s"), "tests": tests});
    std::fs::write(folder.path().join("test.yml"), serde_json::to_string_pretty(&file).unwrap()).unwrap();
    let Some(tested) = promtool(folder.path(), &["test", "rules", "test.yml"]) else { return false };
    let printed = [tested.stdout, tested.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(tested.status.success() && printed.contains("SUCCESS"), "{printed}");
    true
}

#[test]
fn the_rules_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(checked) = promtool(root, &["check", "rules", RULES]) else { return };
    assert!(checked.status.success(), "{checked:?}");
}

/// What docs/metrics.md shows of Prometheus's settings, with the rules of the checkout.
#[test]
fn the_documented_settings_of_prometheus_are_valid() {
    let page = page("docs/metrics.md");
    let block = page.split("```yml\n").nth(1).unwrap().split("```").next().unwrap();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join(RULES);
    let installed = "/usr/share/turnpike/monitoring/turnpike.rules.yml";
    assert!(block.contains(installed), "{block}");
    let folder = tempfile::tempdir().unwrap();
    let settings = block.replace(installed, rules.to_str().unwrap());
    std::fs::write(folder.path().join("prometheus.yml"), settings).unwrap();
    let Some(checked) = promtool(folder.path(), &["check", "config", "prometheus.yml"]) else { return };
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn no_alert_fires_on_an_hour_of_load() {
    let scrapes = 3_600 / INTERVAL;
    let silent = json!({
        "interval": format!("{INTERVAL}s"),
        "input_series": input(HEALTHY.iter(), |series| samples(series, scrapes)),
        "promql_expr_test": [silence(3_600)],
    });
    run(&[silent], INTERVAL);
}

/// A defect of weeks ago, and many requests that failed then, in a gateway that is healthy now: a scrape of it fails, or it is scraped for the
/// first time.
#[test]
fn what_was_counted_long_ago_raises_no_alert() {
    const OLD: u64 = 50_000;
    const START: &str = "process_start_time_seconds";
    let scrapes = 3_600 / INTERVAL;
    let old = |name: &str| {
        let is_failure =
            ["internal_error", "memory_limit", "503", "429", "401"].iter().any(|part| name.contains(part));
        if is_failure { OLD } else { 0 }
    };
    let missed = |series: &Series| match *series {
        _ if series.name().starts_with("up{") => format!("1x39 0 1x{scrapes}"),
        _ if series.name().starts_with(START) => format!("-1000000x39 stale -1000000x{scrapes}"),
        Series::Counter { before: each, .. } => {
            let first = old(series.name());
            format!("{first}+{each}x39 stale {}+{each}x{scrapes}", first + 41 * each)
        }
        Series::Gauge { before, .. } => format!("{before}x39 stale {before}x{scrapes}"),
        ref other => samples(other, scrapes),
    };
    let late = |series: &Series| match *series {
        _ if series.name().starts_with(START) => format!("_x20 -1000000x{scrapes}"),
        Series::Counter { before: each, .. } => format!("_x20 {}+{each}x{scrapes}", old(series.name())),
        Series::Gauge { before, .. } => format!("_x20 {before}x{scrapes}"),
        ref other => samples(other, scrapes),
    };
    let defects = [
        r#"turnpike_errors_total{@,code="internal_error"}"#,
        r#"turnpike_errors_total{@,code="memory_limit"}"#,
    ]
    .map(|name| Series::Counter { name, before: 0, then: 0 });
    let test = |values: &dyn Fn(&Series) -> String| {
        let input = input(HEALTHY.iter().chain(&defects), values);
        json!({"interval": format!("{INTERVAL}s"), "input_series": input, "promql_expr_test": [silence(3_600)]})
    };
    run(&[test(&missed), test(&late)], INTERVAL);
}

#[test]
fn each_alert_fires_within_two_scrapes_of_its_failure() {
    for every in [INTERVAL, 600] {
        let tests: Vec<Value> = CASES.iter().filter(|case| interval(case) == every).map(test_of).collect();
        if !run(&tests, every) {
            return;
        }
    }
}

#[test]
fn each_alert_has_a_failure_and_each_series_a_healthy_load() {
    let alerts = alerts();
    let named: BTreeSet<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    let tested: BTreeSet<&str> = CASES.iter().map(|case| case.alert).collect();
    assert_eq!(tested, named, "alerts with a case, and alerts");
    let families = families();
    let recorded = recorded();
    let checker = Checker { families: &families, recorded: &recorded };
    let mut present: BTreeSet<&str> =
        HEALTHY.iter().map(|series| series.name().split('{').next().unwrap()).collect();
    present.extend(recorded.keys().map(String::as_str));
    for rule in rules() {
        let missing: Vec<String> = checker
            .check(&rule.expression)
            .series
            .into_iter()
            .filter(|name| !present.contains(name.as_str()))
            .collect();
        assert!(missing.is_empty(), "{}: no healthy load of {missing:?}", rule.name);
    }
    let failing = CASES.iter().flat_map(|case| case.failing);
    for series in HEALTHY.iter().chain(failing) {
        let expression = series.name().replace("@,", "").replace("{@}", "");
        let problems = checker.check(&expression).problems;
        assert!(problems.is_empty(), "{problems:?}");
    }
}
