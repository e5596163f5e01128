//! Whose line is next: all batches of the process share its lines in flight, fairly between workspaces.
//!
//! A workspace waits once, however many batches it has; among its own batches the first to wait is the first to go. No workspace
//! holds all lines: a provider that hangs would keep those of the others from theirs.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// The right to have one line in flight, until it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not read")]
pub struct LineTurn {
    line: OwnedSemaphorePermit,
    share: OwnedSemaphorePermit,
}

/// What the batches of one workspace have in common.
#[derive(Debug)]
struct Share {
    /// They wait in line for it before they wait for a line.
    first: Semaphore,
    /// The lines that the workspace may have in flight.
    lines: Arc<Semaphore>,
}

/// The lines in flight of this process.
#[derive(Debug)]
pub struct Turns {
    lines: Arc<Semaphore>,
    /// The most of them that one workspace may have: one in eight is left for the others.
    most: usize,
    workspaces: Mutex<HashMap<Option<Uuid>, Weak<Share>>>,
}

/// A batch's place in its workspace.
#[derive(Debug, Clone)]
pub struct Place {
    turns: Arc<Turns>,
    workspace: Arc<Share>,
}

impl Turns {
    /// `lines`: in flight at most.
    pub fn new(lines: usize) -> Arc<Self> {
        let lines = lines.max(1);
        let most = lines.saturating_sub(lines.div_ceil(8)).max(1);
        Arc::new(Self { lines: Arc::new(Semaphore::new(lines)), most, workspaces: Mutex::default() })
    }

    /// A place for a batch of this workspace.
    pub fn place(self: &Arc<Self>, workspace: Option<Uuid>) -> Place {
        let mut workspaces = self.workspaces.lock();
        workspaces.retain(|_, one| one.strong_count() > 0);
        let found = workspaces.get(&workspace).and_then(Weak::upgrade);
        let own = found.unwrap_or_else(|| {
            Arc::new(Share { first: Semaphore::new(1), lines: Arc::new(Semaphore::new(self.most)) })
        });
        workspaces.insert(workspace, Arc::downgrade(&own));
        Place { turns: Arc::clone(self), workspace: own }
    }
}

impl Place {
    /// Waits for the next line. `None`: the process stops.
    pub async fn turn(&self) -> Option<LineTurn> {
        let _first_in_workspace = self.workspace.first.acquire().await.ok()?;
        let share = Arc::clone(&self.workspace.lines).acquire_owned().await.ok()?;
        let line = Arc::clone(&self.turns.lines).acquire_owned().await.ok()?;
        Some(LineTurn { line, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn no_workspace_has_all_lines() {
        let turns = Turns::new(16);
        let greedy = turns.place(Some(Uuid::from_u128(1)));
        let other = turns.place(Some(Uuid::from_u128(2)));
        let mut held: Vec<LineTurn> =
            (0..14).map(|_| greedy.turn().now_or_never().flatten().unwrap()).collect();
        assert!(greedy.turn().now_or_never().is_none());
        assert!(other.turn().now_or_never().flatten().is_some());
        held.pop();
        assert!(greedy.turn().now_or_never().flatten().is_some());
    }

    #[test]
    fn workspaces_take_turns_whatever_number_of_batches_they_have() {
        let turns = Turns::new(1);
        let many = Some(Uuid::from_u128(1));
        let one = Some(Uuid::from_u128(2));
        let held = turns.place(one).turn().now_or_never().unwrap();
        let places: Vec<Place> = (0..5).map(|_| turns.place(many)).chain([turns.place(one)]).collect();
        let mut waiting: Vec<_> = places.iter().map(|place| Box::pin(place.turn())).collect();
        for turn in &mut waiting {
            assert!(turn.now_or_never().is_none());
        }
        drop(held);
        // First a batch of the workspace with many, then the only one of the other, though four wait before it.
        let order: Vec<usize> = (0..2)
            .map(|_| {
                let next = waiting.iter_mut().position(|turn| turn.now_or_never().flatten().is_some());
                let next = next.unwrap();
                drop(waiting.remove(next));
                next
            })
            .collect();
        assert_eq!(order, [0, 4]);
    }
}
