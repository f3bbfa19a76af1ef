//! Between domain types and messages: the one trait, and the conversions that all subjects share.
//! A conversion must lose nothing in either direction.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use jaco_types::route::RouteDomain;
use jaco_types::{
    BackupScheduleName, CertificateName, ClusterId, ConsumerName, ContentId, ContentName,
    DeploymentName, Hostname, ImageDigest, ImageTag, InstanceId, NetworkName, NotifyTargetName,
    RegistryName, RegistryUsername, ReplicaId, RequestId, ServiceKey, ServiceName, SpecHash,
    StateIndex, TokenId, VolumeClass,
};
use prost::Message;

use super::error::Problem;
use super::wire;

/// A domain type that has a form on the wire.
pub(super) trait Wire: Sized {
    /// Its form there.
    type Message;

    fn to_wire(&self) -> Self::Message;

    fn from_wire(message: Self::Message) -> Result<Self, Problem>;
}

/// Reads a message that must mean something to the last byte.
///
/// A decoder of protobuf skips what it does not know. Here that would be a command, a field or a row
/// of a newer program silently left out, so what was read must be as long as what was there.
pub(super) fn whole<M: Message + Default>(bytes: &[u8]) -> Result<M, Problem> {
    let message = M::decode(bytes)?;
    match bytes.len().abs_diff(message.encoded_len()) {
        0 => Ok(message),
        unread => Err(Problem::Unread { unread }),
    }
}

/// An address as its 4 or 16 bytes.
pub(super) fn ip_to_wire(address: IpAddr) -> Bytes {
    match address {
        IpAddr::V4(address) => Bytes::copy_from_slice(&address.octets()),
        IpAddr::V6(address) => Bytes::copy_from_slice(&address.octets()),
    }
}

pub(super) fn ip_from_wire(bytes: &[u8]) -> Result<IpAddr, Problem> {
    let address = <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    address.map_err(|_| Problem::Missing("address of 4 or 16 bytes"))
}

/// Reads a part that may be absent on the wire only.
pub(super) fn required<T: Wire>(
    what: &'static str,
    message: Option<T::Message>,
) -> Result<T, Problem> {
    T::from_wire(message.ok_or(Problem::Missing(what))?)
}

/// Reads a part that may be absent.
pub(super) fn optional<T: Wire>(message: Option<T::Message>) -> Result<Option<T>, Problem> {
    message.map(T::from_wire).transpose()
}

/// Reads a list in its order.
pub(super) fn list<T: Wire>(messages: Vec<T::Message>) -> Result<Vec<T>, Problem> {
    messages.into_iter().map(T::from_wire).collect()
}

/// Writes a list in its order.
pub(super) fn to_list<T: Wire>(items: &[T]) -> Vec<T::Message> {
    items.iter().map(T::to_wire).collect()
}

/// Collects what must be in strictly ascending order of its keys: the only order it is written in.
pub(super) fn ascending<K: Ord, V>(
    what: &'static str,
    entries: impl IntoIterator<Item = Result<(K, V), Problem>>,
) -> Result<BTreeMap<K, V>, Problem> {
    let mut map = BTreeMap::new();
    for entry in entries {
        let (key, value) = entry?;
        if map.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(Problem::Unordered(what));
        }
        map.insert(key, value);
    }
    Ok(map)
}

/// Maps an enum to its numbers and back. Zero, which stands for "not written", is no value.
macro_rules! wire_enum {
    ($name:ident, $what:literal, [$($variant:ident),+ $(,)?]) => {
        impl $crate::storage::convert::Wire for $name {
            type Message = i32;

            fn to_wire(&self) -> i32 {
                match self {
                    $(Self::$variant => $crate::storage::wire::$name::$variant.into(),)+
                }
            }

            fn from_wire(number: i32) -> Result<Self, $crate::storage::Problem> {
                match $crate::storage::wire::$name::try_from(number) {
                    $(Ok($crate::storage::wire::$name::$variant) => Ok(Self::$variant),)+
                    Ok($crate::storage::wire::$name::Unspecified) | Err(_) => {
                        let number = number.into();
                        Err($crate::storage::Problem::UnknownValue { what: $what, number })
                    }
                }
            }
        }
    };
}
pub(super) use wire_enum;

