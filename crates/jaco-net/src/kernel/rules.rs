//! The rules in the kernel, with their scopes and what edges serve: they are in the router's namespace and in no other.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use jaco_dataplane::{Policy, Scope};
use jaco_types::NetworkId;
use serde_json::Value;

use super::ruleset::{FAMILIES, elements, objects, served, transaction};
use crate::error::{NetError, refused};
use crate::netlink::{Element, ElementChange, FilterSet, Socket};

/// The scopes in the tables of both families, by the numbers that the kernel has for these.
const SCOPES: [FilterSet; 2] = [
    FilterSet { family: 1, table: "jaco", name: "scopes" },
    FilterSet { family: 3, table: "jaco", name: "scopes" },
];

/// The addresses that edges serve.
const SERVED: [FilterSet; 1] = [FilterSet { family: 1, table: "jaco", name: "served" }];

/// How often rules are loaded in a row at most where other processes change some at the same time.
const LOADS: usize = 3;

/// Bytes of an interface's name in a key.
const NAME: usize = 16;

/// What edges serve: addresses, with their network.
type Served = BTreeMap<Ipv4Addr, NetworkId>;

/// The loaded rules.
#[derive(Debug)]
pub(crate) struct Rules {
    /// For the elements of sets.
    socket: Socket,
    /// What was loaded, and how `nft` lists it without its elements. The listing differs between releases of
    /// `nft`, so it is compared with its own past and not with what was sent.
    loaded: Option<(Policy, Value)>,
    /// How many transactions there had been after the last one of this router, or when all rules were read.
    generation: u32,
    /// Whether there was one of another process since.
    others: bool,
}

/// Whether packets may pass while rules are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// There are ports or a tunnel.
    Possible,
    /// There is no interface yet.
    None,
}

impl Rules {
    /// To be called on a thread inside the router's namespace.
    pub(super) fn new() -> io::Result<Self> {
        let mut socket = Socket::filter()?;
        let generation = socket.filter_generation()?;
        Ok(Self { socket, loaded: None, generation, others: false })
    }

    /// Replaces all tables at once. Where nobody waits for a packet the scopes follow: `nft` takes many times as long for
    /// them as the kernel.
    pub(super) fn load(&mut self, policy: &Policy, traffic: Traffic) -> Result<(), NetError> {
        let first = match traffic {
            Traffic::Possible => policy.clone(),
            Traffic::None => Policy { mesh: policy.mesh, ..Policy::default() },
        };
        self.loaded = None;
        let listing = self.load_alone(&transaction(&first))?;
        self.loaded = listing.map(|listing| (first, without_elements(listing)));
        if traffic == Traffic::None {
            self.open(&policy.scopes)?;
            self.serve(&policy.served)?;
        }
        Ok(())
    }

    /// Loads tables and lists them. What another process changes before they are listed would be taken for what was
    /// loaded, so it is done again then. `None` if that happened each time: what is there is not known, and is to be
    /// loaded again by whoever asks next whether others have changed something.
    fn load_alone(&mut self, tables: &Value) -> Result<Option<Value>, NetError> {
        for _ in 0..LOADS {
            let before = self.generation()?;
            run(&["-j", "-f", "-"], Some(tables))?;
            let listing = list()?;
            self.note_all()?;
            if self.generation == before.wrapping_add(1) {
                return Ok(Some(listing));
            }
        }
        self.others = true;
        Ok(None)
    }

    /// Lets packets of scopes through.
    pub(crate) fn open(&mut self, scopes: &BTreeMap<NetworkId, Scope>) -> Result<(), NetError> {
        self.change_scopes(ElementChange::Add, scopes)?;
        if let Some((policy, _)) = &mut self.loaded {
            policy.scopes.extend(scopes.clone());
        }
        Ok(())
    }

    /// Drops packets of scopes.
    pub(crate) fn close(&mut self, scopes: &BTreeMap<NetworkId, Scope>) -> Result<(), NetError> {
        self.change_scopes(ElementChange::Remove, scopes)?;
        if let Some((policy, _)) = &mut self.loaded {
            policy.scopes.retain(|id, scope| scopes.get(id) != Some(scope));
        }
        Ok(())
    }

    /// Lets packets of other edges to these addresses through.
    pub(crate) fn serve(&mut self, served: &Served) -> Result<(), NetError> {
        self.change_served(ElementChange::Add, served)?;
        if let Some((policy, _)) = &mut self.loaded {
            policy.served.extend(served);
        }
        Ok(())
    }

    /// Drops packets of other edges to these addresses.
    pub(crate) fn serve_no_more(&mut self, served: &Served) -> Result<(), NetError> {
        self.change_served(ElementChange::Remove, served)?;
        if let Some((policy, _)) = &mut self.loaded {
            policy.served.retain(|address, id| served.get(address) != Some(id));
        }
        Ok(())
    }

    /// The policy that is loaded, or `None` if none is or anything differs from it.
    pub(crate) fn read(&mut self) -> Result<Option<Policy>, NetError> {
        // First: what changes while they are listed is another change.
        self.note_all()?;
        let Some((policy, before)) = &self.loaded else { return Ok(None) };
        let listing = list()?;
        let scopes = sorted(elements(policy.scopes.values()));
        let same_scopes = FAMILIES
            .iter()
            .all(|family| sorted(listed_elements(&listing, family, "scopes")) == scopes);
        let same_served =
            sorted(listed_elements(&listing, "inet", "served")) == sorted(served(policy));
        let unchanged = same_scopes && same_served && without_elements(listing) == *before;
        Ok(unchanged.then(|| policy.clone()))
    }

