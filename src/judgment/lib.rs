//! Decisions: [`guard`] says whether a request or response may pass, [`route`] which target is tried next.
//!
//! Nothing is sent from here: the engine does what a decision says.

pub mod guard;

pub mod route;
