//! Decodes every object of a backup as a restore does, and says what would come back. Asks no cluster, and changes
//! nothing. The time is bounded by the size of the file: each list of files is read once, however many refer to it.

use std::collections::BTreeMap;

use jaco_proto::v1::{BackupDeployment, BackupNetwork, BackupNode, BackupPair};
use jaco_types::network::{NETWORK_LENGTH_MAX, NETWORK_LENGTH_MIN};
use jaco_types::spec::Reach;
use jaco_types::{
    ContentId, ContentName, ErrorCode, NamedKind, NetworkName, NotifyTargetName, RegistryName,
};

use super::examined::{Detail, Examined, Fault, Model, Object};
use super::extent::{Extent, referenced};
use super::files::{content_id, list};
use super::kind::{Kind, label};
use super::manifest::{self, Stored};
use crate::{Backup, Damage, NamedPart};

/// Decodes what a restore of this extent would send.
///
/// # Errors
/// If the file can no longer be read. An object that could not be restored is no error.
pub fn examine(backup: &Backup, extent: &Extent) -> Result<Examined, Damage> {
    let (lists, objects) = (BTreeMap::new(), Vec::new());
    let mut examination = Examination { backup, lists, objects };
    if *extent == Extent::All {
        examination.settings();
        examination.registries()?;
        examination.networks();
        examination.policy();
        examination.notify_targets()?;
    }
    examination.named(extent)?;
    examination.deployments(extent)?;
    examination.disabled(extent);
    Ok(Examined { objects: examination.objects })
}

/// How the pieces of files are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Plain,
    Secret,
}

/// An examination in progress.
struct Examination<'b> {
    backup: &'b Backup,
    /// The lists that were read, with what is wrong with them.
    lists: BTreeMap<(Form, ContentId), Result<(), Fault>>,
    objects: Vec<Object>,
}

