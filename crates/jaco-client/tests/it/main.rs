//! The client against a scripted daemon, over real sockets.

mod calls;
mod over_tls;
