//! Commands about contents of files, named configs and secrets, and registry credentials.

use jaco_state::command::{
    ContentPut, NamedContentPut, NamedContentRemove, RegistryRemove, RegistryStore,
};
use jaco_state::contents::{ContentTerms, Expiry};
use jaco_types::Timestamp;

use crate::storage::convert::{Wire, list, optional, required, to_list};
use crate::storage::error::Problem;
use crate::storage::wire;

impl Wire for ContentPut {
    type Message = wire::ContentPut;

    fn to_wire(&self) -> wire::ContentPut {
        let Self { pieces } = self;
        wire::ContentPut { pieces: to_list(pieces) }
    }

    fn from_wire(message: wire::ContentPut) -> Result<Self, Problem> {
        Ok(Self { pieces: list(message.pieces)? })
    }
}

impl Wire for NamedContentPut {
    type Message = wire::NamedContentPut;

    fn to_wire(&self) -> wire::NamedContentPut {
        let Self { key, tree, pieces, size, users, terms } = self;
        wire::NamedContentPut {
            key: Some(key.to_wire()),
            tree: tree.to_wire(),
            pieces: to_list(pieces),
            size: *size,
            users: users.as_ref().map(Wire::to_wire),
            terms: terms.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: wire::NamedContentPut) -> Result<Self, Problem> {
        Ok(Self {
            key: required("key", message.key)?,
            tree: Wire::from_wire(message.tree)?,
            pieces: list(message.pieces)?,
            size: message.size,
            users: optional(message.users)?,
            terms: optional(message.terms)?,
        })
    }
}

impl Wire for ContentTerms {
    type Message = wire::ContentTerms;

    fn to_wire(&self) -> wire::ContentTerms {
        let Self { based_on, expiry } = self;
        wire::ContentTerms { based_on: *based_on, expiry: expiry.as_ref().map(Wire::to_wire) }
    }

    fn from_wire(message: wire::ContentTerms) -> Result<Self, Problem> {
        Ok(Self { based_on: message.based_on, expiry: optional(message.expiry)? })
    }
}

impl Wire for Expiry {
    type Message = wire::ContentExpiry;

    fn to_wire(&self) -> wire::ContentExpiry {
        wire::ContentExpiry { at_ms: self.at().map(|at| at.0) }
    }

    fn from_wire(message: wire::ContentExpiry) -> Result<Self, Problem> {
        Ok(message.at_ms.map_or(Self::Never, |at| Self::At(Timestamp(at))))
    }
}

impl Wire for NamedContentRemove {
    type Message = wire::NamedContentRemove;

    fn to_wire(&self) -> wire::NamedContentRemove {
        let Self { key } = self;
        wire::NamedContentRemove { key: Some(key.to_wire()) }
    }

    fn from_wire(message: wire::NamedContentRemove) -> Result<Self, Problem> {
        Ok(Self { key: required("key", message.key)? })
    }
}

impl Wire for RegistryStore {
    type Message = wire::RegistryStore;

    fn to_wire(&self) -> wire::RegistryStore {
        let Self { registry, username, password } = self;
        wire::RegistryStore {
            registry: registry.to_wire(),
            username: username.to_wire(),
            password: password.to_wire(),
        }
    }

    fn from_wire(message: wire::RegistryStore) -> Result<Self, Problem> {
        Ok(Self {
            registry: Wire::from_wire(message.registry)?,
            username: Wire::from_wire(message.username)?,
            password: Wire::from_wire(message.password)?,
        })
    }
}

impl Wire for RegistryRemove {
    type Message = wire::RegistryRemove;

    fn to_wire(&self) -> wire::RegistryRemove {
        let Self { registry } = self;
        wire::RegistryRemove { registry: registry.to_wire() }
    }

    fn from_wire(message: wire::RegistryRemove) -> Result<Self, Problem> {
        Ok(Self { registry: Wire::from_wire(message.registry)? })
    }
}
