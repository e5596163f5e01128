//! The boards for Grafana: made from `board_list`, compared with dist/monitoring/grafana, and what their queries name exists.
//!
//! `UPDATE_GOLDEN=1 cargo test monitoring` writes the files. That every query returns data is tested in `live`.

use super::board_list::{BOARDS, Board, Kind, Panel};
use super::catalogue::{families, page};
use super::expressions::Checker;
use super::rules::recorded;
use serde_json::{Value, json};
use std::path::Path;

const FOLDER: &str = "dist/monitoring/grafana";
/// Grafana's grid is 24 wide.
const WIDTH: u32 = 24;

impl Panel {
    /// Its queries with the labels of what is shown, as Grafana gets them.
    pub(super) fn expressions(&self, board: &Board) -> Vec<String> {
        let shown = if board.has_instance { "job=\"$job\",instance=\"$instance\"" } else { "job=\"$job\"" };
        self.queries.iter().map(|(expression, _)| expression.replace('@', shown)).collect()
    }

    /// Width and height.
    fn size(&self) -> [u32; 2] {
        match self.kind {
            Kind::Number => [4, 4],
            Kind::Graph => [12, 8],
            Kind::Table => [12, 7],
        }
    }

    fn json(&self, id: usize, board: &Board, place: [u32; 2]) -> Value {
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        let is_table = self.kind == Kind::Table;
        let targets: Vec<Value> = self
            .expressions(board)
            .into_iter()
            .zip(self.queries)
            .zip('A'..)
            .map(|((expression, (_, legend)), letter)| {
                json!({
                    "refId": letter.to_string(),
                    "datasource": source,
                    "expr": expression,
                    "legendFormat": legend,
                    // Traces of single requests, where Prometheus keeps them.
                    "exemplar": expression.contains("gen_ai_client_operation_duration_seconds_bucket")
                        || expression.contains("turnpike_overhead_seconds_bucket"),
                    "instant": is_table,
                    "range": !is_table,
                    "format": if is_table { "table" } else { "time_series" },
                })
            })
            .collect();
        let [width, height] = self.size();
        let [x, y] = place;
        let (kind, options, custom) = match self.kind {
            Kind::Number => (
                "stat",
                json!({"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false}, "graphMode": "area"}),
                json!({}),
            ),
            Kind::Graph => (
                "timeseries",
                json!({"legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                    "tooltip": {"mode": "multi", "sort": "desc"}}),
                json!({"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}),
            ),
            Kind::Table => ("table", json!({"showHeader": true}), json!({})),
        };
        json!({
            "id": id,
            "type": kind,
            "title": self.title,
            "description": self.about,
            "datasource": source,
            "gridPos": {"w": width, "h": height, "x": x, "y": y},
            "fieldConfig": {"defaults": {"unit": self.unit, "custom": custom}, "overrides": []},
            "options": options,
            "targets": targets,
        })
    }
}

impl Board {
    fn json(&self) -> Value {
        let mut panels = Vec::new();
        let mut x = 0;
        let mut y = 0;
        let mut row_height = 0;
        for (index, panel) in self.panels.iter().enumerate() {
            let [width, height] = panel.size();
            // A row has panels of one height.
            if x + width > WIDTH || (x > 0 && height != row_height) {
                y += row_height;
                x = 0;
            }
            panels.push(panel.json(index + 1, self, [x, y]));
            x += width;
            row_height = height;
        }
        json!({
            "uid": format!("turnpike-{}", self.file),
            "title": format!("Turnpike: {}", self.title),
            "description": self.about,
            "tags": ["turnpike"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "timezone": "",
            "links": [{"type": "dashboards", "tags": ["turnpike"], "title": "Turnpike", "asDropdown": true,
                "includeVars": true, "keepTime": true}],
            "annotations": {"list": []},
            "templating": {"list": self.variables()},
            "panels": panels,
        })
    }

    fn variables(&self) -> Vec<Value> {
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        let variable = |name: &str, query: &str| {
            json!({
                "name": name,
                "label": name,
                "type": "query",
                "datasource": source,
                "query": {"query": query, "refId": name},
                "definition": query,
                "refresh": 2,
                "sort": 1,
            })
        };
        let mut all = vec![
            json!({"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"}),
            variable("job", "label_values(turnpike_build_info, job)"),
        ];
        if self.has_instance {
            all.push(variable("instance", "label_values(turnpike_build_info{job=\"$job\"}, instance)"));
        }
        all
    }

    fn path(&self) -> String {
        format!("{FOLDER}/{}.json", self.file)
    }
}

#[test]
fn the_shipped_boards_are_those_of_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for board in BOARDS {
        let text = serde_json::to_string_pretty(&board.json()).unwrap() + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(root.join(FOLDER)).unwrap();
            std::fs::write(root.join(board.path()), &text).unwrap();
        }
        assert!(
            page(&board.path()) == text,
            "UPDATE_GOLDEN=1 cargo test monitoring rewrites {}",
            board.path()
        );
    }
    let files = std::fs::read_dir(root.join(FOLDER)).unwrap().count();
    assert_eq!(files, BOARDS.len(), "a board that is not in the list");
}

#[test]
fn boards_name_what_exists() {
    let families = families();
    let recorded = recorded();
    let checker = Checker { families: &families, recorded: &recorded };
    let mut problems = Vec::new();
    for board in BOARDS {
        for panel in board.panels {
            for (expression, (_, legend)) in panel.expressions(board).iter().zip(panel.queries) {
                let found = checker.check(expression);
                problems.extend(found.problems.iter().map(|problem| format!("{}: {problem}", panel.title)));
                let shown = legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap());
                let unknown = shown.filter(|label| !found.labels.contains(*label));
                problems.extend(unknown.map(|label| format!("{}: no label {label}", panel.title)));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
