//! What model servers say of their load in their metrics, in Prometheus' text format.
//!
//! Names and meanings are those of vLLM (<https://docs.vllm.ai/en/stable/usage/metrics/>), SGLang
//! (<https://docs.sglang.io/references/production_metrics.html>), llama.cpp
//! (<https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md>) and TGI
//! (<https://huggingface.co/docs/text-generation-inference/reference/metrics>). Which of them a server is does not matter: what it names is
//! read. Pure. Not here: when they are read (`memory::state::engine_loads`), and other metrics.

use std::collections::BTreeSet;

/// Requests that are being worked on.
const RUNNING: &[&str] = &[
    "vllm:num_requests_running",
    "sglang:num_running_reqs",
    "llamacpp:requests_processing",
    "tgi_batch_current_size",
];
/// Requests that wait within the server.
const WAITING: &[&str] =
    &["vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred", "tgi_queue_size"];
/// The share of the cache of keys and values that is in use.
const CACHE_USE: &[&str] = &[
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "sglang:token_usage",
    "llamacpp:kv_cache_usage_ratio",
];
/// The adapters that are loaded; the value is the time at which that was so.
const ADAPTERS: &str = "vllm:lora_requests_info";
const ADAPTER_LABELS: &[&str] = &["running_lora_adapters", "waiting_lora_adapters"];

/// The most adapters that are kept of one server.
const MAX_ADAPTERS: usize = 256;

/// What a server has to do. Of several models or ranks in one server: all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineReading {
    /// Requests that it works on.
    pub running: u32,
    /// Requests that wait in it.
    pub waiting: u32,
    /// How full its cache of keys and values is, 0 to 1; `None`: it does not say.
    pub cache_use: Option<f64>,
    /// Names of the adapters (LoRA) that have requests in it.
    pub adapters: Vec<Box<str>>,
}

impl EngineReading {
    /// Reads a page of metrics. `None`: it names neither running nor waiting requests.
    pub fn read(page: &str) -> Option<Self> {
        let mut reading = Self::default();
        let mut names_load = false;
        let mut adapters: Option<(f64, BTreeSet<&str>)> = None;
        for sample in page.lines().filter_map(Sample::read) {
            if RUNNING.contains(&sample.name) {
                names_load = true;
                reading.running = reading.running.saturating_add(sample.count());
            } else if WAITING.contains(&sample.name) {
                names_load = true;
                reading.waiting = reading.waiting.saturating_add(sample.count());
            } else if CACHE_USE.contains(&sample.name) {
                let share = sample.value.clamp(0.0, 1.0);
                reading.cache_use = Some(reading.cache_use.map_or(share, |other| other.max(share)));
            } else if sample.name == ADAPTERS
                && adapters.as_ref().is_none_or(|(time, _)| sample.value >= *time)
            {
                let names = ADAPTER_LABELS.iter().filter_map(|label| sample.label(label));
                let names = names.flat_map(|names| names.split(',')).map(str::trim);
                adapters = Some((sample.value, names.filter(|name| !name.is_empty()).collect()));
            }
        }
        let adapters = adapters.map(|(_, names)| names).unwrap_or_default();
        reading.adapters = adapters.into_iter().take(MAX_ADAPTERS).map(Box::from).collect();
        names_load.then_some(reading)
    }
}

/// One line with a value.
struct Sample<'p> {
    name: &'p str,
    /// As written between the braces.
    labels: &'p str,
    value: f64,
}

