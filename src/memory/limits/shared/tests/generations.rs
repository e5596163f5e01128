//! Resets of a limit and alerts, on a real Redis and a real PostgreSQL: what limits of before do, and what is reported once.

use super::*;

/// Passes one request that uses what was estimated.
async fn pass(limits: &Limits, set: &LimitSet, estimate: &Estimate<'_>) {
    let held = reserve(limits, set, estimate).await.unwrap();
    held.settle(used(0, estimate.cost.unwrap_or(0)), Timestamp::now());
    limits.flush().await.unwrap();
}

/// A request keeps the limits that it was admitted with, and a gateway may read a reset later than another.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_before_a_reset_do_not_undo_it() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let before = Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 100, Reset::Monthly)) };
        let after = Limit { generation: 1, ..before.clone() };
        let old = LimitSet::new(vec![before.clone()], limits.hash());
        let new = LimitSet::new(vec![after.clone()], limits.hash());
        pass(&limits, &old, &priced(40)).await;
        let under_way = reserve(&limits, &old, &priced(5)).await.unwrap();
        pass(&limits, &new, &priced(90)).await;
        assert_eq!((view(&limits, &before).await, view(&limits, &after).await), ((90, 5), (90, 5)));
        assert_eq!(reserve(&limits, &old, &priced(11)).await.unwrap_err().cause, Cause::Spent);
        let further = reserve(&limits, &old, &priced(5)).await.unwrap();
        assert_eq!(reserve(&limits, &new, &priced(1)).await.unwrap_err().cause, Cause::Reserved);
        further.settle(used(0, 5), Timestamp::now());
        under_way.settle(used(0, 5), Timestamp::now());
        assert_eq!(view(&limits, &after).await, (95, 0), "what was held after the reset counts since then");
        pass(&limits, &old, &Estimate { is_made: true, ..priced(60) }).await;
        assert_eq!(view(&limits, &after).await, (155, 0));
        // A reset that is read forgets it.
        let next = Limit { generation: 2, ..before.clone() };
        assert_eq!(view(&limits, &next).await, (0, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hard_limit_that_fits_is_reported_as_exhausted_once_it_is() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let mut events = limits.events().unwrap();
        let mut sent = || -> Vec<i64> {
            std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.spent).collect()
        };
        let of =
            |credit| Limit { hard: true, fit: true, ..policy(1, usage(UsageOf::Cost, credit, Reset::Never)) };
        let set = LimitSet::new(vec![of(1_000)], limits.hash());
        let cost_of = |output: u64| 100 + 10 * i64::try_from(output).unwrap();
        let estimate = Estimate {
            max_output_tokens: Some(500),
            cost: Some(200),
            max_cost: Some(cost_of(500)),
            cost_of: Some(&cost_of),
            ..Estimate::default()
        };
        // Too large, and lowered. Without `fit` it is refused, which is no news of the limit.
        let first = reserve(&limits, &set, &estimate).await.unwrap();
        first.settle(used(0, 950), Timestamp::now());
        limits.flush().await.unwrap();
        let fixed = Limit { id: Uuid::from_u128(2), fit: false, ..of(1_000) };
        let fixed = LimitSet::new(vec![fixed], limits.hash());
        assert_eq!(reserve(&limits, &fixed, &estimate).await.unwrap_err().cause, Cause::Spent);
        assert!(sent().is_empty());
        // What is left does not pay for a single token.
        for reported in [vec![950_i64], vec![]] {
            assert_eq!(reserve(&limits, &set, &estimate).await.unwrap_err().cause, Cause::Spent);
            assert_eq!(sent(), reported);
        }
        // Raised, which has it reported again, and lowered: the first reply tells it, and then it is tried with less output.
        let raised = LimitSet::new(vec![of(2_000)], limits.hash());
        reserve(&limits, &raised, &estimate).await.unwrap().cancel(Timestamp::now());
        limits.flush().await.unwrap();
        let lowered = LimitSet::new(vec![of(900)], limits.hash());
        for reported in [vec![950_i64], vec![]] {
            assert_eq!(reserve(&limits, &lowered, &estimate).await.unwrap_err().cause, Cause::Spent);
            assert_eq!(sent(), reported);
        }
    })
    .await;
}