/// Names are text on the wire, and checked by their own constructors when they come back.
macro_rules! wire_names {
    ($($name:ident by $constructor:ident),+ $(,)?) => {$(
        impl Wire for $name {
            type Message = String;

            fn to_wire(&self) -> String {
                self.as_str().to_owned()
            }

            fn from_wire(text: String) -> Result<Self, Problem> {
                Ok(Self::$constructor(&text)?)
            }
        }
    )+};
}

wire_names! {
    BackupScheduleName by new,
    CertificateName by new,
    NotifyTargetName by new,
    ClusterId by new,
    ConsumerName by new,
    ContentName by new,
    DeploymentName by new,
    Hostname by new,
    ImageTag by new,
    NetworkName by new,
    RegistryName by new,
    RegistryUsername by new,
    ReplicaId by parse,
    RequestId by new,
    RouteDomain by new,
    ServiceName by new,
    VolumeClass by new,
    TokenId by new,
}

impl Wire for [u8; 32] {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        Bytes::copy_from_slice(self)
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        Self::try_from(&*bytes).map_err(|_| Problem::HashLength(bytes.len()))
    }
}

impl Wire for SpecHash {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        self.0.to_wire()
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        Wire::from_wire(bytes).map(Self)
    }
}

impl Wire for ContentId {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        self.0.to_wire()
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        Wire::from_wire(bytes).map(Self)
    }
}

impl Wire for ImageDigest {
    type Message = String;

    fn to_wire(&self) -> String {
        self.as_str().to_owned()
    }

    fn from_wire(text: String) -> Result<Self, Problem> {
        Self::parse(&text).ok_or(Problem::ImageDigest(text))
    }
}

impl Wire for BTreeMap<ServiceName, ImageDigest> {
    type Message = Vec<wire::Pair>;

    fn to_wire(&self) -> Vec<wire::Pair> {
        let pair = |(name, digest): (&ServiceName, &ImageDigest)| wire::Pair {
            name: name.to_wire(),
            value: digest.to_wire(),
        };
        self.iter().map(pair).collect()
    }

    fn from_wire(pairs: Vec<wire::Pair>) -> Result<Self, Problem> {
        let read =
            |pair: wire::Pair| Ok((Wire::from_wire(pair.name)?, Wire::from_wire(pair.value)?));
        ascending("services", pairs.into_iter().map(read))
    }
}

impl Wire for BTreeMap<String, String> {
    type Message = Vec<wire::Pair>;

    fn to_wire(&self) -> Vec<wire::Pair> {
        let pair = |(name, value): (&String, &String)| wire::Pair {
            name: name.clone(),
            value: value.clone(),
        };
        self.iter().map(pair).collect()
    }

    fn from_wire(pairs: Vec<wire::Pair>) -> Result<Self, Problem> {
        ascending("names", pairs.into_iter().map(|pair| Ok((pair.name, pair.value))))
    }
}

impl Wire for ServiceKey {
    type Message = wire::ServiceKey;

    fn to_wire(&self) -> wire::ServiceKey {
        wire::ServiceKey { deployment: self.deployment.to_wire(), service: self.service.to_wire() }
    }

    fn from_wire(message: wire::ServiceKey) -> Result<Self, Problem> {
        Ok(Self {
            deployment: Wire::from_wire(message.deployment)?,
            service: Wire::from_wire(message.service)?,
        })
    }
}

impl Wire for InstanceId {
    type Message = wire::InstanceId;

    fn to_wire(&self) -> wire::InstanceId {
        wire::InstanceId { replica: self.replica.to_wire(), raft_index: self.raft_index.0 }
    }

    fn from_wire(message: wire::InstanceId) -> Result<Self, Problem> {
        Ok(Self {
            replica: Wire::from_wire(message.replica)?,
            raft_index: StateIndex(message.raft_index),
        })
    }
}
