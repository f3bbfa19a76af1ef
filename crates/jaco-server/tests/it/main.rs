//! A member with real consensus: how it serves rpcs, recovers, and archives audit events.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archive;
mod decoders;
mod forms;
mod json;
mod node;
mod past;
mod raw;
mod recovery;
mod roles;
mod rpcs;
mod served;
mod torture;
mod ui;
mod ui_actions;
mod ui_links;
mod ui_reading;
mod unread;
