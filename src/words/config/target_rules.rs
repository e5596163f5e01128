//! What a config's strategy requires of its targets.
//!
//! Checked on the node tree before the targets are read, so that a target with problems of its own still
//! counts as present. Not here: what each target must have by itself (`required_keys`).

use super::balance::BalanceBy;
use super::level::MAX_TARGETS;
use super::node::{Node, NodeKind};
use super::read::{Cursor, ObjectReader};
use super::strategy::{Mode, Strategy};

/// Reports what the targets lack for `strategy` and for `hedge`.
pub(super) fn check(fields: &ObjectReader<'_>, strategy: Option<&Strategy>) {
    let targets = fields.peek(&["targets"]);
    if let Some(strategy) = strategy {
        require_targets(fields, targets.as_ref(), strategy.mode);
        if let Some(targets) = targets.as_ref().filter(|_| strategy.mode == Mode::LoadBalance) {
            require_weight(targets);
            if strategy.by == BalanceBy::Price {
                require_prices(targets);
            }
        }
        if let Some(targets) = &targets {
            check_classes(targets, strategy.mode);
        }
    }
    if let Some(hedge) = fields.peek(&["hedge"])
        && targets.and_then(|at| at.node.items()).is_none_or(|items| items.len() < 2)
    {
        hedge.problem("needs two targets at least");
    }
}

/// Every mode except `single` needs targets. `single` uses the first target, or without `targets` the config
/// itself is the target.
fn require_targets(fields: &ObjectReader<'_>, targets: Option<&Cursor<'_>>, mode: Mode) {
    if mode == Mode::Single {
        return;
    }
    match targets {
        None => fields.missing("targets", format!("is required in {} mode", mode.as_str())),
        Some(at) if at.node.is_empty_list() => at.problem("must hold at least one target"),
        Some(_) => {}
    }
}

/// A target of weight 0 is never chosen; if all weights were 0, no request could be served.
fn require_weight(targets: &Cursor<'_>) {
    let weightless = |target: &Node| match target.member("weight").map(|weight| &weight.kind) {
        Some(NodeKind::Number(weight)) => weight.as_f64() == Some(0.0),
        _ => false,
    };
    let items = targets.node.items().unwrap_or_default();
    if !items.is_empty() && items.iter().all(weightless) {
        targets.problem("must hold one of a weight above 0");
    }
}

/// A target for classes of failures is never a group's first choice, and only a fallback has further ones.
fn check_classes(targets: &Cursor<'_>, mode: Mode) {
    let has_classes =
        |target: &Node| target.member("for_errors").is_some_and(|classes| classes.kind != NodeKind::Null);
    let items = targets.node.items().unwrap_or_default();
    if mode == Mode::Fallback {
        if !items.is_empty() && items.iter().all(has_classes) {
            targets.problem("must hold one without for_errors");
        }
    } else if items.iter().any(has_classes) {
        targets.problem("must hold none with for_errors, which is for fallback mode");
    }
}

/// A target without a price cannot be compared with the others. The price of a target group is the one in its
/// own config.
fn require_prices(targets: &Cursor<'_>) {
    if targets.node.items().is_none() {
        return;
    }
    // Targets beyond the maximum are refused anyway.
    for target in targets.list().unwrap_or_default().iter().take(MAX_TARGETS) {
        let priced = target.node.member("price").is_some_and(|price| price.kind != NodeKind::Null);
        if !priced
            && target.node.is_object()
            && let Some(fields) = target.fields()
        {
            fields.missing("price", "is required where strategy.by is price");
        }
    }
}
