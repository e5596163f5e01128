//! Order and concurrency of hooks and checks, time limits, and changes one after another.

use super::*;
use crate::guard::check::{LocalCheck, RemoteCheck};
use crate::guard::outside::{OutsideCall, OutsideError, OutsideResponse};
use crate::guard::parameters::Unusable;
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use tokio::time::sleep;
use words::api::operation::Operation;
use words::config::hooks::Feedback;

struct Nowhere;

impl Outside for Nowhere {
    fn call<'a>(&'a self, _: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>> {
        Box::pin(ready(Err(OutsideError::TimedOut)))
    }

    fn chat<'a>(&'a self, _: &'a Value, _: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>> {
        Box::pin(ready(Err(OutsideError::TimedOut)))
    }
}

/// Takes this long, then decides.
#[derive(Debug)]
struct Slow(u64, bool);

impl RemoteCheck for Slow {
    fn run<'a>(&'a self, _: &'a Subject, _: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        Box::pin(async {
            sleep(Duration::from_millis(self.0)).await;
            Finding { verdict: self.1, ..Finding::default() }
        })
    }
}

/// Adds a letter to each text, after a while that is shorter for later letters.
#[derive(Debug)]
struct Add(char);

impl RemoteCheck for Add {
    fn run<'a>(&'a self, subject: &'a Subject, _: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        Box::pin(async {
            sleep(Duration::from_millis(u64::from(u32::from('z') - u32::from(self.0)))).await;
            let texts = subject.texts.iter().map(|text| Some(format!("{}{}", text.text, self.0))).collect();
            Finding { verdict: true, change: Change::Texts(texts), ..Finding::default() }
        })
    }

    fn may_change(&self) -> bool {
        true
    }
}

/// Passes where the text is this one.
#[derive(Debug)]
struct Is(&'static str);

impl LocalCheck for Is {
    fn run(&self, subject: &Subject) -> Finding {
        Finding { verdict: subject.text() == Some(self.0), ..Finding::default() }
    }
}

fn check(prepared: Prepared) -> HookCheck {
    HookCheck {
        id: "c".into(),
        needs: Needs::Text,
        prepared: Ok(prepared),
        fail_on_error: None,
        time_limit: None,
    }
}

fn remote(check_of: impl RemoteCheck + 'static) -> HookCheck {
    check(Prepared::Remote(Box::new(check_of)))
}

fn hook(id: &str, checks: Vec<HookCheck>) -> Hook {
    Hook {
        id: id.into(),
        kind: HookKind::Guardrail,
        asynchronous: false,
        sequential: false,
        parallel: false,
        is_of_workspace: false,
        is_saved: false,
        selection: crate::guard::judged::Selection::default(),
        denies_on_fail: true,
        denies_on_success: false,
        stream: None,
        is_behind_workspace: false,
        overlap: None,
        message: None,
        checks,
        on_fail: None,
        on_success: None,
    }
}

/// With nothing outside, a second for each check, and errors that pass.
fn runner(large_work: &LargeWork) -> Run<'_> {
    Run {
        outside: &Nowhere,
        outside_of_saved: &Nowhere,
        outside_of_workspace: &Nowhere,
        large_work,
        fail_on_error: false,
        time_limit: Duration::from_secs(1),
    }
}

