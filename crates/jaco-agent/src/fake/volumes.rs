//! Volumes of the fake engine: who mounts them, and their contents as archives.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::{StreamExt, stream};
use jaco_types::{DeploymentName, Timestamp};

use super::host::{FakeHost, volume_names};
use crate::engine::transfer::{Archive, ArchiveInput};
use crate::engine::{
    EngineError, ExistingVolume, HeldVolume, VolumeAccess, VolumeMount, VolumeTarget,
};

/// Bytes of a piece of an archive.
const PIECE_BYTES: usize = 32 << 10;

/// Contents of volumes by name: archives. Others are empty. They do not survive the process.
#[derive(Debug, Default)]
pub(super) struct Contents(Mutex<BTreeMap<String, Vec<u8>>>);

impl Contents {
    pub(super) fn read(&self, name: &str) -> Archive {
        let contents = self.0.lock().expect("no holder of the lock panics");
        let archive = contents.get(name).cloned().unwrap_or_default();
        let pieces: Vec<_> =
            archive.chunks(PIECE_BYTES).map(|piece| Ok(piece.to_vec().into())).collect();
        stream::iter(pieces).boxed()
    }

    pub(super) fn write(&self, name: &str, archive: Vec<u8>) {
        self.0.lock().expect("no holder of the lock panics").insert(name.to_owned(), archive);
    }
}

/// An archive to its end.
pub(super) async fn whole(mut archive: ArchiveInput) -> Result<Vec<u8>, EngineError> {
    let mut whole = Vec::new();
    while let Some(piece) = archive.next().await {
        let broken = |error: std::io::Error| EngineError::Refused { reason: error.to_string() };
        whole.extend(piece.map_err(broken)?);
    }
    Ok(whole)
}

impl FakeHost {
    /// See [`crate::ContainerEngine::volumes`].
    ///
    /// # Errors
    /// If the engine is unreachable.
    pub fn held_volumes(&self, now: Timestamp) -> Result<Vec<HeldVolume>, EngineError> {
        self.answer()?;
        let held = self.volumes.iter().map(|(name, deployment)| HeldVolume {
            deployment: deployment.clone(),
            key: key_of(deployment, name),
            name: name.clone(),
            class: None,
            used: None,
            created_at: None,
            mounts: self.mounts_of(name, now),
        });
        let mut held: Vec<HeldVolume> = held.collect();
        held.sort_by(|a, b| (&a.deployment, &a.key).cmp(&(&b.deployment, &b.key)));
        Ok(held)
    }

    fn mounts_of(&self, name: &str, now: Timestamp) -> Vec<VolumeMount> {
        let containers = self.containers.values().filter(|container| {
            let request = &container.request;
            volume_names(&request.service.deployment, &request.container).contains(name)
        });
        let mounts = containers.map(|container| VolumeMount {
            instance: Some(container.request.instance.clone()),
            access: match container.ended(now) {
                Some((at, _)) if at <= now => VolumeAccess::Stopped,
                Some(_) | None => VolumeAccess::Writes,
            },
        });
        let mut mounts: Vec<VolumeMount> = mounts.collect();
        mounts.sort_by(|a, b| a.instance.cmp(&b.instance));
        mounts
    }

    /// Whether there is a volume of this name.
    ///
    /// # Errors
    /// If there is none, or the engine is unreachable.
    pub(super) fn require_volume(&self, name: &str) -> Result<(), EngineError> {
        self.answer()?;
        let absent = || EngineError::Refused { reason: format!("there is no volume {name}") };
        self.volumes.get(name).map(drop).ok_or_else(absent)
    }

    /// Makes a volume in place of one of its name.
    ///
    /// # Errors
    /// If a container mounts it, or the engine is unreachable.
    pub(super) fn make_volume(
        &mut self,
        target: &VolumeTarget,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        self.answer()?;
        let exists = self.volumes.contains_key(&target.name);
        if exists && target.existing == ExistingVolume::Refuse {
            return Err(EngineError::Refused { reason: format!("volume {} exists", target.name) });
        }
        if !self.mounts_of(&target.name, now).is_empty() {
            let reason = format!("volume {} is in use", target.name);
            return Err(EngineError::Refused { reason });
        }
        self.volumes.insert(target.name.clone(), target.deployment.clone());
        Ok(())
    }
}

/// What a manifest calls a volume of this name.
fn key_of(deployment: &DeploymentName, name: &str) -> String {
    name.strip_prefix(&format!("{deployment}_")).unwrap_or(name).to_owned()
}

/// The volume of a container that its manifest names so.
pub(super) fn volume_of(deployment: &DeploymentName, key: &str, container: &str) -> Option<String> {
    let names = volume_names(deployment, container);
    names.into_iter().find(|name| key_of(deployment, name) == key)
}