    /// Whether another process has changed any rule of the namespace since they were read or loaded.
    pub(crate) fn others_changed(&mut self) -> Result<bool, NetError> {
        let generation = self.generation()?;
        Ok(self.others || generation != self.generation)
    }

    /// All that was done so far is known.
    fn note_all(&mut self) -> Result<(), NetError> {
        self.generation = self.generation()?;
        self.others = false;
        Ok(())
    }

    fn generation(&mut self) -> Result<u32, NetError> {
        self.socket.filter_generation().map_err(refused("ask for the generation of the rules"))
    }

    /// Changes elements, and tells that from what others do.
    fn change(
        &mut self,
        change: ElementChange,
        sets: &[FilterSet],
        elements: &[Element],
    ) -> io::Result<()> {
        let own = self.socket.change_elements(change, sets, elements)?;
        let generation = self.socket.filter_generation()?;
        self.others |= generation != self.generation.wrapping_add(own);
        self.generation = generation;
        Ok(())
    }

    fn change_scopes(
        &mut self,
        change: ElementChange,
        scopes: &BTreeMap<NetworkId, Scope>,
    ) -> Result<(), NetError> {
        let elements: Vec<Element> = scopes.values().map(keys).collect();
        let changed = self.change(change, &SCOPES, &elements);
        changed.map_err(refused("change the scopes of the rules"))
    }

    fn change_served(&mut self, change: ElementChange, served: &Served) -> Result<(), NetError> {
        let element = |address: &Ipv4Addr| Element { first: address.octets().to_vec(), last: None };
        let elements: Vec<Element> = served.keys().map(element).collect();
        let changed = self.change(change, &SERVED, &elements);
        changed.map_err(refused("change what the rules let edges reach"))
    }
}

/// A scope in the form of the kernel: the interface, the source and the destination.
fn keys(scope: &Scope) -> Element {
    let mut name = scope.interface.as_str().as_bytes().to_vec();
    name.resize(NAME, 0);
    let subnet = scope.subnet.prefix();
    let key = |address: Ipv4Addr| {
        let address = address.octets();
        [name.as_slice(), &address, &address].concat()
    };
    Element { first: key(subnet.first()), last: Some(key(subnet.last())) }
}

fn list() -> Result<Value, NetError> {
    let output = run(&["-j", "list", "ruleset"], None)?;
    serde_json::from_slice(&output)
        .map_err(|error| NetError::Rules { message: format!("its listing is not JSON: {error}") })
}

fn listed_elements(listing: &Value, family: &str, name: &str) -> Vec<Value> {
    let ours = |set: &&Value| set["family"] == family && set["name"] == name;
    let set = objects(listing).map(|object| &object["set"]).find(ours);
    set.and_then(|set| set["elem"].as_array()).cloned().unwrap_or_default()
}

fn sorted(mut elements: Vec<Value>) -> Vec<Value> {
    elements.sort_by_key(Value::to_string);
    elements
}

/// The listing without what changes from load to load, and without the elements of sets.
fn without_elements(mut listing: Value) -> Value {
    let objects = listing.get_mut("nftables").and_then(Value::as_array_mut).into_iter().flatten();
    for object in objects.filter_map(Value::as_object_mut) {
        object.remove("metainfo");
        for part in object.values_mut().filter_map(Value::as_object_mut) {
            part.remove("handle");
            part.remove("elem");
        }
    }
    listing
}

/// Runs `nft` in the namespace of the calling thread.
fn run(arguments: &[&str], input: Option<&Value>) -> Result<Vec<u8>, NetError> {
    let mut command = Command::new("nft");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(NetError::NoNft)?;
    let mut stdin = child.stdin.take().expect("it was asked for");
    // What is refused is said on standard error, which is read below.
    let sent = input.map_or(Ok(()), |input| stdin.write_all(input.to_string().as_bytes()));
    drop(stdin);
    let output = child.wait_with_output().map_err(NetError::NoNft)?;
    if output.status.success() {
        sent.map_err(NetError::NoNft)?;
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let message = text.lines().next().unwrap_or("it said nothing").to_owned();
    Err(NetError::Rules { message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// R-FAULT-3: what `nft` lists in another form than it should is other rules, not the end of the router.
    #[test]
    fn a_listing_of_another_form_is_kept() {
        for other in [json!([1]), json!("rules"), json!(7), json!(null), json!({"nftables": "x"})] {
            assert_eq!(without_elements(other.clone()), other);
            assert!(listed_elements(&other, "inet", "scopes").is_empty());
        }
    }

    #[test]
    fn handles_and_elements_are_left_out() {
        let listing = json!({"nftables": [{"metainfo": {"version": "1"}}, {"set": {"name": "scopes", "handle": 3, "elem": [1]}}]});
        let left = json!({"nftables": [{}, {"set": {"name": "scopes"}}]});
        assert_eq!(without_elements(listing), left);
    }
}
