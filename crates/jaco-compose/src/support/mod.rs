//! How JACO treats every key of the compose specification, as data.
//!
//! One table serves four readers: the loader checks and normalises values by it, the audit warns
//! and refuses by it, `jaco compose support` and the documentation print it. A key that is not in
//! it is an unknown key; nothing is taken silently. The tables hold no code.

mod build;
mod common;
mod deploy;
mod file;
mod markdown;
mod mount;
mod part;
mod resource;
mod service;
pub(crate) mod shape;
mod value;

pub use file::TOP_LEVEL;
pub use markdown::{Rates, markdown};
pub use shape::{Class, Extensions, Inside, Key, Names, Object, Shape, Short, Unique};

/// Whether `object` is the logging section, whose options belong to one driver.
pub(crate) fn is_logging(object: &'static Object) -> bool {
    std::ptr::eq(object, &raw const part::LOGGING)
}

/// The shape of a compose file.
pub(crate) static FILE: Shape = Shape::Object(&TOP_LEVEL);

/// The shape of a service.
pub(crate) static SERVICE: Shape = Shape::Object(&service::SERVICE);

/// The entry of a service's key.
pub(crate) fn service_key(name: &str) -> Option<&'static Key> {
    service::SERVICE.key(name)
}

/// Whether `key` is the `build` of a service, which is reported per service.
pub(crate) fn is_build(key: &'static Key) -> bool {
    service_key("build").is_some_and(|build| std::ptr::eq(build, key))
}