impl<'p> Sample<'p> {
    fn read(line: &'p str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let end = line.find(['{', ' ', '\t'])?;
        let (name, rest) = line.split_at(end);
        let (labels, values) = match rest.strip_prefix('{') {
            Some(rest) => {
                let (labels, values) = rest.split_at(end_of_labels(rest)?);
                (labels, values.get(1..)?)
            }
            None => ("", rest),
        };
        let value: f64 = values.split_whitespace().next()?.parse().ok()?;
        Some(Self { name, labels, value }).filter(|sample| sample.value.is_finite())
    }

    /// As a number of requests.
    fn count(&self) -> u32 {
        // A cast from a float saturates.
        self.value.round() as u32
    }

    /// The text of a label, escapes as they are written.
    fn label(&self, name: &str) -> Option<&'p str> {
        let mut rest = self.labels;
        loop {
            let (label, value) = rest.trim_start_matches([',', ' ']).split_once("=\"")?;
            let end = end_of_text(value)?;
            let (text, after) = value.split_at(end);
            if label.trim() == name {
                return Some(text);
            }
            rest = after.get(1..)?;
        }
    }
}

/// Where the brace is that ends the labels: not one in the text of a label.
fn end_of_labels(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let next = rest.find(['"', '}'])?;
        if rest.as_bytes().get(next) == Some(&b'}') {
            return Some(at + next);
        }
        at += next + 1;
        at += end_of_text(text.get(at..)?)? + 1;
    }
}

/// Where a quoted text ends.
fn end_of_text(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_server_is_read_by_its_own_names() {
        for (page, running, waiting, cache_use) in [
            (
                "# HELP vllm:num_requests_running Number of requests\n# TYPE vllm:num_requests_running gauge\n\
                 vllm:num_requests_running{engine=\"0\",model_name=\"a/b\"} 8.0\n\
                 vllm:num_requests_running{engine=\"1\",model_name=\"a/b\"} 3.0\n\
                 vllm:num_requests_waiting{engine=\"0\",model_name=\"a/b\"} 2.0\n\
                 vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a/b\"} 0.25\n\
                 vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"a/b\"} 0.5\n",
                11,
                2,
                Some(0.5),
            ),
            (
                "sglang:num_running_reqs{model_name=\"m\"} 4\nsglang:num_queue_reqs{model_name=\"m\"} 1\nsglang:token_usage{model_name=\"m\"} 0.28\n",
                4,
                1,
                Some(0.28),
            ),
            // An exemplar follows the value.
            ("vllm:num_requests_running{a=\"}\"} 3 # {trace=\"x\"} 99 1.5\n", 3, 0, None),
            ("llamacpp:requests_processing 1\nllamacpp:requests_deferred 7\n", 1, 7, None),
            ("tgi_batch_current_size 12\ntgi_queue_size 0 1700000000000\n", 12, 0, None),
        ] {
            let wanted = EngineReading { running, waiting, cache_use, adapters: Vec::new() };
            assert_eq!(EngineReading::read(page), Some(wanted), "{page}");
        }
    }

    #[test]
    fn the_newest_list_of_adapters_counts() {
        let page = "vllm:num_requests_running 1\n\
            vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"old\",waiting_lora_adapters=\"\"} 100.5\n\
            vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"sql, poems\",waiting_lora_adapters=\"law\"} 101.5\n\
            vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"older\",waiting_lora_adapters=\"\"} 99.0\n";
        let adapters = EngineReading::read(page).unwrap().adapters;
        assert_eq!(adapters, [Box::from("law"), Box::from("poems"), Box::from("sql")]);
    }

    #[test]
    fn what_is_no_such_page_gives_nothing() {
        for page in [
            "",
            "<html>404</html>",
            "up 1\n",
            "vllm:num_requests_running NaN\n",
            "vllm:num_requests_running\n",
        ] {
            assert_eq!(EngineReading::read(page), None, "{page}");
        }
        let odd = "vllm:num_requests_running{model_name=\"a}\\\"b\"} 1e99\nvllm:num_requests_waiting -3\n";
        let reading = EngineReading::read(odd).unwrap();
        assert_eq!((reading.running, reading.waiting), (u32::MAX, 0));
    }

    proptest! {
        #[test]
        fn no_page_is_too_odd(page in "[a-z:_{}=\",\\\\ 0-9.\n]{0,200}") {
            let _ = EngineReading::read(&format!("vllm:lora_requests_info{{{page}"));
            let _ = EngineReading::read(&page);
        }
    }
}