async fn run(hooks: &[Hook]) -> (PhaseRun, u128) {
    let work = LargeWork::default();
    let run = Run { time_limit: Duration::from_millis(500), ..runner(&work) };
    let subject =
        Subject::of_request(Operation::ChatCompletions, r#"{"messages":[{"role":"user","content":"t"}]}"#);
    let started = tokio::time::Instant::now();
    let passed = run.hooks(hooks.iter(), &subject).await;
    (passed, started.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn hooks_and_checks_run_at_once_and_stay_in_order() {
    let hooks = [
        hook("a", vec![remote(Slow(300, true)), remote(Slow(100, true))]),
        hook("b", vec![remote(Slow(200, false))]),
    ];
    let (passed, taken) = run(&hooks).await;
    assert!((300..320).contains(&taken), "{taken}");
    let shown: Vec<_> =
        passed.results.iter().map(|result| (&*result.id, result.verdict, result.deny)).collect();
    assert_eq!(shown, [("a", true, false), ("b", false, true)]);
    assert!(passed.denies() && passed.changed.is_none());
    let in_turn =
        Hook { sequential: true, ..hook("a", vec![remote(Slow(300, true)), remote(Slow(100, true))]) };
    let (_, taken) = run(&[in_turn]).await;
    assert!((400..420).contains(&taken), "{taken}");
}

/// Checks of the workspace see what its changes left, wherever they stand; those of a config see the same, but for those that run in turn with
/// changes of their own hook.
#[tokio::test(start_paused = true)]
async fn changes_are_made_one_after_another_and_the_others_see_what_the_workspaces_left() {
    let is = |text| check(Prepared::Local(Box::new(Is(text))));
    for (is_of_workspace, left, [before, after]) in
        [(true, "tabc", ["tabc", "tabc"]), (false, "t", ["tab", "tabc"])]
    {
        let hooks = [
            hook("a", vec![is(left), remote(Add('a')), remote(Add('b')), is(left)]),
            Hook { sequential: true, ..hook("b", vec![is(left)]) },
            Hook { kind: HookKind::Mutator, ..hook("c", vec![is(before), remote(Add('c')), is(after)]) },
        ];
        let (passed, _) = run(&hooks.map(|hook| Hook { is_of_workspace, ..hook })).await;
        assert!(!passed.has_failed(), "{:?}", passed.results);
        let changed = passed.changed.unwrap();
        assert_eq!(changed.text(), Some("tabc"));
        assert_eq!(&*changed.source, r#"{"messages":[{"role":"user","content":"tabc"}]}"#);
        let transformed: Vec<bool> = passed.results.iter().map(|result| result.transformed).collect();
        assert_eq!(transformed, [true, false, true]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_mutator_sees_what_the_check_before_it_left() {
    let checks = vec![remote(Add('a')), check(Prepared::Local(Box::new(Is("ta"))))];
    let (passed, _) = run(&[Hook { kind: HookKind::Mutator, ..hook("m", checks) }]).await;
    assert!(passed.results[0].verdict, "{:?}", passed.results);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_is_given_up_and_passes_unless_it_is_to_fail() {
    let limited = HookCheck { time_limit: Some(Duration::from_millis(50)), ..remote(Slow(90_000, true)) };
    let failing = HookCheck { fail_on_error: Some(true), ..remote(Slow(90_000, true)) };
    let (passed, taken) = run(&[hook("a", vec![limited]), hook("b", vec![failing])]).await;
    assert!((500..520).contains(&taken), "{taken}");
    let shown: Vec<_> = passed.results.iter().map(|result| (result.verdict, result.deny)).collect();
    assert_eq!(shown, [(true, false), (false, true)]);
    for result in &passed.results {
        let error = result.checks[0].error.as_ref().unwrap();
        assert_eq!(error.name, "TimeoutError");
        assert!(!result.checks[0].verdict);
    }
}

#[tokio::test]
async fn a_check_with_unusable_parameters_is_an_error_of_its_result() {
    let unusable = HookCheck {
        needs: Needs::Text,
        prepared: Err(Unusable::new("rule", "Missing regex pattern")),
        ..check(Prepared::Local(Box::new(Is(""))))
    };
    let feedback = Feedback { value: Some(2.0), weight: None, metadata: None };
    let (passed, _) = run(&[Hook { on_success: Some(feedback), ..hook("a", vec![unusable]) }]).await;
    let result = &passed.results[0];
    assert!(result.verdict && !result.checks[0].verdict);
    assert_eq!(result.checks[0].error.as_ref().unwrap().message, "Missing regex pattern");
    let feedback = result.feedback.as_ref().unwrap();
    assert_eq!(
        (feedback.value, feedback.weight, &feedback.metadata["erroredChecks"]),
        (2.0, 1.0, &Value::from("c"))
    );
}

/// A check that needs no text.
fn textless(check: HookCheck) -> HookCheck {
    HookCheck { needs: Needs::Nothing, ..check }
}

#[tokio::test]
async fn checks_without_what_they_need_are_left_out() {
    let fails = || check(Prepared::Local(Box::new(Is("other"))));
    let denying = |id: &str, checks| Hook { denies_on_fail: true, ..hook(id, checks) };
    let inverted = Hook { denies_on_success: true, ..hook("c", vec![textless(fails()), fails()]) };
    let hooks = [denying("a", vec![fails()]), denying("b", vec![textless(fails()), fails()]), inverted];
    let mut subject = Subject::of_request(Operation::Images, r#"{"prompt":"t"}"#);
    subject.available = Needs::Body;
    let work = LargeWork::default();
    let run = runner(&work);
    let passed = run.hooks(hooks.iter(), &subject).await;
    let found: Vec<_> =
        passed.results.iter().map(|result| (&*result.id, result.deny, result.checks.len())).collect();
    assert_eq!(found, [("b", true, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_config_undoes_nothing_that_the_workspace_decides() {
    let of_workspace =
        |id: &str, check| Hook { denies_on_fail: true, is_of_workspace: true, ..hook(id, vec![check]) };
    let is = |text| check(Prepared::Local(Box::new(Is(text))));
    // The text is `t`, then the workspace's `a` is put behind it, then the config's `b`.
    let (passed, _) = run(&[
        of_workspace("judges", is("ta")),
        of_workspace("changes", remote(Add('a'))),
        hook("config", vec![remote(Add('b'))]),
    ])
    .await;
    let denied: Vec<_> = passed.results.iter().map(|result| (&*result.id, result.deny)).collect();
    assert_eq!(denied, [("judges", true), ("changes", false), ("config", false)]);
    let text = passed.changed.and_then(|changed| changed.text);
    assert_eq!(
        text.as_deref(),
        Some("taba"),
        "what the workspace changes is changed behind the config as well"
    );
    let (passed, _) =
        run(&[of_workspace("judges", is("ta")), of_workspace("changes", remote(Add('a')))]).await;
    assert!(!passed.denies(), "its own changes are no reason to judge again");
}

/// The workspace redacts: no hook of a config sees what it has redacted, whatever their order, and none hides a text from the workspace's.
#[tokio::test(start_paused = true)]
async fn hooks_of_a_config_see_what_those_of_the_workspace_left() {
    let is = |text| check(Prepared::Local(Box::new(Is(text))));
    let own = |id: &str, check| Hook { is_of_workspace: true, ..hook(id, vec![check]) };
    let call = |id: &str| Hook { denies_on_fail: false, ..hook(id, vec![remote(Slow(1, true))]) };
    let answer = |text: &str| {
        let source = format!(r#"{{"choices":[{{"message":{{"content":"{text}"}}}}]}}"#);
        Subject::of_request(Operation::ChatCompletions, "{}").with_response(&source)
    };
    for is_staged in [false, true] {
        let work = LargeWork::default();
        let run = runner(&work);
        let mut hooks = vec![
            own("own judge", is("ta")),
            own("own change", remote(Add('a'))),
            hook("judge", vec![is("ta")]),
        ];
        hooks.extend(is_staged.then(|| call("call")));
        let passed = run.hooks(hooks.iter(), &answer("t")).await;
        assert!(!passed.has_failed(), "{is_staged} {:?}", passed.results);
        assert_eq!(passed.results.len(), hooks.len());
        // The workspace's hook judges what was there before a change of the config's, and what is left.
        let config = Hook { denies_on_fail: false, ..hook("change", vec![is("tb"), remote(Add('b'))]) };
        let hooks = [own("own judge", is("t")), config, call("call")];
        let passed = run.hooks(hooks.iter(), &answer("t")).await;
        assert!(passed.denies(), "the change of the config is judged again: {:?}", passed.results);
    }
}

#[tokio::test]
async fn what_was_not_read_is_an_error_of_checks_that_read_texts() {
    let source =
        r#"{"messages":[{"content":[{"type":"text","text":"t"},{"type":"input_file","file_id":"f"}]}]}"#;
    let subject = Subject::of_request(Operation::ChatCompletions, source);
    let work = LargeWork::default();
    let run = Run { fail_on_error: true, ..runner(&work) };
    let is = || check(Prepared::Local(Box::new(Is("t"))));
    let passed = run.hooks([hook("a", vec![is(), textless(is())])].iter(), &subject).await;
    let checks = &passed.results[0].checks;
    assert_eq!(checks[0].error.as_ref().unwrap().name, "UnreadError");
    assert!(checks[1].error.is_none() && !passed.results[0].verdict);
}
