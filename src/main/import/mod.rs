//! `turnpike import`: files of other gateways become settings, with a report that has a line for each key of them.
//!
//! Pure but for `command`, which reads files and prints, `store_writer`, which calls a running gateway, and the databases of products,
//! which are read. A product has a room (or a file) with its table of keys and its `import`; all write into [`import::Import`]: the
//! settings so far (`moved`), the objects of the store (`objects`), and what became of each key (`report`). What nothing was found out of
//! is reported as not taken, by a walk over the input. `product` lists the products.

pub mod arguments;
mod bifrost;
mod blank_account;
mod cloudflare;
mod command;
mod config_parts;
mod cursor;
#[expect(clippy::module_inception, reason = "it is what an import is")]
mod import;
mod key_table;
mod kong;
mod litellm;
mod moved;
mod objects;
mod openrouter;
mod portkey;
mod product;
mod report;
mod store_writer;
mod stored_objects;
#[cfg(test)]
mod tests;
pub mod tree;
mod value;
mod vendors;
pub mod yaml;

pub use command::run;
