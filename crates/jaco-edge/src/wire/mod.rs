//! What is parsed by code of our own, out of bytes that anybody may send: pure functions without allocation
//! where there can be. They are public for the fuzz target; nobody else needs them.

pub mod host;
pub mod inspect;
pub mod path;
pub mod proxy;
pub mod screen;
pub mod websocket;
