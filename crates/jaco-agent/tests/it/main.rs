//! The agent's laws, its decisions on a fake host, and its loop.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod core;
mod files;
mod law;
mod measure;
mod names;
mod service;
mod suite;
