//! Checks of partners, over HTTP: a row for each, of where it is sent, how it is authorized, what is sent and how the verdict is read.
//!
//! A row is a constant of the file of its partner, and a line in `guard::CHECKS`. How a call is made is in `call`; partners whose calls
//! differ make their own. Ids and parameters are Portkey's; requests and responses are those of the partners' public
//! documentation, whose address is the `source` of each row.

pub(in crate::guard) mod acuvity;
pub(in crate::guard) mod aidr;
pub(in crate::guard) mod azure;
pub(in crate::guard) mod bedrock;
mod call;
pub(in crate::guard) mod exa;
pub(in crate::guard) mod moderation;
pub(in crate::guard) mod pangea;
pub(in crate::guard) mod patronus;
pub(in crate::guard) mod qualifire;
pub(in crate::guard) mod scanners;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
