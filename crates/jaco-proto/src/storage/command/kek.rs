//! Commands about the rotation of the key-encryption key.

use jaco_state::command::{KekAbandon, KekAdvance, KekReport, KekReseal, KekRotate, Resealed};
use jaco_state::edge::SealedKey;
use jaco_state::envelope::Place;
use jaco_types::{NodeId, StateIndex};

use crate::storage::convert::{Wire, list, optional, required, to_list};
use crate::storage::error::Problem;
use crate::storage::wire::{self, sealed_place};

impl Wire for KekRotate {
    type Message = wire::KekRotate;

    fn to_wire(&self) -> wire::KekRotate {
        let Self { replaces, new, holder, naming_key } = self;
        wire::KekRotate {
            replaces: replaces.to_wire(),
            new: new.to_wire(),
            holder: holder.0,
            naming_key: naming_key.as_ref().map(SealedKey::to_wire),
        }
    }

    fn from_wire(message: wire::KekRotate) -> Result<Self, Problem> {
        Ok(Self {
            replaces: Wire::from_wire(message.replaces)?,
            new: Wire::from_wire(message.new)?,
            holder: NodeId(message.holder),
            naming_key: optional(message.naming_key)?,
        })
    }
}

impl Wire for KekReport {
    type Message = wire::KekReport;

    fn to_wire(&self) -> wire::KekReport {
        let Self { rotation, node, step } = self;
        wire::KekReport { rotation: rotation.0, node: node.0, step: step.to_wire() }
    }

    fn from_wire(message: wire::KekReport) -> Result<Self, Problem> {
        Ok(Self {
            rotation: StateIndex(message.rotation),
            node: NodeId(message.node),
            step: Wire::from_wire(message.step)?,
        })
    }
}

impl Wire for KekAdvance {
    type Message = wire::KekAdvance;

    fn to_wire(&self) -> wire::KekAdvance {
        let Self { rotation, leaves } = self;
        wire::KekAdvance { rotation: rotation.0, leaves: leaves.to_wire() }
    }

    fn from_wire(message: wire::KekAdvance) -> Result<Self, Problem> {
        let leaves = Wire::from_wire(message.leaves)?;
        Ok(Self { rotation: StateIndex(message.rotation), leaves })
    }
}

impl Wire for KekReseal {
    type Message = wire::KekReseal;

    fn to_wire(&self) -> wire::KekReseal {
        let Self { rotation, envelopes } = self;
        wire::KekReseal { rotation: rotation.0, envelopes: to_list(envelopes) }
    }

    fn from_wire(message: wire::KekReseal) -> Result<Self, Problem> {
        Ok(Self { rotation: StateIndex(message.rotation), envelopes: list(message.envelopes)? })
    }
}

impl Wire for Resealed {
    type Message = wire::Resealed;

    fn to_wire(&self) -> wire::Resealed {
        let Self { place, replaces, envelope } = self;
        wire::Resealed {
            place: Some(place.to_wire()),
            replaces: replaces.to_wire(),
            envelope: envelope.to_vec().into(),
        }
    }

    fn from_wire(message: wire::Resealed) -> Result<Self, Problem> {
        Ok(Self {
            place: required("place of an envelope", message.place)?,
            replaces: Wire::from_wire(message.replaces)?,
            envelope: (*message.envelope).into(),
        })
    }
}

impl Wire for Place {
    type Message = wire::SealedPlace;

    fn to_wire(&self) -> wire::SealedPlace {
        use sealed_place::Place as Kind;
        let only = wire::Nothing {};
        let place = match self {
            Self::NamingKey => Kind::NamingKey(only),
            Self::AuthorityKey => Kind::AuthorityKey(only),
            Self::Content(id) => Kind::Content(id.to_wire()),
            Self::Registry(name) => Kind::Registry(name.to_wire()),
            Self::Certificate(name) => Kind::Certificate(name.to_wire()),
            Self::AcmeAccount => Kind::AcmeAccount(only),
            Self::Issued(domain) => Kind::Issued(domain.to_wire()),
            Self::NotifyTarget(name) => Kind::NotifyTarget(name.to_wire()),
            Self::BackupSchedule(name) => Kind::BackupSchedule(name.to_wire()),
        };
        wire::SealedPlace { place: Some(place) }
    }

    fn from_wire(message: wire::SealedPlace) -> Result<Self, Problem> {
        use sealed_place::Place as Kind;
        Ok(match message.place.ok_or(Problem::Missing("kind of place"))? {
            Kind::NamingKey(wire::Nothing {}) => Self::NamingKey,
            Kind::AuthorityKey(wire::Nothing {}) => Self::AuthorityKey,
            Kind::Content(id) => Self::Content(Wire::from_wire(id)?),
            Kind::Registry(name) => Self::Registry(Wire::from_wire(name)?),
            Kind::Certificate(name) => Self::Certificate(Wire::from_wire(name)?),
            Kind::AcmeAccount(wire::Nothing {}) => Self::AcmeAccount,
            Kind::Issued(domain) => Self::Issued(Wire::from_wire(domain)?),
            Kind::NotifyTarget(name) => Self::NotifyTarget(Wire::from_wire(name)?),
            Kind::BackupSchedule(name) => Self::BackupSchedule(Wire::from_wire(name)?),
        })
    }
}

impl Wire for KekAbandon {
    type Message = wire::KekAbandon;

    fn to_wire(&self) -> wire::KekAbandon {
        wire::KekAbandon { rotation: self.rotation.0 }
    }

    fn from_wire(message: wire::KekAbandon) -> Result<Self, Problem> {
        Ok(Self { rotation: StateIndex(message.rotation) })
    }
}
