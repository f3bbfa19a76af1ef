//! Setting `volume_classes:`: the kinds of storage that this node offers for volumes.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use jaco_docker::VolumeFolders;
use jaco_types::VolumeClass;
use jaco_types::volume::VOLUME_CLASSES_MAX;
use serde::Deserialize;

use super::{Config, ConfigError};

const KEY: &str = "volume_classes";

/// Where volumes of a class are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeClassSettings {
    /// The folder in which each volume of the class has a folder.
    pub(crate) path: PathBuf,
    /// What the sizes of its volumes may be together, in bytes; 0 for any amount, the size of its disk if absent.
    #[serde(default)]
    pub(crate) capacity_bytes: Option<u64>,
}

impl Config {
    /// The classes of volumes that this node offers.
    ///
    /// # Errors
    /// When a name or a path cannot be one, or two classes have the same folder.
    pub(crate) fn volume_classes(
        &self,
    ) -> Result<BTreeMap<VolumeClass, VolumeClassSettings>, ConfigError> {
        let mut classes = BTreeMap::new();
        let mut paths: BTreeMap<&Path, &str> = BTreeMap::new();
        for (name, settings) in &self.volume_classes {
            let class = VolumeClass::new(name).map_err(|invalid| refused(invalid.to_string()))?;
            check_path(name, &settings.path)?;
            if let Some(other) = paths.insert(&settings.path, name) {
                let path = settings.path.display();
                return Err(refused(format!("{other} and {name} have the same path, {path}")));
            }
            classes.insert(class, settings.clone());
        }
        if classes.len() > VOLUME_CLASSES_MAX {
            let number = classes.len();
            return Err(refused(format!("{number} classes, {VOLUME_CLASSES_MAX} at most")));
        }
        Ok(classes)
    }

    /// The folder of each class.
    ///
    /// # Errors
    /// Those of [`Config::volume_classes`].
    pub(crate) fn volume_folders(&self) -> Result<VolumeFolders, ConfigError> {
        let classes = self.volume_classes()?.into_iter();
        Ok(classes.map(|(class, settings)| (class, settings.path)).collect())
    }
}

/// The engine is told the path as it is, and says it again of each volume.
fn check_path(name: &str, path: &Path) -> Result<(), ConfigError> {
    let is_plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let rebuilt: PathBuf = path.components().collect();
    let is_exact = rebuilt.as_os_str() == path.as_os_str();
    if path.is_absolute() && is_plain && is_exact && path != Path::new("/") {
        return Ok(());
    }
    let path = path.display();
    Err(refused(format!(
        "the path of {name}, {path}, is not an absolute path of a folder without `.`, `..` and a slash at its end, as in /mnt/{name}"
    )))
}

fn refused(reason: String) -> ConfigError {
    ConfigError::Value { key: KEY, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(text: &str) -> Result<BTreeMap<VolumeClass, VolumeClassSettings>, String> {
        let config = Config::parse(text).map_err(|error| error.to_string())?;
        config.volume_classes().map_err(|error| error.to_string())
    }

    /// R-RES-3: a node offers classes by its configuration, and declares what they hold.
    #[test]
    fn classes_are_declared() {
        let text =
            "volume_classes: {ssd: {path: /mnt/ssd, capacity_bytes: 5}, hdd: {path: /srv/hdd}}";
        let classes = classes(text).unwrap();
        let shown: Vec<_> = classes
            .iter()
            .map(|(class, one)| format!("{class} {} {:?}", one.path.display(), one.capacity_bytes))
            .collect();
        assert_eq!(shown, ["hdd /srv/hdd None", "ssd /mnt/ssd Some(5)"]);
        assert_eq!(Config::parse("log_level: info").unwrap().volume_classes().unwrap().len(), 0);
    }

    /// R-RES-3: what cannot be a class is refused by its key.
    #[test]
    fn wrong_classes_are_refused() {
        for text in [
            "volume_classes: {SSD: {path: /mnt/ssd}}",
            "volume_classes: {ssd: {path: mnt/ssd}}",
            "volume_classes: {ssd: {path: /mnt/../ssd}}",
            "volume_classes: {ssd: {path: /mnt/ssd/}}",
            "volume_classes: {ssd: {path: /mnt//ssd}}",
            "volume_classes: {ssd: {path: /}}",
            "volume_classes: {ssd: {path: /mnt/a}, nvme: {path: /mnt/a}}",
        ] {
            let refused = classes(text).unwrap_err();
            assert!(refused.contains("volume_classes"), "{text}: {refused}");
        }
        assert!(Config::parse("volume_classes: {ssd: {}}").is_err(), "a path is needed");
        assert!(Config::parse("volume_classes: {ssd: {path: /mnt/ssd, size: 5}}").is_err());
    }
}