impl Examination<'_> {
    fn record(&mut self, kind: Kind, name: &str, detail: Detail, fault: Option<Fault>) {
        self.objects.push(Object { kind, name: name.to_owned(), detail, model: None, fault });
    }

    fn settings(&mut self) {
        if let Some(age_ms) = self.backup.retention_ms {
            self.record(Kind::Retention, "audit", Detail::LengthMs(age_ms), None);
        }
        for BackupPair { key, value } in &self.backup.constraints {
            self.record(Kind::Constraint, key, Detail::Text(value.clone()), None);
        }
        for node in &self.backup.nodes {
            let detail = Detail::Text(settings_of(node));
            self.record(Kind::Node, &node.hostname, detail, None);
        }
    }

    fn registries(&mut self) -> Result<(), Damage> {
        for registry in self.backup.registries() {
            let registry = registry?;
            let fault = RegistryName::new(&registry.registry).err().map(|error| invalid(&error));
            let detail = Detail::Text(registry.username);
            self.record(Kind::Registry, &registry.registry, detail, fault);
        }
        Ok(())
    }

    fn networks(&mut self) {
        for network in &self.backup.networks {
            let reach = if network.internal { ", internal" } else { "" };
            let detail = Detail::Text(format!("/{}{reach}", network.prefix_length));
            self.record(Kind::Network, &network.name, detail, network_fault(network));
        }
    }

    fn policy(&mut self) {
        for grants in &self.backup.grants {
            let invalid = |reach: &String| Reach::parse(reach).err().map(|error| invalid(&error));
            let fault = grants.reaches.iter().find_map(invalid);
            let detail = Detail::Text(grants.reaches.join(", "));
            self.record(Kind::Grants, &grants.deployment, detail, fault);
        }
        if let Some(mode) = &self.backup.policy {
            self.record(Kind::Policy, mode, Detail::None, None);
        }
    }

    /// By name and form alone: an address may be a secret.
    fn notify_targets(&mut self) -> Result<(), Damage> {
        for target in self.backup.notify_targets() {
            let target = target?;
            let fault = NotifyTargetName::new(&target.name).err().map(|error| invalid(&error));
            self.record(Kind::NotifyTarget, &target.name, Detail::Text(target.form), fault);
        }
        Ok(())
    }

    fn named(&mut self, extent: &Extent) -> Result<(), Damage> {
        let referenced = referenced(self.backup, extent)?;
        let is_selected = |named: &&NamedPart| match &referenced {
            Some(referenced) => referenced.contains(&(named.kind.as_str(), named.name.clone())),
            None => true,
        };
        for named in self.backup.named.iter().filter(is_selected) {
            self.backup.named(named)?;
            let fault = ContentName::new(&named.name).err().map(|error| invalid(&error));
            let kind = match named.kind {
                NamedKind::Config => Kind::Config,
                NamedKind::Secret => Kind::Secret,
            };
            self.record(kind, &named.name, Detail::None, fault);
        }
        Ok(())
    }

    fn deployments(&mut self, extent: &Extent) -> Result<(), Damage> {
        let stored = Stored {
            named: self.backup.named.iter().map(|one| (one.kind, one.name.clone())).collect(),
            networks: self.backup.networks.iter().map(|one| one.name.clone()).collect(),
        };
        for name in self.backup.deployments().filter(|name| extent.has(name)) {
            let Some(deployment) = self.backup.deployment(name)? else { continue };
            let (model, fault) = match self.deployment(&deployment, &stored) {
                Ok(model) => (Some(model), None),
                Err(fault) => (None, Some(fault)),
            };
            let uploads = uploads(&deployment);
            let detail = if model.is_some() { Detail::Uploads(uploads) } else { Detail::None };
            let (kind, name) = (Kind::Deployment, name.to_owned());
            self.objects.push(Object { kind, name, detail, model, fault });
        }
        Ok(())
    }

    fn deployment(
        &mut self,
        deployment: &BackupDeployment,
        stored: &Stored,
    ) -> Result<Model, Fault> {
        for files in deployment.binds.iter().chain(&deployment.configs) {
            self.files(Form::Plain, content_id(&files.tree).map_err(Fault::of)?)?;
        }
        for files in &deployment.secrets {
            self.files(Form::Secret, content_id(&files.tree).map_err(Fault::of)?)?;
        }
        manifest::check(deployment, stored)
    }

    /// Checks that a list of files and all their pieces are there.
    fn files(&mut self, form: Form, id: ContentId) -> Result<(), Fault> {
        if let Some(known) = self.lists.get(&(form, id)) {
            return known.clone();
        }
        let result = self.pieces(form, id).map_err(Fault::of);
        self.lists.insert((form, id), result.clone());
        result
    }

    fn pieces(&self, form: Form, id: ContentId) -> Result<(), Damage> {
        for piece in list(self.backup, id)?.pieces() {
            match form {
                Form::Plain => self.backup.check_piece(piece)?,
                Form::Secret => self.backup.check_secret(piece)?,
            }
        }
        Ok(())
    }

    fn disabled(&mut self, extent: &Extent) {
        for one in self.backup.disabled.iter().filter(|one| extent.has(&one.deployment)) {
            self.record(Kind::Disabled, &label(one), Detail::None, None);
        }
    }
}

/// The labels of a node, and whether it is cordoned.
fn settings_of(node: &BackupNode) -> String {
    let labels = node.labels.iter().map(|label| format!("{}={}", label.key, label.value));
    let cordoned = node.cordoned.then(|| "cordoned".to_owned());
    labels.chain(cordoned).collect::<Vec<String>>().join(", ")
}

/// How many of its files were uploaded.
fn uploads(deployment: &BackupDeployment) -> usize {
    let BackupDeployment { binds, configs, secrets, .. } = deployment;
    binds.len() + configs.len() + secrets.len()
}

fn network_fault(network: &BackupNetwork) -> Option<Fault> {
    if let Err(error) = NetworkName::new(&network.name) {
        return Some(invalid(&error));
    }
    // Zero leaves the length to the cluster.
    let length = network.prefix_length;
    let allowed = u32::from(NETWORK_LENGTH_MIN)..=u32::from(NETWORK_LENGTH_MAX);
    (length != 0 && !allowed.contains(&length)).then(|| {
        invalid(&format!("a network has a prefix of /{NETWORK_LENGTH_MIN} to /{NETWORK_LENGTH_MAX}, not /{length}"))
    })
}

fn invalid(error: &dyn std::fmt::Display) -> Fault {
    Fault { code: ErrorCode::InvalidRequest, reason: error.to_string() }
}
