//! The whole product on a real Docker Engine: three daemons that share it, each touching only what
//! is its own.

mod adoption;
mod lifecycle;
mod minority;
mod pulling;
mod registry;
mod scenario;
