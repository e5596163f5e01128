//! How many attempts a target takes at a time, learned from how long they wait for their first content (`concurrency.max: auto`).
//!
//! A model server that has more to do than fits lets requests wait within, and the time to the first token grows. Where the median of a
//! window is more than twice what it is when little is to do, there are fewer places; where it is not, and all were taken, there are
//! more. The step is that of gradient limits (<https://github.com/Netflix/concurrency-limits>), over medians, since prompts differ in length.
//! What it is when little is to do is measured anew now and then, with half of the places. Where as many responses come in a second with
//! half, the others only waited: they go, whatever the times say.
//! Pure: times are passed in. Not here: who gets a place (`slots`).

use std::time::{Duration, Instant};

/// The places that there are at first, which double with each window until one is slow.
const FIRST: f64 = 2.0;
/// The most that are learned.
const MOST: f64 = 1_000.0;
/// A median of so many times the baseline says nothing.
const TOLERANCE: f64 = 2.0;
/// How much of a step is made at once.
const SMOOTHING: f64 = 0.5;
/// The number of times in a window: as many as there are places, within these.
const WINDOW: (f64, f64) = (4.0, 64.0);
/// After so many windows one is measured with half of the places.
const WINDOWS_BETWEEN_PROBES: u32 = 50;
/// After so many where the last probe found a baseline that differs by more than [`SETTLED`]: half of the places were still too many, or
/// the target is another.
const WINDOWS_TO_NEXT_PROBE: u32 = 5;
const SETTLED: f64 = 1.25;
/// With half of the places a target that has room for all of them gives half of the responses in a second. From this share on, the other
/// half only waited.
const AS_MANY: f64 = 0.8;
/// What is left of the places then.
const AFTER_WAITING: f64 = 0.6;
/// What is left of the places after a response that says that they are too many.
const AFTER_OVERLOAD: f64 = 0.7;
/// Responses of that kind count once in this time: they come together.
const OVERLOAD_INTERVAL: Duration = Duration::from_secs(1);

/// What was learned of one target.
#[derive(Debug)]
pub(super) struct Learner {
    limit: f64,
    /// Streams wait for a token, other responses for all of it: they are not compared with each other.
    streamed: Series,
    whole: Series,
    /// All places were taken at some time since the last step.
    was_full: bool,
    /// No window was slow yet.
    is_starting: bool,
    phase: Phase,
    last_overload: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// So many windows, then a probe.
    Steps(u32),
    /// With half of the places. So many responses are still those of attempts that began before.
    Probe { earlier: u32 },
}

/// The times of one kind of response.
#[derive(Debug, Default)]
struct Series {
    /// Seconds, of the window.
    window: Vec<f32>,
    /// When the window began.
    since: Option<Instant>,
    /// The median when little is to do, seconds.
    baseline: Option<f64>,
    /// Responses in a second, of the last window with all places.
    rate: Option<f64>,
}

/// What a window has shown.
struct WindowEnd {
    /// Seconds.
    median: f64,
    /// Responses in a second; `None`: it had no length.
    rate: Option<f64>,
}

impl Default for Learner {
    fn default() -> Self {
        Self {
            limit: FIRST,
            streamed: Series::default(),
            whole: Series::default(),
            was_full: false,
            is_starting: true,
            phase: Phase::Steps(WINDOWS_TO_NEXT_PROBE),
            last_overload: None,
        }
    }
}

impl Learner {
    /// How many places there are; at least 1.
    pub fn places(&self) -> u32 {
        let share = if let Phase::Probe { .. } = self.phase { 0.5 } else { 1.0 };
        // Between 1 and `MOST`.
        (self.limit * share).max(1.0) as u32
    }

    /// All places are taken.
    pub fn note_full(&mut self) {
        self.was_full = true;
    }

    /// The first content of a response came after `spent`.
    pub fn note_content(&mut self, is_streamed: bool, spent: Duration, now: Instant) {
        if let Phase::Probe { earlier } = &mut self.phase
            && *earlier > 0
        {
            *earlier -= 1;
            self.series(is_streamed).since = Some(now);
            return;
        }
        let length = f64::from(self.places()).clamp(WINDOW.0, WINDOW.1) as usize;
        let series = self.series(is_streamed);
        series.since.get_or_insert(now);
        series.window.push(spent.as_secs_f32());
        if series.window.len() < length {
            return;
        }
        let end = series.end_window(now);
        let is_full = std::mem::take(&mut self.was_full);
        match self.phase {
            Phase::Probe { .. } => self.end_probe(is_streamed, &end, is_full),
            Phase::Steps(left) => {
                self.series(is_streamed).rate = end.rate.filter(|_| is_full);
                self.step(is_streamed, end.median, is_full);
                match left.checked_sub(1) {
                    Some(left) => self.phase = Phase::Steps(left),
                    // Where some are free, what is measured is no other with fewer.
                    None if !is_full => {}
                    None => self.start(Phase::Probe { earlier: self.places() }),
                }
            }
        }
    }

