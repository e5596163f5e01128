//! Places are given one after the other, to nobody who has left, and to all who wait in time.

use super::*;
use futures_util::FutureExt;
use futures_util::task::noop_waker;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

const POLICY: SlotPolicy =
    SlotPolicy { max: MaxSlots::Fixed(1), queue: 2, wait: Duration::from_secs(60), overflow: None };

fn slots() -> Arc<Slots> {
    Arc::new(Slots::new("test", true))
}

fn who(priority: Priority) -> Applicant {
    Applicant { priority, workspace: Uuid::nil(), deadline: None, has_other: false }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&noop_waker()))
}

fn counts(slots: &Slots) -> (u32, usize) {
    let view = slots.view();
    (view.in_use, view.waiting)
}

#[tokio::test(start_paused = true)]
async fn a_free_place_goes_to_the_next_one_and_a_full_queue_refuses() {
    let slots = slots();
    let first = slots.try_enter(POLICY).unwrap();
    assert!(slots.try_enter(POLICY).is_none());
    let mut low = pin!(slots.enter(POLICY, who(Priority::Low)));
    let mut high = pin!(slots.enter(POLICY, who(Priority::High)));
    assert!(poll(low.as_mut()).is_pending() && poll(high.as_mut()).is_pending());
    let full = slots.enter(POLICY, who(Priority::Low)).now_or_never();
    assert_eq!(full.unwrap().unwrap_err(), NoSlot::Full);
    drop(first);
    assert!(slots.try_enter(POLICY).is_none(), "it is given away");
    let Poll::Ready(Ok(second)) = poll(high.as_mut()) else { panic!("the highest priority is next") };
    assert!(poll(low.as_mut()).is_pending());
    drop(second);
    let Poll::Ready(Ok(third)) = poll(low.as_mut()) else { panic!("the other one is next") };
    assert_eq!(counts(&slots), (1, 0));
    drop(third);
    assert_eq!(counts(&slots), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pause_gives_no_place_before_its_end_and_then_to_those_who_wait() {
    let two = SlotPolicy { max: MaxSlots::Fixed(2), ..POLICY };
    let slots = slots();
    let first = slots.try_enter(two).unwrap();
    let end = now() + Duration::from_secs(30);
    first.pause(end);
    assert!(slots.try_enter(two).is_none(), "there is a place, and a pause");
    let full = slots.enter(SlotPolicy { queue: 0, ..two }, who(Priority::Low)).now_or_never();
    assert_eq!(full.unwrap().unwrap_err(), NoSlot::Full);
    let hasty = Applicant { deadline: Some(now()), ..who(Priority::Low) };
    assert_eq!(slots.enter(two, hasty).await.unwrap_err(), NoSlot::Late);
    let waits = slots.enter(two, who(Priority::Low));
    let (entered, ()) = futures_util::future::join(waits, async { drop(first) }).await;
    assert!(now() >= end);
    assert_eq!(counts(&slots), (1, 0));
    drop(entered.unwrap());
    // One that begins while somebody waits is heard of.
    let one = slots.try_enter(POLICY).unwrap();
    let mut waits = pin!(slots.enter(POLICY, who(Priority::Low)));
    assert!(poll(waits.as_mut()).is_pending());
    let end = now() + Duration::from_secs(30);
    slots.pause(end);
    drop(one);
    assert!(poll(waits.as_mut()).is_pending(), "the place is free, and there is a pause");
    drop(waits.await.unwrap());
    assert!(now() >= end && counts(&slots) == (0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_takes_no_place_along() {
    let slots = slots();
    let first = slots.try_enter(POLICY).unwrap();
    let mut gone = Box::pin(slots.enter(POLICY, who(Priority::High)));
    let mut stays = pin!(slots.enter(POLICY, who(Priority::Low)));
    assert!(poll(gone.as_mut()).is_pending() && poll(stays.as_mut()).is_pending());
    // It has the place already when it leaves.
    drop(first);
    drop(gone);
    let Poll::Ready(Ok(second)) = poll(stays.as_mut()) else { panic!("it goes to the next one") };
    let mut gone = Box::pin(slots.enter(POLICY, who(Priority::High)));
    assert!(poll(gone.as_mut()).is_pending());
    assert_eq!(counts(&slots), (1, 1));
    drop(gone);
    assert_eq!(counts(&slots), (1, 0));
    drop(second);
    assert_eq!(counts(&slots), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_no_longer_than_the_policy_or_its_own_deadline() {
    let slots = slots();
    let held = slots.try_enter(POLICY).unwrap();
    let started = tokio::time::Instant::now();
    let deadline = Some(Instant::now() + Duration::from_secs(1));
    let hasty = Applicant { deadline, ..who(Priority::Normal) };
    assert_eq!(slots.enter(POLICY, hasty).await.unwrap_err(), NoSlot::Late);
    let spent = started.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_secs(2)).contains(&spent), "{spent:?}");
    let patient = slots.enter(POLICY, who(Priority::Normal));
    assert_eq!(patient.await.unwrap_err(), NoSlot::Late);
    assert!(started.elapsed() >= Duration::from_secs(59));
    assert_eq!(counts(&slots), (1, 0));
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn more_places_go_to_those_who_wait_and_fewer_are_not_taken_from_anybody() {
    let slots = slots();
    let wide = SlotPolicy { max: MaxSlots::Fixed(3), ..POLICY };
    let held: Vec<Slot> = (0..3).filter_map(|_| slots.try_enter(wide)).collect();
    assert_eq!(held.len(), 3);
    // One place is left of three: those who have one keep it.
    assert!(slots.try_enter(POLICY).is_none());
    let mut waiting = pin!(slots.enter(POLICY, who(Priority::Normal)));
    assert!(poll(waiting.as_mut()).is_pending());
    let mut held = held.into_iter();
    drop((held.next(), held.next()));
    assert!(poll(waiting.as_mut()).is_pending());
    let wider = SlotPolicy { max: MaxSlots::Fixed(2), ..POLICY };
    assert!(slots.try_enter(wider).is_none(), "who waits is first");
    let Poll::Ready(Ok(entered)) = poll(waiting.as_mut()) else { panic!("there is a place more") };
    assert_eq!(counts(&slots), (2, 0));
    drop((entered, held));
    assert_eq!(counts(&slots), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_higher_priority_takes_the_place_of_one_who_waits() {
    let slots = slots();
    let first = slots.try_enter(POLICY).unwrap();
    let mut one = pin!(slots.enter(POLICY, who(Priority::Low)));
    let mut other = pin!(slots.enter(POLICY, who(Priority::Low)));
    assert!(poll(one.as_mut()).is_pending() && poll(other.as_mut()).is_pending());
    let mut high = pin!(slots.enter(POLICY, who(Priority::High)));
    assert!(poll(high.as_mut()).is_pending());
    let Poll::Ready(Err(NoSlot::Full)) = poll(other.as_mut()) else { panic!("the last one is displaced") };
    drop(first);
    let Poll::Ready(Ok(second)) = poll(high.as_mut()) else { panic!("it is next") };
    drop(second);
    assert!(poll(one.as_mut()).is_ready());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_load_no_place_is_lost_and_no_more_are_in_use_than_there_are() {
    let slots = slots();
    let policy = SlotPolicy { max: MaxSlots::Fixed(3), queue: 10_000, ..POLICY };
    let all = (0..2_000).map(|number| {
        let slots = Arc::clone(&slots);
        tokio::spawn(async move {
            let priority = [Priority::Low, Priority::Normal, Priority::High][number % 3];
            let workspace = Uuid::from_u128(number as u128 % 5);
            let entering = slots.enter(policy, Applicant { priority, workspace, ..who(priority) });
            // Every seventh leaves while it waits, at about the time when it may be given a place.
            if number % 7 == 0 {
                let _ = tokio::time::timeout(Duration::from_micros(number as u64), entering).await;
                return;
            }
            let slot = entering.await.unwrap();
            assert!(counts(&slots).0 <= 3);
            tokio::task::yield_now().await;
            drop(slot);
        })
    });
    for task in all.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(counts(&slots), (0, 0));
}

#[test]
fn unused_places_are_forgotten_and_those_in_use_are_found_again() {
    let registry = SlotRegistry::default();
    let owner = |source: u64| SlotOwner::Target {
        workspace: Uuid::nil(),
        config: "c".into(),
        index: "config".into(),
        source,
    };
    let held = registry.find_or_insert(&owner(0), "p");
    let slot = held.try_enter(POLICY).unwrap();
    drop(held);
    for number in 1..=MAX_GROUPS as u64 {
        registry.find_or_insert(&owner(number), "p");
    }
    assert!(registry.list().len() < MAX_GROUPS);
    assert!(registry.find_or_insert(&owner(0), "p").try_enter(POLICY).is_none());
    drop(slot);
}

#[tokio::test(start_paused = true)]
async fn who_has_another_target_does_not_wait_where_it_is_expected_to_take_too_long() {
    let policy = SlotPolicy { queue: 100, overflow: Some(Duration::from_secs(8)), ..POLICY };
    let other = Applicant { has_other: true, ..who(Priority::Normal) };
    let slots = slots();
    // Nothing is known of the first ones.
    let mut first = slots.try_enter(policy).unwrap();
    let mut second = Box::pin(slots.enter(policy, other));
    assert!(poll(second.as_mut()).is_pending());
    tokio::time::advance(Duration::from_secs(5)).await;
    first.note_content(false);
    drop(first);
    let Poll::Ready(Ok(held)) = poll(second.as_mut()) else { panic!("it is the next one") };
    // Places are held for five seconds.
    let mut third = Box::pin(slots.enter(policy, other));
    assert!(poll(third.as_mut()).is_pending());
    assert_eq!(slots.view().expected_wait, Duration::from_secs(10));
    assert_eq!(slots.enter(policy, other).now_or_never().unwrap().unwrap_err(), NoSlot::TooLong);
    let mut alone = Box::pin(slots.enter(policy, who(Priority::Normal)));
    assert!(poll(alone.as_mut()).is_pending(), "it has no other target");
    drop((alone, third));
    // Five seconds are more than half of the bound, and the last one was sent on.
    assert_eq!(slots.enter(policy, other).now_or_never().unwrap().unwrap_err(), NoSlot::TooLong);
    drop(held);
    // A place was free: the bound counts anew.
    let held = slots.try_enter(policy).unwrap();
    assert!(poll(pin!(slots.enter(policy, other))).is_pending());
    drop(held);
    assert_eq!(counts(&slots), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn learned_places_grow_while_responses_begin_soon_and_shrink_with_overload() {
    let policy = SlotPolicy { max: MaxSlots::Learned, queue: 1_000, ..POLICY };
    let slots = slots();
    for _ in 0..40 {
        let mut held: Vec<Slot> = std::iter::from_fn(|| slots.try_enter(policy)).collect();
        tokio::time::advance(Duration::from_millis(100)).await;
        held.iter_mut().for_each(|slot| slot.note_content(true));
    }
    let grown = slots.view().max;
    assert!(grown > 8, "{grown}");
    let held = slots.try_enter(policy).unwrap();
    held.note_overload();
    assert!(slots.view().max < grown);
    // With a fixed number nothing is learned.
    drop(held);
    let held = slots.try_enter(POLICY).unwrap();
    held.note_overload();
    assert_eq!(slots.view().max, 1);
}
