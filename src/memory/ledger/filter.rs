//! Which requests of the ledger a query is about: the parameters of logs, exports and analytics, checked and in
//! units of the ledger. As a condition of SQL for both databases. Knows no parameter's text and no table.

use super::id::{created_ms, day_key};
use super::rollup::sample::Dimension;
use crate::store::sql::{Dialect, SqlCondition};
use uuid::Uuid;

/// Bounds that are both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds<T> {
    pub min: Option<T>,
    pub max: Option<T>,
}

impl<T> Default for Bounds<T> {
    fn default() -> Self {
        Self { min: None, max: None }
    }
}

impl<T> Bounds<T> {
    pub const fn is_open(&self) -> bool {
        self.min.is_none() && self.max.is_none()
    }
}

/// What a request must have. An empty list requires nothing; of another, one value must match.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// `None`: all. The nil id: requests of no workspace.
    pub workspaces: Option<Vec<Uuid>>,
    /// The workspace of requests without one, for comparing them with their feedback.
    pub default_workspace: Uuid,
    /// Milliseconds since 1970: from the first to before the second.
    pub since: Option<i64>,
    pub until: Option<i64>,
    pub total_tokens: Bounds<i64>,
    pub input_tokens: Bounds<i64>,
    pub output_tokens: Bounds<i64>,
    /// Nanodollars.
    pub cost: Bounds<i64>,
    /// The average of value times weight of a trace's feedback.
    pub feedback: Bounds<f64>,
    /// In decimal.
    pub status_codes: Vec<String>,
    /// Slugs of stored providers (`virtual_keys`).
    pub providers: Vec<String>,
    pub configs: Vec<String>,
    pub prompts: Vec<String>,
    pub api_keys: Vec<String>,
    pub traces: Vec<String>,
    pub spans: Vec<String>,
    pub models: Vec<String>,
    /// Vendor and model.
    pub vendor_models: Vec<(String, String)>,
    /// As in rows: `HIT`, `MISS` …
    pub cache_statuses: Vec<String>,
    /// Guardrails whose checks failed.
    pub guardrails: Vec<String>,
    /// Why a provider's cache of prompts has read nothing.
    pub prompt_cache_misses: Vec<String>,
    /// Names and values; all must match.
    pub metadata: Vec<(String, String)>,
    /// Only rows older than the row with this id: the next ones of a list.
    pub before: Option<Uuid>,
}

impl SqlCondition<'_> {
    fn bounds(&mut self, column: &str, bounds: Bounds<i64>) {
        self.compare(&format!("{column} >="), bounds.min);
        self.compare(&format!("{column} <="), bounds.max);
    }

    /// `is_indexed`: whether the database may look for rows by their workspace.
    fn workspaces(&mut self, workspaces: &[Uuid], is_indexed: bool) {
        // SQLite would take the index of the workspace, with all its rows, before that of a trace.
        let column = match self.dialect() {
            Dialect::Sqlite if !is_indexed => "+workspace",
            _ => "workspace",
        };
        let ids = workspaces.iter().filter(|id| !id.is_nil());
        let places: Vec<String> = ids.map(|id| self.argument(*id)).collect();
        let mut either = Vec::new();
        if !places.is_empty() {
            either.push(format!("{column} IN ({})", places.join(", ")));
        }
        if workspaces.iter().any(Uuid::is_nil) {
            either.push(format!("{column} IS NULL"));
        }
        if either.is_empty() { self.and("1 = 0") } else { self.and(&format!("({})", either.join(" OR "))) }
    }

    /// SQLite has a table for each day, and a key in it.
    fn before(&mut self, id: Option<Uuid>) {
        let Some(id) = id else { return };
        match self.dialect() {
            Dialect::Sqlite => self.compare("key <", Some(day_key(id))),
            Dialect::Postgres => {
                let ms = self.argument(created_ms(id));
                let id = self.argument(id);
                self.and(&format!("(created_ms, id) < ({ms}, {id})"));
            }
        }
    }

    fn metadata(&mut self, name: &str, value: &str) {
        let name = self.argument(name.to_owned());
        let value = self.argument(value.to_owned());
        self.and(&match self.dialect() {
            Dialect::Sqlite => format!(
                "EXISTS (SELECT 1 FROM json_each(metadata) AS pair WHERE pair.key = {name} AND pair.type = 'text' AND pair.value = {value})"
            ),
            Dialect::Postgres => format!("metadata::jsonb ->> {name}::text = {value}"),
        });
    }

    /// One of them failed. The column has commas around each.
    fn guardrails(&mut self, names: &[String]) {
        let finds = match self.dialect() {
            Dialect::Sqlite => "instr",
            Dialect::Postgres => "strpos",
        };
        let either: Vec<String> = names
            .iter()
            .map(|name| format!("{finds}(guardrails, {}) > 0", self.argument(format!(",{name},"))))
            .collect();
        if !either.is_empty() {
            self.and(&format!("({})", either.join(" OR ")));
        }
    }

    /// The workspace of a row or of feedback, in `table`, as a value that is never null.
    pub fn workspace_of(&mut self, table: &str, default: Uuid) -> String {
        format!("coalesce({table}workspace, {})", self.argument(default))
    }

    /// Anybody may use any trace id, so only the feedback of a request's own workspace counts.
    fn feedback(&mut self, bounds: Bounds<f64>, default_workspace: Uuid) {
        if bounds.is_open() {
            return;
        }
        let mut having = Vec::new();
        for (operator, bound) in [(">=", bounds.min), ("<=", bounds.max)] {
            if let Some(bound) = bound {
                let place = self.argument(bound);
                having.push(format!("avg(feedback.value * feedback.weight) {operator} {place}"));
            }
        }
        let own = self.workspace_of("", default_workspace);
        let given = self.workspace_of("feedback.", default_workspace);
        self.and(&format!(
            "(trace_id, {own}) IN (SELECT feedback.trace_id, {given} FROM feedback GROUP BY 1, 2 HAVING {})",
            having.join(" AND ")
        ));
    }
}