    fn step(&mut self, is_streamed: bool, median: f64, is_full: bool) {
        let series = self.series(is_streamed);
        let baseline = series.baseline.map_or(median, |before| median.min(before));
        series.baseline = Some(baseline);
        let gradient = (TOLERANCE * baseline / median.max(f64::EPSILON)).clamp(0.5, 1.0);
        self.is_starting &= gradient >= 1.0;
        let wanted = match gradient {
            gradient if gradient < 1.0 => self.limit * gradient + self.limit.sqrt() - 1.0,
            _ if !is_full => return,
            _ if self.is_starting => self.limit * 3.0,
            _ => self.limit + self.limit.sqrt(),
        };
        self.limit = (self.limit + (wanted - self.limit) * SMOOTHING).clamp(1.0, MOST);
    }

    /// `is_full`: the places of the probe were all taken.
    fn end_probe(&mut self, is_streamed: bool, end: &WindowEnd, is_full: bool) {
        // One place has no half.
        let is_halved = self.limit >= 2.0;
        let series = self.series(is_streamed);
        let before = series.baseline.unwrap_or(end.median);
        let is_as_quick = end.rate.zip(series.rate).is_some_and(|(half, all)| half >= all * AS_MANY);
        let only_waited = is_full && is_halved && is_as_quick;
        // With half of them there is still too much to do: that is no baseline.
        series.baseline = Some(if only_waited { before.min(end.median) } else { end.median });
        // What was measured of the other kind may be as old.
        self.series(!is_streamed).baseline = None;
        if only_waited {
            self.limit = (self.limit * AFTER_WAITING).max(1.0);
            self.is_starting = false;
        }
        let is_settled = end.median <= before * SETTLED && before <= end.median * SETTLED;
        let next = if only_waited {
            // Half of what is left may still be too many.
            1
        } else if is_settled {
            WINDOWS_BETWEEN_PROBES
        } else {
            WINDOWS_TO_NEXT_PROBE
        };
        self.start(Phase::Steps(next));
    }

    fn start(&mut self, phase: Phase) {
        self.phase = phase;
        self.was_full = false;
        self.streamed.clear();
        self.whole.clear();
    }

    /// An attempt ended after `spent` without content, for whatever reason. Where others had some long before, this is a slow one.
    pub fn note_unanswered(&mut self, is_streamed: bool, spent: Duration, now: Instant) {
        let baseline = self.series(is_streamed).baseline;
        let is_slow = baseline.is_some_and(|baseline| spent.as_secs_f64() > TOLERANCE * baseline);
        // A probe measures what is usual.
        if is_slow && matches!(self.phase, Phase::Steps(_)) {
            self.note_content(is_streamed, spent, now);
        }
    }

    /// The target has said that it has too much to do.
    pub fn note_overload(&mut self, now: Instant) {
        if self.last_overload.is_some_and(|last| now < last + OVERLOAD_INTERVAL) {
            return;
        }
        self.last_overload = Some(now);
        self.limit = (f64::from(self.places()) * AFTER_OVERLOAD).max(1.0);
        self.is_starting = false;
        self.start(Phase::Steps(WINDOWS_BETWEEN_PROBES));
    }

    fn series(&mut self, is_streamed: bool) -> &mut Series {
        if is_streamed { &mut self.streamed } else { &mut self.whole }
    }
}

impl Series {
    fn clear(&mut self) {
        self.window.clear();
        self.since = None;
    }

