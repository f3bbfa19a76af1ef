//! The gRPC edge of a node: authenticates requests, decides whether they may become commands, and answers
//! from the replicated state.
//!
//! One TLS port serves peers and operators, one unix socket serves local users. The rules of the state are
//! checked again by `apply`.

mod admission;
mod admit;
mod answers;
mod audit;
mod auth;
pub mod backups;
mod consumer;
mod edge;
pub mod endpoints;
mod feeds;
mod forward;
mod freshness;
mod gate;
mod gateway;
mod images;
mod log_tail;
mod member;
pub mod metrics;
pub mod notify;
mod opened;
mod openmetrics;
mod past;
mod peers;
mod preview;
mod pulls;
mod raft;
mod recovery;
mod router;
mod sealer;
pub mod serve;
mod service;
pub mod status;
mod traced;
mod ui;
mod unread;
mod unwanted;
mod view;

pub use audit::{archive, writer::Archived};
pub use auth::cluster_key::ClusterKey;
pub use auth::reseal::resealed;
pub use auth::sign_in_links::SignInLinks;
pub use auth::{permission, refusals, uses};
pub use consumer::{ConsumerSession, Delivery};
pub use edge::EdgeProbe;
pub use feeds::Feeds;
pub use gate::{Gate, GateOptions, Turn};
pub use images::ImageStore;
pub use log_tail::LogTail;
pub use member::{Lifecycle, Member, Stage};
pub use openmetrics::reference as metrics_reference;
pub use past::{Past, Source as PastSource, Then};
pub use peers::Peers;
pub use pulls::message as pull_message;
pub use raft::transport;
pub use raft::{ClusterMachine, RaftStore};
pub use recovery::Recovery;
pub use router::RouterProbe;
pub use sealer::Sealer;
pub use service::cluster::networks::{asked_pool, pool_info};
pub use service::query::backup::parts as backup_parts;
pub use unread::UnreadLimits;
