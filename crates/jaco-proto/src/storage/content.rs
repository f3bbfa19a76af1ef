//! Contents of files, on their way and stored.

use bytes::Bytes;
use jaco_state::Content;
use jaco_state::contents::{
    ContentUsers, Form, FormerContent, Hold, NamedContent, Piece, PieceBytes,
};
use jaco_types::{ContentId, DeploymentName, NamedKey, NamedKind, Timestamp};

use super::convert::{Wire, ascending, optional, required, wire_enum};
use super::error::Problem;
use super::wire;

wire_enum!(NamedKind, "kind of a named content", [Config, Secret]);

impl Wire for NamedKey {
    type Message = wire::NamedKey;

    fn to_wire(&self) -> wire::NamedKey {
        wire::NamedKey { kind: self.kind.to_wire(), name: self.name.to_wire() }
    }

    fn from_wire(message: wire::NamedKey) -> Result<Self, Problem> {
        Ok(Self { kind: Wire::from_wire(message.kind)?, name: Wire::from_wire(message.name)? })
    }
}

impl Wire for ContentUsers {
    type Message = wire::ContentUsers;

    fn to_wire(&self) -> wire::ContentUsers {
        match self {
            Self::All => wire::ContentUsers { all: true, deployments: Vec::new() },
            Self::Listed(listed) => wire::ContentUsers {
                all: false,
                deployments: listed.iter().map(Wire::to_wire).collect(),
            },
        }
    }

    fn from_wire(message: wire::ContentUsers) -> Result<Self, Problem> {
        let names = message.deployments.into_iter();
        let names = names.map(|name| Ok((DeploymentName::from_wire(name)?, ())));
        let listed = ascending("users of a content", names)?;
        match message.all {
            true if listed.is_empty() => Ok(Self::All),
            true => Err(Problem::Misplaced("deployments")),
            false => Ok(Self::Listed(listed.into_keys().collect())),
        }
    }
}

impl Wire for Form {
    type Message = i32;

    fn to_wire(&self) -> i32 {
        let form = match self {
            Self::Plain => wire::ContentForm::Plain,
            Self::Sealed => wire::ContentForm::Sealed,
        };
        form.into()
    }

    fn from_wire(number: i32) -> Result<Self, Problem> {
        match wire::ContentForm::try_from(number) {
            Ok(wire::ContentForm::Plain) => Ok(Self::Plain),
            Ok(wire::ContentForm::Sealed) => Ok(Self::Sealed),
            Ok(wire::ContentForm::Unspecified) | Err(_) => {
                Err(Problem::UnknownValue { what: "form of content", number: number.into() })
            }
        }
    }
}

impl Wire for Piece {
    type Message = wire::Piece;

    fn to_wire(&self) -> wire::Piece {
        wire::Piece {
            id: self.id.to_wire(),
            form: self.form.to_wire(),
            content: Bytes::copy_from_slice(&self.bytes.0),
        }
    }

    fn from_wire(message: wire::Piece) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            form: Wire::from_wire(message.form)?,
            bytes: PieceBytes((&*message.content).into()),
        })
    }
}

pub(super) fn from_content(id: ContentId, content: &Content) -> wire::Content {
    wire::Content {
        id: id.to_wire(),
        form: content.form.to_wire(),
        content: Bytes::copy_from_slice(&content.bytes.0),
        staged_since_ms: match content.hold {
            Hold::Staged { since } => Some(since.0),
            Hold::Kept => None,
        },
    }
}

pub(super) fn to_content(message: wire::Content) -> Result<(ContentId, Content), Problem> {
    let content = Content {
        bytes: PieceBytes((&*message.content).into()),
        form: Wire::from_wire(message.form)?,
        hold: match message.staged_since_ms {
            Some(since) => Hold::Staged { since: Timestamp(since) },
            None => Hold::Kept,
        },
    };
    Ok((Wire::from_wire(message.id)?, content))
}

pub(super) fn from_named(key: &NamedKey, named: &NamedContent) -> wire::NamedContent {
    wire::NamedContent {
        key: Some(key.to_wire()),
        version: named.version,
        tree: named.tree.to_wire(),
        pieces: named.pieces.iter().map(Wire::to_wire).collect(),
        size: named.size,
        stored_at_ms: named.stored_at.0,
        users: match &named.users {
            ContentUsers::All => None,
            listed @ ContentUsers::Listed(_) => Some(listed.to_wire()),
        },
        expires_at_ms: named.expires_at.map(|at| at.0),
        former: named
            .former
            .iter()
            .map(|(version, former)| from_former(*version, former))
            .collect(),
    }
}

fn from_former(version: u64, former: &FormerContent) -> wire::FormerContent {
    let (tree, stored_at_ms) = (former.tree.to_wire(), former.stored_at.0);
    wire::FormerContent { version, tree, stored_at_ms }
}

fn to_former(message: wire::FormerContent) -> Result<(u64, FormerContent), Problem> {
    let (tree, stored_at) = (Wire::from_wire(message.tree)?, Timestamp(message.stored_at_ms));
    Ok((message.version, FormerContent { tree, stored_at }))
}

pub(super) fn to_named(message: wire::NamedContent) -> Result<(NamedKey, NamedContent), Problem> {
    let piece = |id| Ok((Wire::from_wire(id)?, ()));
    let pieces = ascending("pieces", message.pieces.into_iter().map(piece))?;
    let named = NamedContent {
        version: message.version,
        tree: Wire::from_wire(message.tree)?,
        pieces: pieces.into_keys().collect(),
        size: message.size,
        stored_at: Timestamp(message.stored_at_ms),
        users: optional(message.users)?.unwrap_or_default(),
        expires_at: message.expires_at_ms.map(Timestamp),
        former: ascending("former", message.former.into_iter().map(to_former))?,
    };
    Ok((required("key", message.key)?, named))
}
