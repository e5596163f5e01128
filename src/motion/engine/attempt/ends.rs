//! What layers do when an attempt has ended.

use judgment::route::outcome::Outcome;

/// How an attempt ended, for its layers.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    Outcome(Outcome),
    /// It was dropped: the client has left, another attempt was quicker, or the process stops.
    Dropped,
}

/// What layers do when an attempt ends. Each is called exactly once, also where the attempt is dropped.
#[derive(Default)]
pub struct Ends(Vec<Box<dyn FnOnce(Ending) + Send + Sync>>);

impl Ends {
    pub fn add(&mut self, end: Box<dyn FnOnce(Ending) + Send + Sync>) {
        self.0.push(end);
    }

    /// The attempt has ended.
    pub fn end(&mut self, outcome: Outcome) {
        self.call(Ending::Outcome(outcome));
    }

    fn call(&mut self, ending: Ending) {
        self.0.drain(..).for_each(|end| end(ending));
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.call(Ending::Dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[test]
    fn each_end_is_called_exactly_once_also_where_the_attempt_is_dropped() {
        let endings = Arc::new(Mutex::new(Vec::new()));
        let ends = || {
            let mut ends = Ends::default();
            let endings = Arc::clone(&endings);
            ends.add(Box::new(move |ending| endings.lock().push(ending)));
            ends
        };
        drop(ends());
        assert!(matches!(*std::mem::take(&mut *endings.lock()), [Ending::Dropped]));
        let mut ended = ends();
        ended.end(Outcome::Interrupted);
        ended.end(Outcome::Failed);
        drop(ended);
        assert!(matches!(*std::mem::take(&mut *endings.lock()), [Ending::Outcome(Outcome::Interrupted)]));
    }
}
