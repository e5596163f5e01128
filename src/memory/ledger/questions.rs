//! The bounds of questions to the log store: how many of each kind run at a time, how many wait, and for how long.
//!
//! Kinds have places of their own, so that sums over months keep no list and no feedback waiting, and each workspace has half of them at
//! most. A place is free again when the
//! database is done, not when its client has given up. Not here: how long a question may run (`Ledger::run`), what it may hold
//! (`analytics::budget`).

use super::log_store::LogError;
use crate::net::inbound::places::{Place, PlaceBounds, Places};
use std::time::Duration;
use uuid::Uuid;

/// What is asked of the log store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Groups, graphs, percentiles: many rows are read, and sums are held.
    Sums,
    /// Lists, and single rows with their bodies.
    Rows,
    /// A page of an export. Exports have places of their own ([`super::Ledger::start_export`]).
    Export,
    /// Feedback that is written.
    Feedback,
    /// What the gateway does by itself, which is bounded where it begins: upkeep, and the feedback of its guardrails.
    Upkeep,
}

/// A question, and who asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedQuestion {
    pub question: Question,
    /// The workspace that shares the places with others; `None`: the organisation, or the gateway itself.
    pub whose: Option<Uuid>,
}

impl Question {
    pub const fn of(self, whose: Option<Uuid>) -> OwnedQuestion {
        OwnedQuestion { question: self, whose }
    }
}

impl From<Question> for OwnedQuestion {
    fn from(question: Question) -> Self {
        question.of(None)
    }
}

/// A row of the table of bounds.
struct Row {
    question: Question,
    name: &'static str,
    waiting: usize,
}

/// The table of bounds. What is not in it is bounded elsewhere.
const TABLE: [Row; 3] = [
    Row { question: Question::Sums, name: "sums", waiting: 16 },
    Row { question: Question::Rows, name: "rows", waiting: 64 },
    Row { question: Question::Feedback, name: "feedback", waiting: 64 },
];

/// So many of each kind at a time.
const RUNNING: usize = 4;
/// How long one waits for its place.
const WAIT: Duration = Duration::from_secs(10);

/// How many of a kind there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionCounts {
    pub kind: &'static str,
    pub running: usize,
    pub waiting: usize,
    /// Since the start.
    pub refused: usize,
}

/// The places of all kinds.
#[derive(Debug)]
pub(super) struct Questions(Vec<KindPlaces>);

#[derive(Debug)]
struct KindPlaces {
    question: Question,
    name: &'static str,
    places: Places,
}

impl Default for Questions {
    fn default() -> Self {
        let of = |Row { question, name, waiting }| {
            let places = Places::new(PlaceBounds { running: RUNNING, waiting, wait: WAIT });
            KindPlaces { question, name, places }
        };
        Self(TABLE.into_iter().map(of).collect())
    }
}

impl Questions {
    /// Waits for a place.
    ///
    /// # Errors
    /// `Busy`: there was none in time.
    pub async fn place(&self, owned: OwnedQuestion) -> Result<Option<Place>, LogError> {
        match self.0.iter().find(|kind| kind.question == owned.question) {
            Some(kind) => kind.places.take(owned.whose).await.map(Some).map_err(|_| LogError::Busy),
            None => Ok(None),
        }
    }

    pub fn counts(&self) -> Vec<QuestionCounts> {
        let of = |KindPlaces { name, places, .. }: &KindPlaces| QuestionCounts {
            kind: name,
            running: places.running(),
            waiting: places.waiting(),
            refused: places.refused(),
        };
        self.0.iter().map(of).collect()
    }
}
