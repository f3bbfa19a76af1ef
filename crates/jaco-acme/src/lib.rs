//! Certificates of routes from an ACME authority, such as Let's Encrypt.
//!
//! What to do is decided by [`plan()`], a pure function of what the cluster has recorded; [`CertificateController`]
//! does it on the leader, and records what came of it on a [`Board`]. Whoever leads next goes on from the records
//! alone. Must never tell an authority that a challenge can be answered before the board has it, and never print a key.

mod account;
mod alpn;
mod attempt;
mod authority;
mod controller;
mod failure;
mod order;
mod plan;
mod problem;
mod records;
mod window;
mod wire;

pub use alpn::{ChallengeCertificate, challenge_certificate};
pub use attempt::{BACKOFF_FIRST, BACKOFF_MAX};
pub use authority::{Authority, Terms, TrustedRoots};
pub use controller::CertificateController;
pub use plan::{
    Asking, ORDERS_AT_ONCE, ORDERS_MAX, ORDERS_PERIOD, OrderStep, Plan, Situation, Step, plan,
};
pub use problem::Problem;
pub use records::{
    AccountRecord, Board, Challenge, NewCertificate, Note, NoteError, REASON_CHARS_MAX, Records,
};
