//! The boards and their panels.
//!
//! Only the list; `boards` makes Grafana's files of it. In a query, `@` stands for the labels of what the board shows: a job, or
//! one gateway of it.

mod cache;
mod guardrails;
mod node;
mod overview;
mod providers;
mod spend;

use cache::CACHE;
use guardrails::GUARDRAILS;
use node::NODE;
use overview::OVERVIEW;
use providers::PROVIDERS;
use spend::SPEND;

/// How a panel shows its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Graph,
    Table,
}

#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) kind: Kind,
    /// A unit of Grafana's.
    pub(super) unit: &'static str,
    /// Expressions with their legends.
    pub(super) queries: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub(super) struct Board {
    pub(super) file: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// Whether it shows one gateway.
    pub(super) has_instance: bool,
    pub(super) panels: &'static [Panel],
}

type Queries = &'static [(&'static str, &'static str)];

const fn number(title: &'static str, unit: &'static str, queries: Queries) -> Panel {
    Panel { title, about: "", kind: Kind::Number, unit, queries }
}

const fn graph(title: &'static str, unit: &'static str, queries: Queries, about: &'static str) -> Panel {
    Panel { title, about, kind: Kind::Graph, unit, queries }
}

const fn table(title: &'static str, queries: Queries, about: &'static str) -> Panel {
    Panel { title, about, kind: Kind::Table, unit: "none", queries }
}

/// On two boards: of all gateways, and of one.
const TIME_IN_GATEWAY: Panel = graph(
    "Time in the gateway",
    "s",
    &[
        (
            "histogram_quantile(0.5, sum by (le) (rate(turnpike_overhead_seconds_bucket{@}[$__rate_interval])))",
            "p50",
        ),
        (
            "histogram_quantile(0.99, sum by (le) (rate(turnpike_overhead_seconds_bucket{@}[$__rate_interval])))",
            "p99",
        ),
    ],
    "Without the time at providers and the wait for the client's body.",
);

pub(super) const BOARDS: &[Board] = &[
    Board {
        file: "overview",
        title: "overview",
        about: "What all gateways do together, and how well.",
        has_instance: false,
        panels: OVERVIEW,
    },
    Board {
        file: "providers",
        title: "providers",
        about: "How attempts at providers end, how fast they are, and what the gateways do about failures.",
        has_instance: false,
        panels: PROVIDERS,
    },
    Board {
        file: "spend",
        title: "spend and limits",
        about: "What requests cost, and what limits refuse.",
        has_instance: false,
        panels: SPEND,
    },
    Board {
        file: "cache",
        title: "cache",
        about: "What the cache serves and saves, and how its stores are doing.",
        has_instance: false,
        panels: CACHE,
    },
    Board {
        file: "guardrails",
        title: "guardrails",
        about: "What guardrails find, and how long their checks take.",
        has_instance: false,
        panels: GUARDRAILS,
    },
    Board {
        file: "node",
        title: "one gateway",
        about: "One process: its resources, its stores, its queues.",
        has_instance: true,
        panels: NODE,
    },
];
