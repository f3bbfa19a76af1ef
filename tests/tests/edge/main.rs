//! Requests from outside, through the edges of three machines, while everything behind them changes and parts of it end.

mod held;
mod http;
mod load;
mod loss;
mod outside;
mod replacements;
mod restarts;
mod stopping;