    /// What the window has shown. The next one begins.
    fn end_window(&mut self, now: Instant) -> WindowEnd {
        let count = self.window.len();
        let (_, median, _) = self.window.select_nth_unstable_by(count / 2, f32::total_cmp);
        let median = f64::from(*median);
        let length = self.since.map(|since| now.saturating_duration_since(since).as_secs_f64());
        self.window.clear();
        self.since = Some(now);
        WindowEnd { median, rate: length.filter(|length| *length > 0.0).map(|length| count as f64 / length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// An engine that answers `room` requests at a time, each for a second, and the first token of each after `unloaded`: what is
    /// more waits within. `is_streamed`: what is measured is the first token, else the whole response.
    struct Engine {
        learner: Learner,
        now: Instant,
        is_streamed: bool,
    }

    impl Engine {
        fn new(is_streamed: bool) -> Self {
            Self { learner: Learner::default(), now: Instant::now(), is_streamed }
        }

        /// The mean of the places at each of `rounds` responses, if as many as there are places are always under way.
        fn learned(&mut self, room: f64, unloaded: f64, rounds: usize) -> f64 {
            let mut sum = 0.0;
            for number in 0..rounds {
                self.learner.note_full();
                let places = f64::from(self.learner.places());
                let waits = (places - room).max(0.0) / room;
                // Every tenth prompt is ten times as long.
                let own = if number % 10 == 0 { unloaded * 10.0 } else { unloaded };
                let answered = if self.is_streamed { own } else { 1.0 };
                self.now += Duration::from_secs_f64(1.0 / places.min(room));
                self.learner.note_content(
                    self.is_streamed,
                    Duration::from_secs_f64(answered + waits),
                    self.now,
                );
                sum += places;
            }
            sum / rounds as f64
        }
    }

    #[test]
    fn as_many_places_are_learned_as_an_engine_has_room_for() {
        for is_streamed in [true, false] {
            for (room, unloaded) in [(1.0, 0.1), (4.0, 0.1), (16.0, 0.1), (64.0, 0.05), (200.0, 0.2)] {
                let mut engine = Engine::new(is_streamed);
                for rounds in [20_000, 50_000] {
                    let places = engine.learned(room, unloaded, rounds);
                    let most = if is_streamed { 1.5 } else { 2.4 };
                    assert!(
                        (room * 0.8..=room * most + 2.0).contains(&places),
                        "{places} places, room for {room}, {is_streamed}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_engine_that_becomes_smaller_or_larger_is_followed() {
        let mut engine = Engine::new(true);
        engine.learned(64.0, 0.1, 20_000);
        let small = engine.learned(8.0, 0.1, 3_000);
        engine.learned(64.0, 0.1, 3_000);
        let large = engine.learned(64.0, 0.1, 3_000);
        assert!(small < 24.0 && large > 48.0, "{small} {large}");
        // Prompts that take four times as long to be read, at an engine as large as before.
        engine.learned(64.0, 0.4, 10_000);
        let long = engine.learned(64.0, 0.4, 5_000);
        assert!(long > 48.0, "{long}");
    }

    #[test]
    fn places_without_need_do_not_become_more() {
        let mut learner = Learner::default();
        let now = Instant::now();
        (0..1_000).for_each(|_| learner.note_content(false, Duration::from_millis(100), now));
        assert_eq!(learner.places(), FIRST as u32);
    }

    #[test]
    fn an_overload_takes_places_away_once_a_second() {
        let mut learner = Learner { limit: 10.0, ..Learner::default() };
        let now = Instant::now();
        learner.note_overload(now);
        learner.note_overload(now + SECOND / 2);
        assert_eq!(learner.places(), 7);
        learner.note_overload(now + SECOND);
        assert_eq!(learner.places(), 4);
        (2..60).for_each(|seconds| learner.note_overload(now + SECOND * seconds));
        assert_eq!(learner.places(), 1);
    }

    #[test]
    fn attempts_that_never_get_a_byte_count_as_slow_and_short_ones_do_not() {
        let mut engine = Engine::new(true);
        engine.learned(1_000.0, 0.1, 30);
        let Engine { mut learner, now, .. } = engine;
        let before = learner.places();
        (0..1_000).for_each(|_| learner.note_unanswered(true, Duration::from_millis(10), now));
        assert_eq!(learner.places(), before);
        (0..150).for_each(|_| learner.note_unanswered(true, SECOND * 60, now));
        assert!(learner.places() < before);
    }

    proptest! {
        /// Whatever is noted, there is a place, and not more than the most.
        #[test]
        fn there_is_always_a_place(times in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..100_000), 0..500)) {
            let mut learner = Learner::default();
            let start = Instant::now();
            for (is_streamed, is_overload, ms) in times {
                learner.note_full();
                if is_overload {
                    learner.note_overload(start + Duration::from_millis(ms));
                } else {
                    learner.note_content(is_streamed, Duration::from_millis(ms), start + Duration::from_millis(ms));
                }
                prop_assert!((1..=MOST as u32).contains(&learner.places()));
            }
        }
    }
}
