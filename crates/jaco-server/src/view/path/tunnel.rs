//! The tunnels between the node of the replica that asks and those of ready replicas.

use std::collections::BTreeSet;
use std::time::Duration;

use jaco_proto::v1;
use jaco_types::{NodeId, RouterLink};

use super::outcome::{Broken, Step, millis};
use super::walk::Walker;
use crate::view::hostname;

impl Walker<'_> {
    fn link(&self, node: NodeId) -> Option<RouterLink> {
        self.state.nodes.get(&node)?.facts.router.as_ref()?.link
    }

    /// The nodes of ready replicas, behind other routers than the one that asks.
    fn elsewhere(&self) -> Vec<(NodeId, Option<RouterLink>)> {
        let own = self.link(self.course.asker.node).map(|link| link.key);
        let nodes: BTreeSet<NodeId> = self.course.ready.values().map(|live| live.node).collect();
        let nodes = nodes.into_iter().filter(|node| *node != self.course.asker.node);
        let links = nodes.map(|node| (node, self.link(node)));
        links.filter(|(_, link)| link.is_none() || link.map(|link| link.key) != own).collect()
    }

    pub(super) fn tunnel(&self) -> Result<String, Broken> {
        let own = self.report(self.course.asker.node, Step::Tunnel)?;
        let elsewhere = self.elsewhere();
        if elsewhere.is_empty() {
            let node = hostname(self.state, self.course.asker.node);
            return Ok(format!("not needed: both ends are on {node}"));
        }
        let ways: Result<Vec<String>, Broken> =
            elsewhere.into_iter().map(|(node, link)| self.tunnel_to(own, node, link)).collect();
        Ok(ways?.join("; "))
    }

    /// Whether the tunnel of a node has the key that the others expect: while it is replaced, one of them is first.
    fn has_its_key(&self, node: NodeId, report: &v1::ProbeRouterResponse) -> Result<(), Broken> {
        let expected = self.link(node).map(|link| link.key);
        if report.key.is_empty() || expected.is_some_and(|key| report.key == key[..]) {
            return Ok(());
        }
        let name = hostname(self.state, node);
        Err(Broken::new(
            Step::Tunnel,
            format!(
                "the key of {name} is being replaced: its tunnel has not taken the new one yet"
            ),
            format!(
                "try again in a second; if it stays, see journalctl -u jacod -u jacod-net on {name}"
            ),
        ))
    }

    fn tunnel_to(
        &self,
        own: &v1::ProbeRouterResponse,
        node: NodeId,
        link: Option<RouterLink>,
    ) -> Result<String, Broken> {
        let (here, there) =
            (hostname(self.state, self.course.asker.node), hostname(self.state, node));
        let broken = |detail: String, fix: String| Broken::new(Step::Tunnel, detail, fix);
        let Some(link) = link else {
            let detail = format!("{there} has reported no router");
            return Err(broken(detail, format!("see NET of {there} in `jaco node ls`")));
        };
        let Some(peer) = own.peers.iter().find(|peer| peer.key == link.key[..]) else {
            let detail = format!(
                "the tunnel of {here} has no way to {there}: its router holds index {}, the cluster is at {}",
                own.applied, self.state.index
            );
            return Err(broken(
                detail,
                format!(
                    "try again in a second; if it stays, see journalctl -u jacod -u jacod-net on {here}"
                ),
            ));
        };
        let known = known(peer);
        let Some(answered) = peer.answered_us else {
            let theirs = self.report(node, Step::Tunnel)?;
            self.has_its_key(self.course.asker.node, own)?;
            self.has_its_key(node, theirs)?;
            let own_key = self.link(self.course.asker.node).map(|link| link.key);
            let back =
                theirs.peers.iter().find(|peer| own_key.is_some_and(|key| peer.key == key[..]));
            let (what, way) = match (back.is_some_and(|back| back.hears), peer.hears) {
                (true, _) => (
                    format!("{there} hears {here}, and {here} does not hear {there}"),
                    format!("from {there} to {here}"),
                ),
                (false, true) => (
                    format!("{here} hears {there}, and {there} does not hear {here}"),
                    format!("from {here} to {there}"),
                ),
                (false, false) => (
                    format!("no packet passes between {here} and {there}"),
                    format!("between {here} and {there}, in both directions"),
                ),
            };
            let fix = format!("let UDP port {} pass {way}", link.port);
            return Err(broken(format!("{what} ({known})"), fix));
        };
        if !peer.answered_full {
            let mtu = self.state.networks.pool.as_ref().map_or(0, |pool| pool.mtu);
            let detail = format!(
                "between {here} and {there} small packets pass, those of {mtu} bytes do not ({known})"
            );
            let fix = format!(
                "let the links between the two take packets of {} bytes, or let routers on the way report what they take",
                u32::from(mtu) + 80
            );
            return Err(broken(detail, fix));
        }
        Ok(format!("{here} to {there} in {} ({known})", millis(answered)))
    }
}

/// What a tunnel knows of another router.
fn known(peer: &v1::ProbedPeer) -> String {
    let handshake = match peer.handshake_ms {
        Some(age) => format!("last handshake {} s ago", Duration::from_millis(age).as_secs()),
        None => "no handshake yet".to_owned(),
    };
    let endpoint = match peer.endpoint.as_str() {
        "" => "its endpoint is not known".to_owned(),
        endpoint => format!("at {endpoint}"),
    };
    format!("{endpoint}, {handshake}")
}
