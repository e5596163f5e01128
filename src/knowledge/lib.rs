//! What the gateway knows: vendors, prices and templates, as data and pure functions.
//!
//! - [`provider`]: what each vendor wants. It describes and never opens a socket: even a token exchange is a value that somebody
//!   else carries out.
//! - [`price`]: what calls cost.
//! - [`prompt`]: templates of requests.
//!
//! Each room uses only those listed before it, and the crate `words`.

pub mod provider;

pub mod price;

pub mod prompt;
