//! HTTP: from a connection to requests, and from a request to the instance that answers it.

mod connection;
mod forward;
mod headers;
mod log;
mod screened;
mod serve;
mod service;
mod span;
mod stream;
mod tunnel;

pub(crate) use connection::Connection;
pub(crate) use serve::serve;
