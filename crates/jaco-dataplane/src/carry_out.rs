//! What a step changes, if it succeeds.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::diff::Step;
use crate::seen::{Found, Seen};

impl Seen {
    /// What is there after a step that succeeded, if nothing else changes anything.
    pub fn carry_out(&mut self, step: &Step) {
        match step {
            Step::LoadPolicy(policy) => self.policy = Some(policy.clone()),
            Step::CloseScopes(scopes) => {
                if let Some(policy) = &mut self.policy {
                    policy.scopes.retain(|id, scope| scopes.get(id) != Some(scope));
                }
            }
            Step::OpenScopes(scopes) => {
                if let Some(policy) = &mut self.policy {
                    policy.scopes.extend(scopes.clone());
                }
            }
            Step::CloseServed(served) => {
                if let Some(policy) = &mut self.policy {
                    policy.served.retain(|address, id| served.get(address) != Some(id));
                }
            }
            Step::OpenServed(served) => {
                if let Some(policy) = &mut self.policy {
                    policy.served.extend(served);
                }
            }
            Step::CloseListeners(listeners) => {
                self.listeners.retain(|listener| !listeners.contains(listener));
            }
            Step::OpenListeners(listeners) => self.listeners.extend(listeners),
            Step::ChangeNames(change) => self.names.change(change),
            Step::RemoveRoutes(routes) => {
                for address in routes {
                    self.routes.remove(address);
                }
            }
            Step::AddRoutes(routes) => self.routes.extend(routes),
            Step::RemovePeer(key) => {
                self.peers.remove(key);
            }
            Step::SetPeer { key, peer } => {
                self.take_from_peers(&peer.addresses);
                self.peers.insert(*key, peer.clone());
            }
            Step::ChangePeer { key, change } => {
                self.take_from_peers(&change.gained);
                self.peers.entry(*key).or_default().change(change);
            }
            // The device takes its routes and peers with it.
            Step::RemoveTunnel => {
                self.tunnel = None;
                self.peers.clear();
                self.routes.clear();
            }
            Step::AddTunnel(tunnel) => self.tunnel = Some(Found::Sound(*tunnel)),
            Step::SetKey(key) => {
                if let Some(Found::Sound(tunnel)) = &mut self.tunnel {
                    tunnel.key = *key;
                }
            }
            Step::RemovePort(interface) => {
                self.ports.remove(interface);
            }
            Step::AddPort(port) => {
                self.ports.insert(port.interface.clone(), Found::Sound(port.clone()));
            }
        }
    }

    /// An address is one peer's: who gains it takes it from the others.
    fn take_from_peers(&mut self, addresses: &BTreeSet<Ipv4Addr>) {
        for peer in self.peers.values_mut() {
            for address in addresses {
                peer.addresses.remove(address);
            }
        }
    }
}
