//! A slow, obvious model of fallback, nesting, retries and circuit breakers, and several hundred plans
//! checked against it.
//!
//! The model does not work step by step: it writes down the whole order of attempts for a config and removes
//! those that the outcomes rule out. Load balancing and conditions are left out, since they only choose.

use super::{TestEnv, run_plan, target};
use crate::route::outcome::{ErrorClass, Outcome};
use proptest::prelude::*;

/// A config: targets with a retry count, or a fallback group with a list of statuses.
#[derive(Debug, Clone)]
enum ConfigShape {
    Target { attempts: u32, statuses: Option<Vec<u16>> },
    Group { list: Option<Vec<u16>>, members: Vec<ConfigShape> },
}

impl ConfigShape {
    fn json(&self) -> String {
        let list = |list: &Option<Vec<u16>>| match list {
            Some(codes) => format!(r#","on_status_codes":{codes:?}"#),
            None => String::new(),
        };
        match self {
            ConfigShape::Target { attempts, statuses } => {
                target(&format!(r#""retry":{{"attempts":{attempts}{}}}"#, list(statuses)))
            }
            ConfigShape::Group { list: codes, members } => {
                let members: Vec<String> = members.iter().map(ConfigShape::json).collect();
                let mode = format!(r#"{{"mode":"fallback"{}}}"#, list(codes));
                format!(r#"{{"strategy":{mode},"targets":[{}]}}"#, members.join(","))
            }
        }
    }
}

/// The result of a node: `None` if the outcomes ran out inside it.
type NodeOutcome = Option<Outcome>;

/// The obvious reading of the rules, recursively: a node is tried to its end, then its parent decides.
struct Model<'a> {
    outcomes: std::slice::Iter<'a, Outcome>,
    tried: Vec<String>,
}

impl Model<'_> {
    /// `others`: whether there is a sibling to fall back to, here or further up.
    fn node(&mut self, shape: &ConfigShape, path: &str, others: bool) -> NodeOutcome {
        match shape {
            ConfigShape::Target { attempts, statuses } => {
                self.target(*attempts, statuses.as_deref(), path, others)
            }
            ConfigShape::Group { list, members } => {
                let mut last = None;
                for (index, shape) in members.iter().enumerate() {
                    let more = index + 1 < members.len() && list.as_ref().is_none_or(|list| !list.is_empty());
                    last = Some(self.node(shape, &format!("{path}.targets[{index}]"), others || more)?);
                    if !last.is_some_and(|last| falls_back(list.as_deref(), last)) {
                        break;
                    }
                }
                last
            }
        }
    }

    fn target(&mut self, attempts: u32, statuses: Option<&[u16]>, path: &str, others: bool) -> NodeOutcome {
        self.tried.push(path.to_owned());
        let mut outcome = *self.outcomes.next()?;
        for _ in 0..attempts {
            let retry = match outcome {
                Outcome::Response { class: ErrorClass::ContextTooLong, .. } => false,
                Outcome::Response { status, class: ErrorClass::ContentFiltered, .. } => {
                    statuses.is_some_and(|list| list.contains(&status))
                }
                Outcome::Response { status, .. } => {
                    statuses.unwrap_or(&[429, 500, 502, 503, 504, 529]).contains(&status)
                }
                Outcome::Failed => true,
                Outcome::Interrupted => !others,
                Outcome::TimedOut => !others && statuses.is_some_and(|list| list.contains(&408)),
                Outcome::PrefillRefused
                | Outcome::FormRefused
                | Outcome::Unsupported(_)
                | Outcome::Limited(_) => false,
            };
            if !retry {
                break;
            }
            self.tried.push(path.to_owned());
            outcome = *self.outcomes.next()?;
        }
        Some(outcome)
    }
}

/// Whether a group falls back.
fn falls_back(list: Option<&[u16]>, outcome: Outcome) -> bool {
    match (list, outcome) {
        (
            Some(list),
            Outcome::Response { status, .. } | Outcome::Unsupported(status) | Outcome::Limited(status),
        ) => list.contains(&status),
        (Some(list), _) => !list.is_empty(),
        (None, Outcome::Response { class: ErrorClass::ContentFiltered, .. }) => false,
        (None, Outcome::Response { status, .. }) => !(200..300).contains(&status),
        (None, _) => true,
    }
}

fn codes() -> impl Strategy<Value = Option<Vec<u16>>> {
    let code = prop::sample::select(vec![200_u16, 400, 408, 429, 500, 503]);
    prop::option::of(prop::collection::vec(code, 0..3))
}

fn shapes() -> impl Strategy<Value = ConfigShape> {
    let target_shape =
        (0_u32..3, codes()).prop_map(|(attempts, statuses)| ConfigShape::Target { attempts, statuses });
    target_shape.prop_recursive(3, 12, 4, |inner| {
        (codes(), prop::collection::vec(inner, 1..4))
            .prop_map(|(list, members)| ConfigShape::Group { list, members })
    })
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let status = prop::sample::select(vec![200_u16, 400, 401, 429, 500, 503]);
    let class = prop_oneof![8 => Just(ErrorClass::Other), 1 => Just(ErrorClass::ContentFiltered)];
    let response = (status, class).prop_map(|(status, class)| Outcome::Response {
        status,
        // Only an error response can have this class.
        class: if status == 400 { class } else { ErrorClass::Other },
        retry_after: None,
    });
    let one = prop_oneof![
        6 => response,
        1 => Just(Outcome::TimedOut),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::Interrupted),
        1 => Just(Outcome::Unsupported(400)),
        1 => Just(Outcome::Limited(429)),
    ];
    prop::collection::vec(one, 1..20)
}

proptest! {
    #[test]
    fn the_plan_agrees_with_the_model(shape in shapes(), outcomes in outcomes()) {
        let mut model = Model { outcomes: outcomes.iter(), tried: Vec::new() };
        if model.node(&shape, "config", false).is_some() {
            model.tried.push("!".to_owned());
        }
        let (tried, _) = run_plan(&shape.json(), &outcomes, &mut TestEnv::default());
        prop_assert_eq!(tried, model.tried, "{}", shape.json());
    }
}
