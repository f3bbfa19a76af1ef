//! The whole product on a real Docker Engine.
