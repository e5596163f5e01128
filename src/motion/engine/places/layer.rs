//! The layer of places: an attempt at a target with `concurrency` takes a place there before it is sent.
//!
//! A layer does not watch the client, so it does not wait: where no place is free, `waiting` does, and the attempt is started again.

use super::{Owner, PlaceWait, Places};
use crate::engine::Engine;
use crate::engine::attempt::call::{AttemptCall, Step};
use crate::engine::attempt::{Flow, Layer};
use crate::engine::limit_holds::only_reads;
use crate::engine::request_context::RequestContext;
use crate::engine::usage_estimate::manages;
use futures_util::future::BoxFuture;
use http::Method;
use judgment::route::deadlines::Deadlines;
use judgment::route::place_owners::place_owners;
use judgment::route::target::Target;
use memory::state::slots::{Applicant, Slot};
use std::sync::{Arc, OnceLock};
use words::api::operation::Billing;
use words::config::policies::{Concurrency, Priority};

struct PlacesLayer {
    /// Found at the first attempt.
    owners: OnceLock<Arc<[Owner]>>,
}

pub(in crate::engine) fn compile(target: &Target) -> Option<Box<dyn Layer>> {
    let Concurrency { of_target, of_provider } = target.policies.concurrency;
    of_target.or(of_provider).map(|_| Box::new(PlacesLayer { owners: OnceLock::new() }) as Box<dyn Layer>)
}

impl Layer for PlacesLayer {
    fn name(&self) -> &'static str {
        "places"
    }

    fn needs(&self) -> Step {
        Step::Made
    }

    /// What reads, counts, ends something, or is responded to by the gateway calls no model. What the gateway sends for a request, such as the
    /// question to a judge, would wait for the place that its request has.
    fn applies(&self, call: &AttemptCall<'_>) -> bool {
        let request = call.request();
        let operation = request.operation;
        let is_tool = operation.billing() == Billing::Calls;
        let calls_model =
            request.method == Method::POST && !only_reads(request) && !manages(operation) && !is_tool;
        calls_model && call.calls_target() && call.ctx.limits.behalf.is_none()
    }

    fn open<'a>(&'a self, call: &'a mut AttemptCall<'_>) -> BoxFuture<'a, Flow> {
        Box::pin(async move {
            let target = &call.next.target;
            let kept = call.kept.places.take().filter(|places| Arc::ptr_eq(&places.target, target));
            let owners = self.owners.get_or_init(|| owners(call.engine, call.ctx, target));
            let places = match kept {
                Some(places) => places,
                None => {
                    let slots = owners.iter().map_while(|owner| owner.slots.try_enter(owner.policy));
                    let slots: Vec<Slot> = slots.collect();
                    if slots.len() < owners.len() {
                        return Flow::Queue(Box::new(place_wait(call.ctx, target, Arc::clone(owners))));
                    }
                    Places::new(target, slots, call.incoming.streamed)
                }
            };
            call.parts.places = Some(places);
            Flow::Continue
        })
    }
}

fn owners(engine: &Engine, ctx: &RequestContext, target: &Target) -> Arc<[Owner]> {
    let provider = target.slug.as_deref().unwrap_or(target.id.provider);
    let find = |(owner, policy)| {
        let slots = engine.shared.slots.find_or_insert(&owner, provider);
        Owner { slots, policy }
    };
    place_owners(target, ctx.workspace()).map(find).collect()
}

fn place_wait(ctx: &RequestContext, target: &Arc<Target>, owners: Arc<[Owner]>) -> PlaceWait {
    let of_key = ctx.record.client.as_ref().and_then(|client| client.defaults.priority);
    let who = Applicant {
        priority: Priority::effective(target.policies.priority, target.id.is_inline(), of_key),
        workspace: ctx.workspace().unwrap_or_default(),
        deadline: Deadlines::total(target, ctx.span.started),
        has_other: false,
    };
    PlaceWait { target: Arc::clone(target), owners, who }
}
