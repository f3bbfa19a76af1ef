//! Requests from outside, through the edges of three machines, while everything behind them changes and parts of it end;
//! and what else is promised in seconds, as nothing runs beside it here.

mod access;
mod application;
mod asked;
mod browser;
mod by_hand;
mod chaos;
mod ends;
mod growing_set;
mod grpc;
mod held;
mod history;
mod http;
mod load;
mod loss;
mod outside;
mod ports;
mod rate;
mod replacements;
mod restarts;
mod reuse;
mod rounds;
#[path = "../docker/scenario.rs"]
mod scenario;
mod soak;
mod stopping;
mod upgrade;
