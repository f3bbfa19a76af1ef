//! The page of a node as HTML: pure functions from messages of the cluster to documents, and the assets beside them.
//!
//! Complete without a script; the script only fetches the page again when something has changed. Texts are escaped by the
//! one place that writes them ([`html`]). Must never decide who may see something, ask for anything, or show what the
//! messages do not have.

mod act;
pub mod action;
pub mod assets;
mod audit;
mod badge;
mod cells;
mod deployment;
mod difference;
mod endpoints;
pub mod headers;
mod html;
pub mod link;
mod login;
mod logs;
mod network;
mod node;
mod node_then;
mod offered;
mod overview;
mod plan;
mod problem;
mod shell;
mod whatif;
mod when;
mod why;

pub use act::{ActionPage, BASED_ON, Once, Outcome, REQUEST_ID, TYPED};
pub use action::Action;
pub use audit::AuditPage;
pub use deployment::DeploymentPage;
pub use difference::DifferencePage;
pub use html::escape;
pub use jaco_sentences::plan::bound_by_data;
pub use login::{Login, Offer, SignedOut};
pub use logs::{LogsPage, Named, line_text};
pub use network::NetworkPage;
pub use node::NodePage;
pub use node_then::NodeThenPage;
pub use overview::OverviewPage;
pub use problem::{Part, ProblemPage, Refused};
pub use shell::{Frame, SignedIn};
pub use whatif::{Supposed, WhatifPage};
pub use when::Around;
pub use why::{Question, WhyPage};
