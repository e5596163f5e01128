//! A slow, obvious model of fallback, nesting, retries and breakers, and several hundred walks against it.
//!
//! The model does not walk: it writes down the whole order of tries for a tree and crosses out what outcomes
//! forbid. Load balancing and conditions are left out: they only choose.

use super::{Made, target, walk};
use crate::route::outcome::{ErrorClass, Outcome};
use proptest::prelude::*;

/// A config: targets with a retry count, or a fallback group with a list of statuses.
#[derive(Debug, Clone)]
enum Shape {
    Leaf { attempts: u32, statuses: Option<Vec<u16>> },
    Group { list: Option<Vec<u16>>, below: Vec<Shape> },
}

impl Shape {
    fn json(&self) -> String {
        let list = |list: &Option<Vec<u16>>| match list {
            Some(codes) => format!(r#","on_status_codes":{codes:?}"#),
            None => String::new(),
        };
        match self {
            Shape::Leaf { attempts, statuses } => {
                target(&format!(r#""retry":{{"attempts":{attempts}{}}}"#, list(statuses)))
            }
            Shape::Group { list: codes, below } => {
                let below: Vec<String> = below.iter().map(Shape::json).collect();
                let mode = format!(r#"{{"mode":"fallback"{}}}"#, list(codes));
                format!(r#"{{"strategy":{mode},"targets":[{}]}}"#, below.join(","))
            }
        }
    }
}

/// What a branch came to: `None` when the outcomes ran out inside it.
type End = Option<Outcome>;

/// The obvious reading of the rules, recursively: a branch is tried to its end, then its parent judges.
struct Model<'a> {
    outcomes: std::slice::Iter<'a, Outcome>,
    tried: Vec<String>,
}

impl Model<'_> {
    /// `others`: whether a sibling is left to go to, here or further up.
    fn branch(&mut self, shape: &Shape, path: &str, others: bool) -> End {
        match shape {
            Shape::Leaf { attempts, statuses } => self.leaf(*attempts, statuses.as_deref(), path, others),
            Shape::Group { list, below } => {
                let mut last = None;
                for (index, shape) in below.iter().enumerate() {
                    let more = index + 1 < below.len() && list.as_ref().is_none_or(|list| !list.is_empty());
                    last = Some(self.branch(shape, &format!("{path}.targets[{index}]"), others || more)?);
                    if !last.is_some_and(|last| on(list.as_deref(), last)) {
                        break;
                    }
                }
                last
            }
        }
    }

    fn leaf(&mut self, attempts: u32, statuses: Option<&[u16]>, path: &str, others: bool) -> End {
        self.tried.push(path.to_owned());
        let mut outcome = *self.outcomes.next()?;
        for _ in 0..attempts {
            let again = match outcome {
                Outcome::Answered { said: ErrorClass::ContextTooLong, .. } => false,
                Outcome::Answered { status, said: ErrorClass::ContentFiltered, .. } => {
                    statuses.is_some_and(|list| list.contains(&status))
                }
                Outcome::Answered { status, .. } => {
                    statuses.unwrap_or(&[429, 500, 502, 503, 504, 529]).contains(&status)
                }
                Outcome::Broken => true,
                Outcome::Cut => !others,
                Outcome::Silent => !others && statuses.is_some_and(|list| list.contains(&408)),
                Outcome::Unfit(_) => false,
            };
            if !again {
                break;
            }
            self.tried.push(path.to_owned());
            outcome = *self.outcomes.next()?;
        }
        Some(outcome)
    }
}

/// Whether a fallback goes on.
fn on(list: Option<&[u16]>, outcome: Outcome) -> bool {
    match (list, outcome) {
        (Some(list), Outcome::Answered { status, .. } | Outcome::Unfit(status)) => list.contains(&status),
        (Some(list), _) => !list.is_empty(),
        (None, Outcome::Answered { said: ErrorClass::ContentFiltered, .. }) => false,
        (None, Outcome::Answered { status, .. }) => !(200..300).contains(&status),
        (None, _) => true,
    }
}

fn codes() -> impl Strategy<Value = Option<Vec<u16>>> {
    let code = prop::sample::select(vec![200_u16, 400, 408, 429, 500, 503]);
    prop::option::of(prop::collection::vec(code, 0..3))
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = (0_u32..3, codes()).prop_map(|(attempts, statuses)| Shape::Leaf { attempts, statuses });
    leaf.prop_recursive(3, 12, 4, |inner| {
        (codes(), prop::collection::vec(inner, 1..4)).prop_map(|(list, below)| Shape::Group { list, below })
    })
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let status = prop::sample::select(vec![200_u16, 400, 401, 429, 500, 503]);
    let said = prop_oneof![8 => Just(ErrorClass::Other), 1 => Just(ErrorClass::ContentFiltered)];
    let answered = (status, said).prop_map(|(status, said)| Outcome::Answered {
        status,
        // A good answer says nothing of the sort.
        said: if status == 400 { said } else { ErrorClass::Other },
        wait: None,
    });
    let one = prop_oneof![
        6 => answered,
        1 => Just(Outcome::Silent),
        1 => Just(Outcome::Broken),
        1 => Just(Outcome::Cut),
        1 => Just(Outcome::Unfit(400)),
    ];
    prop::collection::vec(one, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn the_plan_walks_as_the_model_says(shape in shapes(), outcomes in outcomes()) {
        let mut model = Model { outcomes: outcomes.iter(), tried: Vec::new() };
        if model.branch(&shape, "config", false).is_some() {
            model.tried.push("!".to_owned());
        }
        let (tried, _) = walk(&shape.json(), &outcomes, &mut Made::default());
        prop_assert_eq!(tried, model.tried, "{}", shape.json());
    }
}
