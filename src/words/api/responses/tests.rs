//! Tests of the whole dialect: parsing requests, encoding responses, and a grammar that any sequence of
//! events must satisfy.

mod grammar;
mod reading;
mod recorded;
mod writing;
