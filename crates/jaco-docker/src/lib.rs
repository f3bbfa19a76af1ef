//! Docker as container engine, through its API on the local socket.
//!
//! [`spec::body`] converts specs and is pure; [`DockerEngine`] sends requests. Every object it
//! creates has the owner's labels, and it touches nothing else.

mod archive;
mod auth;
mod beside;
mod connect;
mod convert;
mod engine;
mod error;
mod exec;
mod image;
mod load;
mod logs;
mod names;
mod network;
mod own_container;
mod pre_stop;
mod pull;
pub mod spec;
mod tar_header;
mod volume;
mod volume_access;
mod volume_class;
mod volume_content;
mod volume_folder;

pub use engine::{DockerEngine, DockerOptions};
pub use volume_class::VolumeFolders;
