//! The command line from outside: help, rendering, and commands against a scripted daemon.

mod applying;
mod asking;
mod developing;
mod errors;
mod progress;
mod reference;
mod session;
