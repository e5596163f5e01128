//! Who waits for a place, and who is next.
//!
//! The highest priority first; among equals workspaces take turns, and of one workspace the earliest deadline is first. Pure: it neither
//! waits nor wakes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;
use uuid::Uuid;
use words::config::policies::Priority;

/// Where one stands, to be taken out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub priority: Priority,
    pub workspace: Uuid,
    pub deadline: Instant,
    number: u64,
}

/// Those who wait.
#[derive(Debug)]
pub(super) struct Queue<T> {
    levels: [Level<T>; 3],
    next_number: u64,
}

/// Those of one priority. A workspace stands in `turns` exactly as long as it has an entry in `waiting`, which may be empty.
#[derive(Debug)]
struct Level<T> {
    waiting: HashMap<Uuid, BTreeMap<(Instant, u64), T>>,
    turns: VecDeque<Uuid>,
    len: usize,
}

impl<T> Default for Level<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { levels: Default::default(), next_number: 0 }
    }
}

impl<T> Queue<T> {
    pub fn len(&self) -> usize {
        self.levels.iter().map(|level| level.len).sum()
    }

    /// How many would be served before one of this priority that comes now, if no workspace has a turn before another.
    pub fn ahead(&self, priority: Priority) -> usize {
        self.levels.iter().skip(place(priority)).map(|level| level.len).sum()
    }

    /// Adds one at the end of those of its deadline.
    pub fn push(&mut self, priority: Priority, workspace: Uuid, deadline: Instant, value: T) -> Ticket {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let level = self.level(priority);
        let of_workspace = level.waiting.entry(workspace);
        if let std::collections::hash_map::Entry::Vacant(_) = &of_workspace {
            level.turns.push_back(workspace);
        }
        of_workspace.or_default().insert((deadline, number), value);
        level.len += 1;
        Ticket { priority, workspace, deadline, number }
    }

    /// Takes out the next one.
    pub fn pop(&mut self) -> Option<T> {
        self.levels.iter_mut().rev().find_map(Level::pop)
    }

    /// Takes out one in whose place another may wait: the last of the lowest priority below this one, else the last of the workspace with
    /// the most who wait, where that has more than this one would have. `None`: there is none.
    pub fn displace(&mut self, priority: Priority, workspace: Uuid) -> Option<T> {
        match self.levels.iter_mut().take(place(priority)).find(|level| level.len > 0) {
            Some(level) => level.pop_last(0),
            None => {
                let level = self.level(priority);
                let own = level.waiting.get(&workspace).map_or(0, BTreeMap::len);
                level.pop_last(own + 1)
            }
        }
    }

    /// Takes out the one with this ticket; whether it was still there.
    pub fn remove(&mut self, ticket: &Ticket) -> bool {
        let level = self.level(ticket.priority);
        let of_workspace = level.waiting.get_mut(&ticket.workspace);
        let removed = of_workspace.and_then(|waiting| waiting.remove(&(ticket.deadline, ticket.number)));
        level.len -= usize::from(removed.is_some());
        removed.is_some()
    }

    fn level(&mut self, priority: Priority) -> &mut Level<T> {
        let [low, normal, high] = &mut self.levels;
        match priority {
            Priority::Low => low,
            Priority::Normal => normal,
            Priority::High => high,
        }
    }
}

/// The place of a priority among the levels.
const fn place(priority: Priority) -> usize {
    match priority {
        Priority::Low => 0,
        Priority::Normal => 1,
        Priority::High => 2,
    }
}

impl<T> Level<T> {
    /// Of the workspace with the most who wait, if they are more than `least`: the one with the latest deadline.
    fn pop_last(&mut self, least: usize) -> Option<T> {
        let most = self.waiting.values_mut().max_by_key(|waiting| waiting.len())?;
        if most.len() <= least {
            return None;
        }
        let last = most.pop_last().map(|(_, value)| value);
        self.len -= usize::from(last.is_some());
        last
    }

