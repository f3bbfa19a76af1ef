//! Routes and certificates.
//!
//! ```text
//! claim         who has which route: checked with a spec, written with the desired revision (NET-5)
//! certificate   certificates of users
//! begin         that all members understand both
//! ```

mod begin;
pub(in crate::apply) mod certificate;
pub(in crate::apply) mod claim;

pub(in crate::apply) use begin::begin;
