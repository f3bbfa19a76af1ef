//! The packages as their users meet them: built twice, installed in a fresh Debian under systemd, replaced and removed;
//! read by man and by three shells.

mod built;
mod files;
mod life;
mod machine;
mod pages;
mod shells;
