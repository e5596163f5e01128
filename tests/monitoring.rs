//! What the package has for Grafana and Prometheus (dist/monitoring): boards, alert rules, and the runbook's sections on them.
//!
//! Names are checked against docs/metrics.md (`catalogue`), and that page against the binary (`live`). What the metrics mean is
//! tested where they are counted.

mod board_list;
mod boards;
mod catalogue;
mod expressions;
mod faults;
mod live;
mod rule_cases;
mod rules;
