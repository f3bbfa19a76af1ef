//! The data path of the edge: HTTP, TLS, TCP and UDP from outside, to ready instances of services.
//!
//! It decides nothing about the cluster. It is handed a plan, which is plain data
//! ([`EdgePlan`](jaco_dataplane::edge::EdgePlan)), certificates, and sockets that are bound already; it says back which
//! plan is in use and which instances that leave it still has to finish with ([`EdgeStatus`]). It binds no port, reads
//! no file and asks for no privilege.
//! `examples/serve.rs` serves with it.
//!
//! The rooms, from the pure to the loops: `wire` parses what comes from outside; `table` finds routes and `balance`
//! chooses instances; `state` goes from one plan to the next; `instance` keeps the promise of the acknowledgement;
//! `upstream` has the connections to instances; `http`, `handshake` and `l4` serve clients; `edge` is the handle;
//! `service` is that handle for another process.

mod auth;
mod awaited;
mod backend;
mod balance;
mod body;
mod caps;
mod change;
mod counters;
mod deadline;
mod difference;
mod edge;
mod explain;
mod handshake;
mod http;
mod instance;
mod l4;
mod listener;
mod options;
mod patience;
mod presence;
mod refusal;
mod rewound;
pub mod service;
mod shared;
mod sockets;
mod state;
mod table;
mod tls;
mod traces;
mod upstream;
mod view;
pub mod wire;

pub use change::EdgeChange;
pub use counters::{LATENCY_BOUNDS_MICROS, RouteCounts};
pub use edge::{Drained, Edge, EdgeStatus, Succession};
pub use explain::{Connection, Explained, ExplainedInstance};
pub use options::{AccessLog, Limits, Options};
pub use refusal::{Refusal, refusal_table};
pub use sockets::Socket;
pub use tls::{CertificatePem, Certificates};
pub use traces::{RequestSpan, Traces};