impl Filter {
    /// How many values it has in its lists, without workspaces.
    pub fn values(&self) -> usize {
        let lists = [
            &self.status_codes,
            &self.providers,
            &self.configs,
            &self.prompts,
            &self.api_keys,
            &self.traces,
            &self.spans,
            &self.models,
            &self.cache_statuses,
            &self.guardrails,
            &self.prompt_cache_misses,
        ];
        let pairs = self.vendor_models.len() + self.metadata.len();
        lists.into_iter().map(Vec::len).sum::<usize>() + pairs
    }

    /// Whether rollups can answer: the filter has nothing but times, workspaces and dimensions.
    pub(crate) fn is_by_dimensions(&self) -> bool {
        let bounds = [self.total_tokens, self.input_tokens, self.output_tokens, self.cost];
        bounds.iter().all(Bounds::is_open)
            && self.feedback.is_open()
            && self.traces.is_empty()
            && self.spans.is_empty()
            && self.metadata.is_empty()
            && self.guardrails.is_empty()
            && self.prompt_cache_misses.is_empty()
            && self.before.is_none()
    }

    /// Only its times and workspaces.
    pub(crate) fn about_time_and_workspace(&self) -> Self {
        let Self { workspaces, default_workspace, since, until, .. } = self;
        Self {
            workspaces: workspaces.clone(),
            default_workspace: *default_workspace,
            since: *since,
            until: *until,
            ..Self::default()
        }
    }

    /// The filtered dimensions, with their allowed values.
    pub fn dimensions(&self) -> impl Iterator<Item = (Dimension, &Vec<String>)> {
        let lists = [
            (Dimension::StatusCode, &self.status_codes),
            (Dimension::Provider, &self.providers),
            (Dimension::Config, &self.configs),
            (Dimension::Prompt, &self.prompts),
            (Dimension::ApiKey, &self.api_keys),
            (Dimension::Model, &self.models),
            (Dimension::CacheStatus, &self.cache_statuses),
        ];
        lists.into_iter().filter(|(_, values)| !values.is_empty())
    }

    /// As a condition on the columns of the ledger's rows.
    pub fn condition(&self, dialect: Dialect) -> SqlCondition<'static> {
        let mut condition = SqlCondition::new(dialect);
        condition.compare("created_ms >=", self.since);
        condition.compare("created_ms <", self.until);
        if let Some(workspaces) = &self.workspaces {
            condition.workspaces(workspaces, self.traces.is_empty());
        }
        condition.bounds("total_tokens", self.total_tokens);
        condition.bounds("input_tokens", self.input_tokens);
        condition.bounds("output_tokens", self.output_tokens);
        condition.bounds("cost", self.cost);
        condition.any("status", self.status_codes.iter().filter_map(|code| code.parse::<i64>().ok()));
        let texts = [
            ("provider", &self.providers),
            ("config", &self.configs),
            ("prompt", &self.prompts),
            ("api_key", &self.api_keys),
            ("trace_id", &self.traces),
            ("span_id", &self.spans),
            ("model", &self.models),
            ("cache_status", &self.cache_statuses),
            ("prompt_cache_miss", &self.prompt_cache_misses),
        ];
        for (column, values) in texts {
            condition.any(column, values.iter().cloned());
        }
        let pairs: Vec<String> = self
            .vendor_models
            .iter()
            .map(|(vendor, model)| {
                let vendor = condition.argument(vendor.clone());
                let model = condition.argument(model.clone());
                format!("(vendor = {vendor} AND model = {model})")
            })
            .collect();
        if !pairs.is_empty() {
            condition.and(&format!("({})", pairs.join(" OR ")));
        }
        condition.guardrails(&self.guardrails);
        for (name, value) in &self.metadata {
            condition.metadata(name, value);
        }
        condition.feedback(self.feedback, self.default_workspace);
        condition.before(self.before);
        condition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_an_argument() {
        let filter = Filter {
            workspaces: Some(vec![Uuid::nil(), Uuid::from_u128(7)]),
            since: Some(5),
            cost: Bounds { min: None, max: Some(9) },
            status_codes: vec!["200".to_owned(), "429".to_owned()],
            vendor_models: vec![("openai".to_owned(), "x' OR 1".to_owned())],
            metadata: vec![("a\"b".to_owned(), "c".to_owned())],
            ..Filter::default()
        };
        let condition = filter.condition(Dialect::Postgres);
        assert_eq!(
            condition.sql(),
            "created_ms >= $1 AND (workspace IN ($2) OR workspace IS NULL) AND cost <= $3 AND status IN ($4, $5) AND \
             ((vendor = $6 AND model = $7)) AND metadata::jsonb ->> $8::text = $9"
        );
        assert_eq!(condition.values().len(), 9);
        assert!(!filter.is_by_dimensions());
        assert_eq!(Filter::default().condition(Dialect::Sqlite).sql(), "1 = 1");
    }

    #[test]
    fn a_filter_for_no_workspace_finds_nothing() {
        let filter = Filter { workspaces: Some(Vec::new()), ..Filter::default() };
        assert_eq!(filter.condition(Dialect::Sqlite).sql(), "1 = 0");
        assert!(filter.is_by_dimensions());
    }
}
