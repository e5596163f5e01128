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
    Group { list: Option<Vec<u16>>, classes: Classes, members: Vec<(Classes, ConfigShape)> },
}

/// `on_errors` of a group, or `for_errors` of a member.
type Classes = Option<Vec<&'static str>>;

impl ConfigShape {
    fn json(&self) -> String {
        let names = |key: &str, classes: &Classes| match classes {
            Some(classes) => format!(r#","{key}":{classes:?}"#),
            None => String::new(),
        };
        let list = |list: &Option<Vec<u16>>| match list {
            Some(codes) => format!(r#","on_status_codes":{codes:?}"#),
            None => String::new(),
        };
        match self {
            ConfigShape::Target { attempts, statuses } => {
                target(&format!(r#""retry":{{"attempts":{attempts}{}}}"#, list(statuses)))
            }
            ConfigShape::Group { list: codes, classes, members } => {
                let member = |(classes, shape): &(Classes, ConfigShape)| {
                    let json = shape.json();
                    format!("{}{}}}", json.strip_suffix('}').unwrap(), names("for_errors", classes))
                };
                let members: Vec<String> = members.iter().map(member).collect();
                let mode = format!(r#"{{"mode":"fallback"{}{}}}"#, list(codes), names("on_errors", classes));
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
    fn node(&mut self, shape: &ConfigShape, path: &str, others: Others) -> NodeOutcome {
        match shape {
            ConfigShape::Target { attempts, statuses } => {
                self.target(*attempts, statuses.as_deref(), path, others)
            }
            ConfigShape::Group { list, classes, members } => {
                let mut tried = Vec::new();
                let mut index = members.iter().position(|(classes, _)| classes.is_none()).unwrap();
                loop {
                    tried.push(index);
                    let following = |outcome: Outcome| {
                        let follows = |(_, (own, _)): &(usize, &(Classes, ConfigShape))| match own {
                            Some(own) => class(outcome).is_some_and(|class| own.contains(&class)),
                            None => falls_back(list.as_deref(), classes.as_deref(), outcome),
                        };
                        let untried = members.iter().enumerate().filter(|(index, _)| !tried.contains(index));
                        untried.filter(follows).map(|(index, _)| index).next()
                    };
                    let inner = Others {
                        after_silence: others.after_silence || following(Outcome::TimedOut).is_some(),
                        after_break: others.after_break || following(Outcome::Interrupted).is_some(),
                    };
                    let last = self.node(&members[index].1, &format!("{path}.targets[{index}]"), inner)?;
                    match following(last) {
                        Some(next) => index = next,
                        None => return Some(last),
                    }
                }
            }
        }
    }

    fn target(&mut self, attempts: u32, statuses: Option<&[u16]>, path: &str, others: Others) -> NodeOutcome {
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
                Outcome::Interrupted => !others.after_break,
                Outcome::TimedOut => {
                    !others.after_silence && statuses.is_some_and(|list| list.contains(&408))
                }
                Outcome::PrefillRefused
                | Outcome::FormRefused
                | Outcome::Unsupported(_)
                | Outcome::Limited(_)
                | Outcome::Busy => false,
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

/// Whether a sibling, here or further up, would follow.
#[derive(Clone, Copy, Default)]
struct Others {
    after_silence: bool,
    after_break: bool,
}

/// The name of a failure in a config.
fn class(outcome: Outcome) -> Option<&'static str> {
    Some(match outcome {
        Outcome::Response { status: 200, .. } => return None,
        Outcome::Response { class: ErrorClass::ContentFiltered, .. } => "content_policy",
        Outcome::Response { status: 401, .. } => "auth",
        Outcome::Response { status: 429, .. } | Outcome::Limited(429) | Outcome::Busy => "rate_limit",
        Outcome::Response { status: 500 | 503, .. } => "server_error",
        Outcome::TimedOut => "timeout",
        Outcome::Failed | Outcome::Interrupted => "connection",
        _ => "other",
    })
}

/// Whether a group falls back to a member for any failure.
fn falls_back(list: Option<&[u16]>, classes: Option<&[&str]>, outcome: Outcome) -> bool {
    if outcome == Outcome::Busy {
        return list.is_none_or(|list| !list.is_empty());
    }
    let is_named = |classes: &[&str]| class(outcome).is_some_and(|class| classes.contains(&class));
    match (list, outcome) {
        _ if classes.is_some_and(is_named) => true,
        (None, _) if classes.is_some() => false,
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

fn classes(at_least: usize) -> impl Strategy<Value = Classes> {
    let names = ["auth", "rate_limit", "content_policy", "server_error", "timeout", "connection", "other"];
    prop_oneof![
        2 => Just(None),
        1 => prop::collection::vec(prop::sample::select(names.to_vec()), at_least..4).prop_map(Some),
    ]
}

fn shapes() -> impl Strategy<Value = ConfigShape> {
    let target_shape =
        (0_u32..3, codes()).prop_map(|(attempts, statuses)| ConfigShape::Target { attempts, statuses });
    target_shape.prop_recursive(3, 12, 4, |inner| {
        (codes(), classes(0), prop::collection::vec((classes(1), inner), 1..4)).prop_map(
            |(list, classes, mut members)| {
                // One member at least is for any failure.
                members.last_mut().unwrap().0 = None;
                ConfigShape::Group { list, classes, members }
            },
        )
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
        1 => Just(Outcome::Busy),
    ];
    prop::collection::vec(one, 1..20)
}

proptest! {
    #[test]
    fn the_plan_agrees_with_the_model(shape in shapes(), outcomes in outcomes()) {
        let mut model = Model { outcomes: outcomes.iter(), tried: Vec::new() };
        if model.node(&shape, "config", Others::default()).is_some() {
            model.tried.push("!".to_owned());
        }
        let (tried, _) = run_plan(&shape.json(), &outcomes, &mut TestEnv::default());
        prop_assert_eq!(tried, model.tried, "{}", shape.json());
    }
}
