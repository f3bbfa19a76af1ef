//! What a return to the cluster needs to go on after it was interrupted.

use std::collections::BTreeMap;

use anyhow::Context;
use jaco_pki::{IdentityDir, NodeName};
use jaco_types::ClusterId;
use serde::{Deserialize, Serialize};

/// Stored before the first step is made, and forgotten with the last one.
#[derive(Serialize, Deserialize)]
pub(super) struct Pending {
    /// The cluster that is left and joined.
    pub(super) cluster: String,
    /// The id that is given up.
    pub(super) node: u64,
    /// The name that the cluster knows it by.
    pub(super) hostname: String,
    /// Members, `host:port`.
    pub(super) servers: Vec<String>,
    /// Admits one node.
    pub(super) token: String,
    /// Labels that an operator set.
    pub(super) labels: BTreeMap<String, String>,
    /// Whether it took nothing new.
    pub(super) is_cordoned: bool,
}

impl Pending {
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(identity: &IdentityDir) -> anyhow::Result<Option<Self>> {
        let Some(text) = identity.rejoin()? else { return Ok(None) };
        let begun = serde_json::from_str(&text);
        begun.context("the steps of an earlier `jacod rejoin` cannot be read: delete node/rejoin in the data directory").map(Some)
    }

    /// # Errors
    /// When it cannot be written.
    pub(super) fn store(&self, identity: &IdentityDir) -> anyhow::Result<()> {
        Ok(identity.store_rejoin(&serde_json::to_string(self)?)?)
    }

    /// Whether this identity is the one that is given up.
    pub(super) fn gives_up(&self, name: &NodeName) -> bool {
        self.is_of(&name.cluster) && self.node == name.node.0
    }

    /// Whether it is about this cluster.
    pub(super) fn is_of(&self, cluster: &ClusterId) -> bool {
        self.cluster == cluster.as_str()
    }
}

#[cfg(test)]
mod tests {
    use jaco_types::NodeId;

    use super::*;

    /// R-FAULT-1: an interrupted return goes on with what it had, and only where it belongs.
    #[test]
    fn steps_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let identity = IdentityDir::open(dir.path().join("node")).unwrap();
        assert!(Pending::read(&identity).unwrap().is_none());
        let cluster = ClusterId::new(&"a".repeat(32)).unwrap();
        let begun = Pending {
            cluster: cluster.to_string(),
            node: 7,
            hostname: "n2".to_owned(),
            servers: vec!["10.0.0.1:7000".to_owned()],
            token: "jj1.x".to_owned(),
            labels: [("zone".to_owned(), "a".to_owned())].into(),
            is_cordoned: true,
        };
        begun.store(&identity).unwrap();
        // The identity that is given up is deleted meanwhile.
        identity.delete().unwrap();
        let read = Pending::read(&identity).unwrap().unwrap();
        assert_eq!((&read.token, &read.labels), (&begun.token, &begun.labels));
        assert!(read.gives_up(&NodeName::new(cluster.clone(), NodeId(7))));
        assert!(!read.gives_up(&NodeName::new(cluster, NodeId(8))), "the new one");
        let other = ClusterId::new(&"b".repeat(32)).unwrap();
        assert!(!read.is_of(&other));
        identity.forget_rejoin().unwrap();
        assert!(Pending::read(&identity).unwrap().is_none());
    }
}
