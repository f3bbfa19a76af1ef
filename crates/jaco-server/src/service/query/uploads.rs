//! The uploaded files of a revision, read from the specs of its containers, so that it can be applied again.

use std::collections::BTreeMap;

use jaco_compose::model::{ContainerSpec, Content};
use jaco_proto::v1;
use jaco_types::{ContentId, DeploymentSpec};

/// The uploaded files of a revision.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) binds: Vec<v1::FileUpload>,
    pub(super) configs: Vec<v1::FileUpload>,
    pub(super) secrets: Vec<v1::FileUpload>,
}

/// The uploaded files of this spec.
pub(super) fn of_spec(spec: &DeploymentSpec) -> Files {
    let (mut binds, mut configs, mut secrets) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    // Most deployments have none: skip parsing.
    if spec.contents.is_empty() {
        return Files::default();
    }
    for service in spec.services.values() {
        let Ok(container) = ContainerSpec::parse(&service.container) else { continue };
        binds.extend(container.files);
        configs.extend(versions(container.configs));
        secrets.extend(versions(container.secrets));
    }
    Files { binds: named(binds), configs: named(configs), secrets: named(secrets) }
}

fn versions(contents: BTreeMap<String, Content>) -> impl Iterator<Item = (String, String)> {
    contents.into_iter().filter_map(|(name, content)| Some((name, content.version?)))
}

fn named(versions: BTreeMap<String, String>) -> Vec<v1::FileUpload> {
    let files = |(name, version): (String, String)| {
        let tree = ContentId::from_hex(&version)?.0.to_vec().into();
        Some(v1::FileUpload { name, tree })
    };
    versions.into_iter().filter_map(files).collect()
}
