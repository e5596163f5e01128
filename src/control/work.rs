//! The bounds of what calls of the control plane make the process work at: how many at a time, how many wait, for how long.
//!
//! A table with a row for each kind of work; a route names its kind. What reads the log store is bounded by the ledger itself
//! (`memory::ledger::questions`), which other rooms use as well.

use memory::net::inbound::places::{Place, PlaceBounds, Places};
use std::time::Duration;
use uuid::Uuid;
use words::error::Error;

/// What a route makes the process work at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing that takes a while.
    Little,
    /// Compiling what the client sent: configs, guardrails with patterns and schemas, templates, explanations. It may wait for the store.
    Compute,
    /// Rendering a prompt: nothing outside of the process is waited for.
    Render,
    /// A guardrail or a provider that is tried: other servers are called, which take their time.
    Trial,
}

/// So much at a time that others get a core, and so few waiting that none waits long.
const COMPUTE: PlaceBounds = PlaceBounds { running: 4, waiting: 32, wait: WAIT };
const RENDER: PlaceBounds = PlaceBounds { running: 4, waiting: 32, wait: WAIT };
const TRIAL: PlaceBounds = PlaceBounds { running: 8, waiting: 32, wait: WAIT };
const WAIT: Duration = Duration::from_secs(10);

/// The places of all kinds. None waits for another kind.
#[derive(Debug)]
pub struct WorkPlaces {
    compute: Places,
    render: Places,
    trial: Places,
}

impl Default for WorkPlaces {
    fn default() -> Self {
        Self { compute: Places::new(COMPUTE), render: Places::new(RENDER), trial: Places::new(TRIAL) }
    }
}

impl WorkPlaces {
    /// Waits for a place, where the work needs one. `whose`: the workspace of the client, or the organisation.
    ///
    /// # Errors
    /// 503 with `Retry-After`: there was none in time.
    pub(super) async fn place(&self, work: Work, whose: Option<Uuid>) -> Result<Option<Place>, Error> {
        let places = match work {
            Work::Little => return Ok(None),
            Work::Compute => &self.compute,
            Work::Render => &self.render,
            Work::Trial => &self.trial,
        };
        places.take(whose).await.map(Some).map_err(|_| {
            Error::store_unavailable(
                "The gateway works at as many such calls as it may, and as many wait. Try again in a moment.",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Body;
    use crate::routes::routes;
    use std::sync::Arc;

    /// What takes a text or a tree of the client's apart has a bound, and no kind waits for another.
    #[tokio::test]
    async fn kinds_have_places_of_their_own_and_beyond_them_is_a_503() {
        let work = Arc::new(WorkPlaces::default());
        let mut held = Vec::new();
        let whose = |number: usize| Some(Uuid::from_u128(number as u128 % 2));
        for number in 0..COMPUTE.running {
            held.push(work.place(Work::Compute, whose(number)).await.unwrap());
        }
        for number in 0..COMPUTE.waiting {
            let work = Arc::clone(&work);
            tokio::spawn(async move { work.place(Work::Compute, whose(number)).await.is_ok() });
        }
        while work.compute.waiting() < COMPUTE.waiting {
            tokio::task::yield_now().await;
        }
        let refusal = work.place(Work::Compute, None).await.unwrap_err();
        assert_eq!((refusal.status(), refusal.retry_after()), (503, Some(1)));
        for other in [Work::Render, Work::Trial, Work::Little] {
            assert!(work.place(other, None).await.is_ok(), "{other:?}");
        }
    }

    #[test]
    fn a_route_that_reads_a_body_by_itself_or_compiles_one_names_its_work() {
        let of =
            |path: &'static str| routes().filter(move |route| route.path == path && route.method != "GET");
        for path in ["/v1/explain", "/v1/prompts", "/v1/configs", "/v1/guardrails/{id}"] {
            assert!(of(path).any(|route| route.work == Work::Compute), "{path}");
        }
        assert!(of("/v1/prompts/{id}/render").all(|route| route.work == Work::Render));
        assert!(of("/v1/guardrails/{id}/test").all(|route| route.work == Work::Trial));
        let mut small = routes().filter(|route| matches!(route.body, Body::None));
        let works = [
            "/v1/settings",
            "/v1/api-keys/self/limits",
            "/v1/providers/{slug}/models",
            "/v1/export",
            "/v1/mcp-servers/{id}/tools",
        ];
        assert!(small.all(|route| (route.work == Work::Little) != works.contains(&route.path)));
    }
}
