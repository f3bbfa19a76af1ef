//! What reads texts that daemons are sent, as functions of bytes: for mutations, and for the fuzz target `sent`, which
//! includes this file, so that it may refer to no other.

use jaco_compose::tree::FileTree;
use jaco_compose::{Environment, JacoYaml, Options, from_model, resolve};

/// A model, as a client sends it: what is taken is the same when it is sent again, and can be resolved.
pub(crate) fn model(bytes: &[u8]) {
    let Ok(project) = from_model(bytes) else { return };
    let sent = project.model().to_string();
    let received = from_model(sent.as_bytes()).expect("what was taken can be sent");
    assert_eq!(received.model().to_string(), sent);
    drop(resolve(&project, None, &Options::default()));
}

/// The overrides of an environment.
pub(crate) fn environment(bytes: &[u8]) {
    match Environment::parse("jaco.services.toml", bytes) {
        Ok(environment) => drop((environment.overrides(), environment.variables())),
        Err(problems) => assert!(problems.errors().next().is_some(), "refused without a reason"),
    }
}

/// The overlay.
pub(crate) fn overlay(bytes: &[u8]) {
    if let Err(problems) = JacoYaml::parse("jaco.yaml", bytes) {
        assert!(problems.errors().next().is_some(), "refused without a reason");
    }
}

/// The list of a folder's files.
pub(crate) fn tree(bytes: &[u8]) {
    let Ok(tree) = FileTree::parse(bytes) else { return };
    assert_eq!(FileTree::parse(tree.text().as_bytes()).ok(), Some(tree));
}
