//! Credentials of image registries, sealed as they are.

use bytes::Bytes;
use jaco_state::registries::{RegistryLogin, SealedPassword};
use jaco_types::{RegistryName, Timestamp};

use super::convert::{Wire, required};
use super::error::Problem;
use super::wire;

impl Wire for SealedPassword {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        Ok(Self((&*bytes).into()))
    }
}

pub(super) fn from_login(name: &RegistryName, login: &RegistryLogin) -> wire::RegistryLogin {
    wire::RegistryLogin {
        registry: name.to_wire(),
        username: login.username.to_wire(),
        password: login.password.to_wire(),
        stored_at_ms: login.stored_at.0,
        by: Some(login.by.to_wire()),
    }
}

pub(super) fn to_login(
    message: wire::RegistryLogin,
) -> Result<(RegistryName, RegistryLogin), Problem> {
    let login = RegistryLogin {
        username: Wire::from_wire(message.username)?,
        password: Wire::from_wire(message.password)?,
        stored_at: Timestamp(message.stored_at_ms),
        by: required("author", message.by)?,
    };
    Ok((Wire::from_wire(message.registry)?, login))
}
