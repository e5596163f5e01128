//! `/analytics/graphs/feedbacks…`: what clients think of responses.

use super::graphs::{GRAPH, QUERY, VIEW, at, spans};
use super::{Subject, TIMEOUT, refused, rounded};
use crate::call::Call;
use crate::logs;
use crate::reply::Reply;
use crate::route::{Route, get};
use memory::ledger::Question;
use memory::ledger::analytics::{FeedbackQuery, FeedbackSum, FeedbackTally};
use serde_json::{Value, json};
use words::error::Error;

pub(crate) const ROUTES: &[Route] = &[
    get("/v1/analytics/graphs/feedbacks", VIEW, "Feedback in time", |call| Box::pin(count(call)))
        .query(&QUERY)
        .replies(GRAPH),
    get("/v1/analytics/graphs/feedbacks/scores", VIEW, "Feedback by value", |call| Box::pin(scores(call)))
        .query(&QUERY)
        .replies(GRAPH),
    get("/v1/analytics/graphs/feedbacks/weighted", VIEW, "Average feedback in time", |call| {
        Box::pin(weighted(call))
    })
    .query(&QUERY)
    .replies(GRAPH),
    get("/v1/analytics/graphs/feedbacks/ai-models", VIEW, "Feedback by model", |call| Box::pin(models(call)))
        .query(&QUERY)
        .replies(GRAPH),
];

/// The feedback of a call, and the spans of its graph.
async fn tally(call: &Call, has_models: bool) -> Result<(FeedbackTally, Vec<i64>), Error> {
    let Subject { mut filter, range } = Subject::of(call, true)?;
    let starts = spans(call, &range)?;
    (filter.since, filter.until) = (Some(range.start), Some(range.end));
    let boundaries = starts.iter().skip(1).copied().collect();
    let query = FeedbackQuery { filter, boundaries, has_models };
    let held = call.held_by_answer();
    let question = Question::Sums.of(call.own_workspace());
    let done = logs::ledger(call)?.run(question, TIMEOUT, move |store, control| {
        let mut tally = FeedbackTally::within(query, held);
        store.feedback_sums(&mut tally, control)?;
        Ok(tally)
    });
    Ok((done.await.map_err(|error| refused(error, true))?, starts))
}

fn total(tally: &FeedbackTally) -> FeedbackSum {
    let mut total = FeedbackSum::default();
    tally.buckets.values().for_each(|sum| total.merge(sum));
    total
}

fn points(tally: &FeedbackTally, starts: &[i64], show: fn(&FeedbackSum) -> Value) -> Vec<Value> {
    let none = FeedbackSum::default();
    let point =
        |(bucket, start): (usize, &i64)| at(*start, show(tally.buckets.get(&bucket).unwrap_or(&none)));
    starts.iter().enumerate().map(point).collect()
}

fn graph(summary: Value, points: Vec<Value>) -> Reply {
    Reply::from(json!({"summary": summary, "data_points": points, "object": "analytics-graph"}))
}

async fn count(call: Call) -> Result<Reply, Error> {
    let (tally, starts) = tally(&call, false).await?;
    let points = points(&tally, &starts, |sum| json!({"total": sum.count}));
    Ok(graph(json!({"total": total(&tally).count}), points))
}

async fn scores(call: Call) -> Result<Reply, Error> {
    let (tally, _) = tally(&call, false).await?;
    let points = tally.scores.iter().map(|(score, total)| json!({"score": score, "total": total}));
    Ok(graph(json!({"total": total(&tally).count}), points.collect()))
}

/// The average as it is shown: 0 without feedback.
fn average(sum: &FeedbackSum) -> f64 {
    sum.average().map_or(0.0, rounded)
}

async fn weighted(call: Call) -> Result<Reply, Error> {
    let (tally, starts) = tally(&call, false).await?;
    let points = points(&tally, &starts, |sum| json!({"avg": average(sum)}));
    Ok(graph(json!({"avg": average(&total(&tally))}), points))
}

async fn models(call: Call) -> Result<Reply, Error> {
    let (tally, _) = tally(&call, true).await?;
    let points = tally.models.iter().map(
        |(model, sum)| json!({"ai_model": model, "total": sum.count, "avg_weighted_feedback": average(sum)}),
    );
    Ok(graph(json!({}), points.collect()))
}
