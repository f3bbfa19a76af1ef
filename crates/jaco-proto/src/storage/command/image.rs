//! Commands about images that users push.

use jaco_state::command::{ImagePush, ImageRemove, ImageTagSet, ImagesHeld, InUse};
use jaco_types::{Millis, NodeId};

use crate::storage::convert::{Wire, list, to_list};
use crate::storage::error::Problem;
use crate::storage::wire;

impl Wire for InUse {
    type Message = i32;

    fn to_wire(&self) -> i32 {
        match self {
            Self::Refuse => wire::ImageInUse::Refuse.into(),
            Self::Remove => wire::ImageInUse::Remove.into(),
        }
    }

    fn from_wire(number: i32) -> Result<Self, Problem> {
        match wire::ImageInUse::try_from(number) {
            Ok(wire::ImageInUse::Refuse) => Ok(Self::Refuse),
            Ok(wire::ImageInUse::Remove) => Ok(Self::Remove),
            Ok(wire::ImageInUse::Unspecified) | Err(_) => {
                let (what, number) = ("treatment of an image in use", number.into());
                Err(Problem::UnknownValue { what, number })
            }
        }
    }
}

impl Wire for ImagePush {
    type Message = wire::ImagePush;

    fn to_wire(&self) -> wire::ImagePush {
        let Self { id, config_bytes, layers, copies, keep_unused, taken_by } = self;
        wire::ImagePush {
            id: id.to_wire(),
            config_bytes: *config_bytes,
            layers: to_list(layers),
            copies: *copies,
            keep_unused_ms: keep_unused.0,
            taken_by: taken_by.map(|node| node.0),
        }
    }

    fn from_wire(message: wire::ImagePush) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            config_bytes: message.config_bytes,
            layers: list(message.layers)?.into(),
            copies: message.copies,
            keep_unused: Millis(message.keep_unused_ms),
            taken_by: message.taken_by.map(NodeId),
        })
    }
}

impl Wire for ImageTagSet {
    type Message = wire::ImageTagSet;

    fn to_wire(&self) -> wire::ImageTagSet {
        let Self { name, id } = self;
        wire::ImageTagSet { name: name.to_wire(), id: id.to_wire() }
    }

    fn from_wire(message: wire::ImageTagSet) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)?, id: Wire::from_wire(message.id)? })
    }
}

impl Wire for ImageRemove {
    type Message = wire::ImageRemove;

    fn to_wire(&self) -> wire::ImageRemove {
        let Self { name, in_use } = self;
        wire::ImageRemove { name: name.to_wire(), in_use: in_use.to_wire() }
    }

    fn from_wire(message: wire::ImageRemove) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)?, in_use: Wire::from_wire(message.in_use)? })
    }
}

impl Wire for ImagesHeld {
    type Message = wire::ImagesHeld;

    fn to_wire(&self) -> wire::ImagesHeld {
        let Self { node, images } = self;
        wire::ImagesHeld { node: node.0, images: images.to_wire() }
    }

    fn from_wire(message: wire::ImagesHeld) -> Result<Self, Problem> {
        Ok(Self { node: NodeId(message.node), images: Wire::from_wire(message.images)? })
    }
}
