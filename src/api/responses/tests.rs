//! The dialect as a whole: requests read, answers written, and any course of events held against a grammar.

mod grammar;
mod reading;
mod recorded;
mod writing;
