//! A line as words, and words as what they name.

use jaco_types::{ImageDigest, Millis, RegistryName, ServiceKey};

use super::{CommandError, Session};
use crate::machine::Disk;
use crate::network::MachineIx;
use crate::service::parse_millis;

/// The words of a line. Text in double quotes is one word.
#[derive(Debug, Clone)]
pub(super) struct Words(pub(super) Vec<String>);

impl Words {
    pub(super) fn split(line: &str) -> Result<Self, CommandError> {
        let mut words = Vec::new();
        for (at, part) in line.split('"').enumerate() {
            if at % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        if line.matches('"').count() % 2 == 1 {
            return Err(CommandError::unclear("a quotation does not end"));
        }
        Ok(Self(words))
    }

    /// The words as slices, to be matched.
    pub(super) fn as_strs(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

pub(super) fn millis(text: &str) -> Result<Millis, CommandError> {
    parse_millis(text)
        .ok_or_else(|| CommandError::unclear(format!("{text:?} is no length of time")))
}

pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, CommandError> {
    text.parse().map_err(|_| CommandError::unclear(format!("{text:?} is no number in range")))
}

pub(super) fn name<T>(text: &str) -> Result<T, CommandError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| CommandError::unclear(error.to_string()))
}

/// The content of an image that a script calls by one hex digit.
pub(super) fn digest(image: &str, mark: &str) -> Result<ImageDigest, CommandError> {
    let repository = image.split(':').next().unwrap_or(image);
    let digest = ImageDigest::parse(&format!("{repository}@sha256:{}", mark.repeat(64)));
    digest.ok_or_else(|| CommandError::unclear(format!("{mark:?} is no hex digit")))
}

pub(super) fn disk(text: &str) -> Result<Disk, CommandError> {
    match text {
        "free" => Ok(Disk::Free),
        "nearly-full" => Ok(Disk::NearlyFull),
        "full" => Ok(Disk::Full),
        _ => Err(CommandError::unclear(format!("{text:?} is not free, nearly-full or full"))),
    }
}

pub(super) fn registry(text: &str) -> Result<RegistryName, CommandError> {
    RegistryName::parse(text).map_err(|error| CommandError::unclear(error.to_string()))
}

/// `shop/web`.
pub(super) fn service_key(text: &str) -> Result<ServiceKey, CommandError> {
    let parts = text.split_once('/');
    let (deployment, service) = parts
        .ok_or_else(|| CommandError::unclear(format!("{text:?} is not <deployment>/<service>")))?;
    Ok(ServiceKey { deployment: name(deployment)?, service: name(service)? })
}

impl Session {
    pub(super) fn machine(&mut self, host: &str) -> Result<MachineIx, CommandError> {
        let world = self.cluster()?;
        if host == "leader" {
            let leader = world.leader();
            return leader.ok_or_else(|| CommandError::unclear("nobody leads at the moment"));
        }
        world.find(host).ok_or_else(|| CommandError::unclear(format!("there is no node {host}")))
    }

    /// `n1 n2`, `leader` or `all`.
    pub(super) fn machines(&mut self, hosts: &[&str]) -> Result<Vec<MachineIx>, CommandError> {
        match hosts {
            [] => Err(CommandError::unclear("which node?")),
            ["all"] => Ok(self.cluster()?.all().collect()),
            hosts => hosts.iter().map(|host| self.machine(host)).collect(),
        }
    }
}
