//! Other names in this cluster for volume classes and hosts of a backup (ADR 0158).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;

use jaco_backup::{Backup, Damage, Extent};
use jaco_compose::overlay::Renames;
use jaco_proto::v1::{AllocationRef, BackupDeployment, BackupNode};
use jaco_types::{Hostname, VolumeClass};

use crate::error::CliError;

/// The names of the backup that have others here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapping {
    renames: Renames,
}

impl Mapping {
    /// From options of the form `OLD=NEW`.
    ///
    /// # Errors
    /// If one has another form, or maps a name twice.
    pub(crate) fn parse(classes: &[String], hosts: &[String]) -> Result<Self, CliError> {
        let volume_classes = pairs::<VolumeClass>("--volume-class", classes)?;
        let hosts = pairs::<Hostname>("--host", hosts)?;
        Ok(Self { renames: Renames { volume_classes, hosts } })
    }

    /// What is mapped in the selected part of a backup, a line for each object.
    ///
    /// # Errors
    /// If a name is in none of them, or written in a way in which it cannot be replaced.
    pub(crate) fn lines(&self, backup: &Backup, extent: &Extent) -> Result<Vec<String>, CliError> {
        if self.renames.is_empty() {
            return Ok(Vec::new());
        }
        let mut lines = Vec::new();
        let (mut classes, mut hosts) = (BTreeSet::new(), BTreeSet::new());
        for name in backup.deployments().filter(|name| extent.has(name)) {
            let unreadable = |damage| CliError::local("cannot read the backup", damage);
            let Some(wanted) = backup.deployment(name).map_err(unreadable)? else { continue };
            let Some(renamed) = self.overlay(&wanted).map_err(|problem| {
                CliError::usage(
                    format!("names of deployment {name} cannot be mapped: {problem}"),
                    "restore it as it is, change its jaco.yaml and apply it",
                )
            })?
            else {
                continue;
            };
            lines.extend(told(
                name,
                "volume class",
                &renamed.volume_classes,
                &self.renames.volume_classes,
            ));
            lines.extend(told(name, "host", &renamed.hosts, &self.renames.hosts));
            classes.extend(renamed.volume_classes);
            hosts.extend(renamed.hosts);
        }
        let nodes = backup.nodes.iter().map(|node| &node.hostname);
        let disabled = backup.disabled.iter().map(|one| &one.node);
        let named = nodes.chain(disabled).filter_map(|name| Hostname::new(name).ok());
        hosts.extend(named.filter(|host| self.renames.hosts.contains_key(host)));
        unused("--volume-class", "volumes of class", &classes, &self.renames.volume_classes)?;
        unused("--host", "host", &hosts, &self.renames.hosts)?;
        Ok(lines)
    }

    /// Gives a deployment the names of this cluster.
    ///
    /// # Errors
    /// If a name cannot be replaced.
    pub(super) fn map_deployment(&self, wanted: &mut BackupDeployment) -> Result<(), Damage> {
        let renamed = self.overlay(wanted);
        let renamed = renamed
            .map_err(|problem| Damage::Contradiction(format!("{}: {problem}", wanted.name)))?;
        if let Some(renamed) = renamed {
            wanted.overlay_yaml = renamed.text;
        }
        Ok(())
    }

    pub(super) fn map_node(&self, node: &BackupNode) -> BackupNode {
        BackupNode { hostname: self.host(&node.hostname), ..node.clone() }
    }

    pub(super) fn map_disabled(&self, one: &AllocationRef) -> AllocationRef {
        AllocationRef { node: self.host(&one.node), ..one.clone() }
    }

    fn host(&self, name: &str) -> String {
        let mapped = Hostname::new(name).ok().and_then(|host| self.renames.hosts.get(&host));
        mapped.map_or_else(|| name.to_owned(), Hostname::to_string)
    }

    fn overlay(
        &self,
        wanted: &BackupDeployment,
    ) -> Result<Option<jaco_compose::overlay::Renamed>, String> {
        if self.renames.is_empty() || wanted.overlay_yaml.is_empty() {
            return Ok(None);
        }
        let renamed = self.renames.apply("jaco.yaml", &wanted.overlay_yaml);
        renamed.map(Some).map_err(|problems| problems.to_string().trim().to_owned())
    }
}

fn pairs<T: FromStr + Ord>(option: &str, texts: &[String]) -> Result<BTreeMap<T, T>, CliError>
where
    T::Err: Display,
{
    let mut pairs = BTreeMap::new();
    for text in texts {
        let usage = |why: String| {
            CliError::usage(format!("{option} {text}: {why}"), format!("write {option} OLD=NEW"))
        };
        let (old, new) = text.split_once('=').ok_or_else(|| usage("it has no `=`".to_owned()))?;
        let parse = |name: &str| name.parse::<T>().map_err(|error| usage(error.to_string()));
        if pairs.insert(parse(old)?, parse(new)?).is_some() {
            return Err(usage(format!("{old} is mapped twice")));
        }
    }
    Ok(pairs)
}

fn told<'m, T: Ord + Display>(
    deployment: &'m str,
    what: &'m str,
    replaced: &'m BTreeSet<T>,
    all: &'m BTreeMap<T, T>,
) -> impl Iterator<Item = String> + 'm {
    let pairs = replaced.iter().filter_map(|old| all.get_key_value(old));
    pairs.map(move |(old, new)| format!("deployment {deployment}: {what} {old} is mapped to {new}"))
}

fn unused<T: Ord + Display>(
    option: &str,
    what: &str,
    replaced: &BTreeSet<T>,
    all: &BTreeMap<T, T>,
) -> Result<(), CliError> {
    match all.keys().find(|old| !replaced.contains(old)) {
        None => Ok(()),
        Some(old) => Err(CliError::usage(
            format!("{option} {old}=…: what is restored has no {what} {old}"),
            "check the name, or leave the option out: jaco restore --check shows what is in the backup",
        )),
    }
}