    fn pop(&mut self) -> Option<T> {
        loop {
            let workspace = self.turns.pop_front()?;
            let waiting = self.waiting.get_mut(&workspace);
            if let Some((_, value)) = waiting.and_then(BTreeMap::pop_first) {
                self.turns.push_back(workspace);
                self.len -= 1;
                return Some(value);
            }
            self.waiting.remove(&workspace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn workspace(number: u8) -> Uuid {
        Uuid::from_u128(number.into())
    }

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn priority_comes_before_turns_and_turns_before_deadlines() {
        let start = Instant::now();
        let mut queue = Queue::default();
        queue.push(Priority::Normal, workspace(1), after(start, 1), "a1");
        queue.push(Priority::Normal, workspace(1), after(start, 9), "a9");
        queue.push(Priority::Normal, workspace(1), after(start, 5), "a5");
        queue.push(Priority::Normal, workspace(2), after(start, 8), "b8");
        queue.push(Priority::Low, workspace(3), after(start, 0), "c0");
        queue.push(Priority::High, workspace(1), after(start, 99), "a99");
        let ahead = [Priority::High, Priority::Normal, Priority::Low].map(|priority| queue.ahead(priority));
        assert_eq!(ahead, [1, 5, 6]);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["a99", "a1", "b8", "a5", "a9", "c0"]);
        assert_eq!(queue.len(), 0);
        assert!(queue.levels.iter().all(|level| level.waiting.is_empty() && level.turns.is_empty()));
    }

    #[test]
    fn a_full_queue_makes_room_for_a_higher_priority_and_for_a_workspace_with_fewer() {
        let start = Instant::now();
        let mut queue = Queue::default();
        assert_eq!(queue.displace(Priority::High, workspace(1)), None);
        for number in 0..3 {
            queue.push(Priority::Normal, workspace(1), after(start, number), number);
        }
        assert_eq!(queue.displace(Priority::Low, workspace(2)), None, "nobody goes for a lower one");
        assert_eq!(queue.displace(Priority::Normal, workspace(1)), None, "nor for one of the same");
        assert_eq!(queue.displace(Priority::Normal, workspace(2)), Some(2));
        queue.push(Priority::Normal, workspace(2), after(start, 9), 9);
        assert_eq!(queue.displace(Priority::Normal, workspace(2)), None, "both would have two");
        assert_eq!(queue.displace(Priority::High, workspace(1)), Some(1));
        queue.push(Priority::Low, workspace(3), after(start, 0), 7);
        assert_eq!(queue.displace(Priority::Normal, workspace(1)), Some(7));
        assert_eq!((queue.len(), queue.pop(), queue.pop(), queue.pop()), (2, Some(0), Some(9), None));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8, u8, u64),
        Pop,
        Remove(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0_u8..3, 0_u8..4, 0_u64..20).prop_map(|(level, of, at)| Step::Push(level, of, at)),
            2 => Just(Step::Pop),
            1 => (0_usize..64).prop_map(Step::Remove),
        ]
    }

    proptest! {
        /// Whatever comes and goes: nobody is lost or served twice, no lower priority goes first, and no workspace is served twice while
        /// another of the same priority waits that was there all the time.
        #[test]
        fn the_order_is_exact(steps in prop::collection::vec(step(), 0..200)) {
            let start = Instant::now();
            let mut queue = Queue::default();
            let mut waiting: Vec<(Ticket, u64)> = Vec::new();
            let mut served: HashMap<(Priority, Uuid), Vec<Uuid>> = HashMap::new();
            let mut next = 0_u64;
            for step in steps {
                match step {
                    Step::Push(level, of, at) => {
                        let priority = [Priority::Low, Priority::Normal, Priority::High][usize::from(level)];
                        let ticket = queue.push(priority, workspace(of), after(start, at), next);
                        if !waiting.iter().any(|(other, _)| (other.priority, other.workspace) == (priority, ticket.workspace)) {
                            served.insert((priority, ticket.workspace), Vec::new());
                        }
                        waiting.push((ticket, next));
                        next += 1;
                    }
                    Step::Remove(at) if at < waiting.len() => {
                        let (ticket, _) = waiting.swap_remove(at);
                        prop_assert!(queue.remove(&ticket));
                        prop_assert!(!queue.remove(&ticket));
                    }
                    Step::Remove(_) => {}
                    Step::Pop => {
                        let Some(value) = queue.pop() else {
                            prop_assert!(waiting.is_empty());
                            continue;
                        };
                        let at = waiting.iter().position(|(_, other)| *other == value).unwrap();
                        let (ticket, _) = waiting.swap_remove(at);
                        let rest = |other: &&(Ticket, u64)| other.0.priority >= ticket.priority;
                        for (other, number) in waiting.iter().filter(rest) {
                            prop_assert_eq!(other.priority, ticket.priority);
                            if other.workspace == ticket.workspace {
                                prop_assert!((other.deadline, *number) > (ticket.deadline, value));
                            } else {
                                let since = served.get_mut(&(other.priority, other.workspace)).unwrap();
                                prop_assert!(since.iter().filter(|of| **of == ticket.workspace).count() <= 1);
                            }
                        }
                        let others: Vec<(Priority, Uuid)> = waiting.iter().map(|(other, _)| (other.priority, other.workspace)).collect();
                        for key in others {
                            let since = served.get_mut(&key).unwrap();
                            if key.1 != ticket.workspace && !since.contains(&ticket.workspace) && key.0 == ticket.priority {
                                since.push(ticket.workspace);
                            }
                        }
                        served.insert((ticket.priority, ticket.workspace), Vec::new());
                    }
                }
                prop_assert_eq!(queue.len(), waiting.len());
            }
        }
    }
}
