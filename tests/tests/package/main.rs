//! The packages as their users meet them: built twice, installed in a fresh Debian under systemd, replaced and removed;
//! three of them made a cluster as the guide says; read by man and by three shells.

mod built;
mod clients;
mod control_groups;
mod debian;
mod files;
mod getting_started;
mod guide;
mod image;
mod life;
mod machine;
mod pages;
mod place;
mod scratch;
mod shells;
