//! The command line from outside: help, output, and commands against a scripted daemon.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod apply;
mod backup;
mod backup_encrypted;
mod backup_folder;
mod backup_schedule;
mod compose;
mod compose_import;
mod contents;
mod drain;
mod edit;
mod encrypted_files;
mod errors;
mod fixture;
mod help;
mod image;
mod local;
mod networks;
mod node_facts;
mod notify;
mod plan;
mod progress;
mod queries;
mod rebalance;
mod registry;
mod restore_check;
mod routes;
mod status_at;
mod terminal;
mod traffic;
mod upload;
mod wait;
