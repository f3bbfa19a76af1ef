//! The rules, as one transaction of `nft`, and their scopes: they are in the router's namespace and in no other.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use jaco_dataplane::{Policy, Scope};
use jaco_types::{Ipv4Prefix, NetworkId};
use serde_json::{Value, json};

use super::TUNNEL;
use crate::error::{NetError, refused};
use crate::netlink::{Element, ElementChange, FilterSet, Socket};

/// The families that have a table: `inet` for packets, `arp` for questions about addresses.
const FAMILIES: [&str; 2] = ["inet", "arp"];

/// The sets of these tables, by the numbers that the kernel has for the families.
const SETS: [FilterSet; 2] = [
    FilterSet { family: 1, table: "jaco", name: "scopes" },
    FilterSet { family: 3, table: "jaco", name: "scopes" },
];

/// Bytes of an interface's name in a key.
const NAME: usize = 16;

/// The loaded rules.
#[derive(Debug)]
pub(crate) struct Rules {
    /// For the elements of sets.
    socket: Socket,
    /// What was loaded, and how `nft` lists it without its scopes. The listing differs between releases of
    /// `nft`, so it is compared with its own past and not with what was sent.
    loaded: Option<(Policy, Value)>,
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
        Ok(Self { socket: Socket::filter()?, loaded: None })
    }

    /// Replaces all tables at once. Where nobody waits for a packet the scopes follow: `nft` takes many times as long for
    /// them as the kernel.
    pub(super) fn load(&mut self, policy: &Policy, traffic: Traffic) -> Result<(), NetError> {
        let (first, later) = match traffic {
            Traffic::Possible => (policy.clone(), BTreeMap::new()),
            Traffic::None => {
                (Policy { scopes: BTreeMap::new(), ..policy.clone() }, policy.scopes.clone())
            }
        };
        self.loaded = None;
        run(&["-j", "-f", "-"], Some(&transaction(&first)))?;
        self.loaded = Some((first, without_scopes(list()?)));
        self.open(&later)
    }

    /// Lets packets of scopes through.
    pub(crate) fn open(&mut self, scopes: &BTreeMap<NetworkId, Scope>) -> Result<(), NetError> {
        self.change(ElementChange::Add, scopes)?;
        if let Some((policy, _)) = &mut self.loaded {
            policy.scopes.extend(scopes.clone());
        }
        Ok(())
    }

    /// Drops packets of scopes.
    pub(crate) fn close(&mut self, scopes: &BTreeMap<NetworkId, Scope>) -> Result<(), NetError> {
        self.change(ElementChange::Remove, scopes)?;
        if let Some((policy, _)) = &mut self.loaded {
            policy.scopes.retain(|id, scope| scopes.get(id) != Some(scope));
        }
        Ok(())
    }

    /// The policy that is loaded, or `None` if none is or anything differs from it.
    pub(crate) fn read(&self) -> Result<Option<Policy>, NetError> {
        let Some((policy, before)) = &self.loaded else { return Ok(None) };
        let listing = list()?;
        let expected = elements(policy.scopes.values());
        let same = FAMILIES.iter().all(|family| {
            let mut found = listed_elements(&listing, family);
            let mut expected = expected.clone();
            found.sort_by_key(Value::to_string);
            expected.sort_by_key(Value::to_string);
            found == expected
        });
        let unchanged = same && without_scopes(listing) == *before;
        Ok(unchanged.then(|| policy.clone()))
    }

    fn change(
        &mut self,
        change: ElementChange,
        scopes: &BTreeMap<NetworkId, Scope>,
    ) -> Result<(), NetError> {
        let elements: Vec<Element> = scopes.values().map(keys).collect();
        let changed = self.socket.change_elements(change, &SETS, &elements);
        changed.map_err(refused("change the scopes of the rules"))
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
    Element { first: key(subnet.first()), last: key(subnet.last()) }
}

/// The whole policy. A table is added before it is deleted, so that deleting it cannot fail.
fn transaction(policy: &Policy) -> Value {
    let mut commands = Vec::new();
    for family in FAMILIES {
        let table = json!({ "table": { "family": family, "name": "jaco" } });
        commands.extend([
            json!({ "add": table }),
            json!({ "delete": table }),
            json!({ "add": table }),
        ]);
        commands.push(json!({ "add": { "set": {
            "family": family, "table": "jaco", "name": "scopes",
            "type": ["ifname", "ipv4_addr", "ipv4_addr"], "flags": ["interval"],
        } } }));
    }
    for (family, chain) in [("inet", "forward"), ("inet", "input"), ("arp", "input")] {
        commands.push(json!({ "add": { "chain": {
            "family": family, "table": "jaco", "name": chain,
            "type": "filter", "hook": chain, "prio": 0, "policy": "drop",
        } } }));
    }
    commands.extend(forward_rules());
    commands.extend(input_rules(policy.mesh));
    let addresses = [payload("arp", "saddr ip"), payload("arp", "daddr ip")];
    commands.push(rule("arp", "input", vec![in_scope("iifname", addresses), accept()]));
    let elements = elements(policy.scopes.values());
    if !elements.is_empty() {
        commands.extend(FAMILIES.map(|family| json!({ "add": element(family, &elements) })));
    }
    json!({ "nftables": commands })
}

/// Between tunnel and ports, within one network. No packet goes from port to port.
fn forward_rules() -> Vec<Value> {
    let syn = json!({ "match": {
        "op": "==", "right": "syn",
        "left": { "&": [payload("tcp", "flags"), ["syn", "rst"]] },
    } });
    let clamp = json!({ "mangle": {
        "key": { "tcp option": { "name": "maxseg", "field": "size" } },
        "value": { "rt": { "key": "mtu" } },
    } });
    let between = |tunnel: &str, port: &str| {
        rule("inet", "forward", vec![equals(meta(tunnel), TUNNEL), in_scope(port, ip()), accept()])
    };
    vec![
        rule("inet", "forward", vec![syn, clamp]),
        between("oifname", "iifname"),
        between("iifname", "oifname"),
    ]
}

/// From a network to the router's address in it: names and echo. From other routers: echo.
fn input_rules(mesh: Option<Ipv4Prefix>) -> Vec<Value> {
    let from_network =
        |what: Value| rule("inet", "input", vec![in_scope("iifname", ip()), what, accept()]);
    let echo = || {
        json!({ "match": {
        "op": "==", "left": payload("icmp", "type"),
        "right": { "set": ["echo-request", "echo-reply"] },
    } })
    };
    let mut rules = vec![
        rule("inet", "input", vec![equals(meta("iifname"), "lo"), accept()]),
        from_network(equals(payload("udp", "dport"), 53)),
        from_network(equals(payload("tcp", "dport"), 53)),
        from_network(echo()),
    ];
    rules.extend(mesh.map(|mesh| {
        let from = [equals(meta("iifname"), TUNNEL), equals(payload("ip", "saddr"), prefix(mesh))];
        rule("inet", "input", from.into_iter().chain([echo(), accept()]).collect())
    }));
    rules
}

fn rule(family: &str, chain: &str, expr: Vec<Value>) -> Value {
    json!({ "add": { "rule": {
        "family": family, "table": "jaco", "chain": chain, "expr": expr,
    } } })
}

fn in_scope(interface: &str, [source, destination]: [Value; 2]) -> Value {
    equals(json!({ "concat": [meta(interface), source, destination] }), "@scopes")
}

fn equals(left: Value, right: impl Into<Value>) -> Value {
    let right = right.into();
    json!({ "match": { "op": "==", "left": left, "right": right } })
}

fn meta(key: &str) -> Value {
    json!({ "meta": { "key": key } })
}

fn payload(protocol: &str, field: &str) -> Value {
    json!({ "payload": { "protocol": protocol, "field": field } })
}

fn ip() -> [Value; 2] {
    [payload("ip", "saddr"), payload("ip", "daddr")]
}

fn accept() -> Value {
    json!({ "accept": null })
}

fn prefix(prefix: Ipv4Prefix) -> Value {
    json!({ "prefix": { "addr": prefix.first().to_string(), "len": prefix.length() } })
}

fn element(family: &str, elements: &[Value]) -> Value {
    json!({ "element": {
        "family": family, "table": "jaco", "name": "scopes", "elem": elements,
    } })
}

fn elements<'a>(scopes: impl Iterator<Item = &'a Scope>) -> Vec<Value> {
    let element = |scope: &Scope| {
        let (interface, subnet) = (scope.interface.as_str(), prefix(scope.subnet.prefix()));
        json!({ "concat": [interface, subnet, subnet] })
    };
    scopes.map(element).collect()
}

fn list() -> Result<Value, NetError> {
    let output = run(&["-j", "list", "ruleset"], None)?;
    serde_json::from_slice(&output)
        .map_err(|error| NetError::Rules { message: format!("its listing is not JSON: {error}") })
}

fn objects(listing: &Value) -> impl Iterator<Item = &Value> {
    listing["nftables"].as_array().into_iter().flatten()
}

fn listed_elements(listing: &Value, family: &str) -> Vec<Value> {
    let ours = |set: &&Value| set["family"] == family && set["name"] == "scopes";
    let set = objects(listing).map(|object| &object["set"]).find(ours);
    set.and_then(|set| set["elem"].as_array()).cloned().unwrap_or_default()
}

/// The listing without what changes from load to load, and without the scopes.
fn without_scopes(mut listing: Value) -> Value {
    let objects = listing["nftables"].as_array_mut().into_iter().flatten();
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
    use expect_test::expect;
    use jaco_dataplane::InterfaceName;
    use jaco_types::Subnet;

    use super::*;

    #[test]
    fn a_policy_is_one_transaction() {
        let prefix = |address: [u8; 4], length| Ipv4Prefix::new(address.into(), length).unwrap();
        let interface = InterfaceName::new("s7").unwrap();
        let scope = Scope { interface, subnet: Subnet::new(prefix([10, 65, 3, 0], 24)).unwrap() };
        let policy = Policy {
            scopes: BTreeMap::from([(NetworkId(7), scope)]),
            mesh: Some(prefix([10, 64, 0, 0], 16)),
        };
        let commands = transaction(&policy);
        let lines: String = objects(&commands).map(|command| format!("{command}\n")).collect();
        expect![[r#"
            {"add":{"table":{"family":"inet","name":"jaco"}}}
            {"delete":{"table":{"family":"inet","name":"jaco"}}}
            {"add":{"table":{"family":"inet","name":"jaco"}}}
            {"add":{"set":{"family":"inet","flags":["interval"],"name":"scopes","table":"jaco","type":["ifname","ipv4_addr","ipv4_addr"]}}}
            {"add":{"table":{"family":"arp","name":"jaco"}}}
            {"delete":{"table":{"family":"arp","name":"jaco"}}}
            {"add":{"table":{"family":"arp","name":"jaco"}}}
            {"add":{"set":{"family":"arp","flags":["interval"],"name":"scopes","table":"jaco","type":["ifname","ipv4_addr","ipv4_addr"]}}}
            {"add":{"chain":{"family":"inet","hook":"forward","name":"forward","policy":"drop","prio":0,"table":"jaco","type":"filter"}}}
            {"add":{"chain":{"family":"inet","hook":"input","name":"input","policy":"drop","prio":0,"table":"jaco","type":"filter"}}}
            {"add":{"chain":{"family":"arp","hook":"input","name":"input","policy":"drop","prio":0,"table":"jaco","type":"filter"}}}
            {"add":{"rule":{"chain":"forward","expr":[{"match":{"left":{"&":[{"payload":{"field":"flags","protocol":"tcp"}},["syn","rst"]]},"op":"==","right":"syn"}},{"mangle":{"key":{"tcp option":{"field":"size","name":"maxseg"}},"value":{"rt":{"key":"mtu"}}}}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"forward","expr":[{"match":{"left":{"meta":{"key":"oifname"}},"op":"==","right":"wg0"}},{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"forward","expr":[{"match":{"left":{"meta":{"key":"iifname"}},"op":"==","right":"wg0"}},{"match":{"left":{"concat":[{"meta":{"key":"oifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"meta":{"key":"iifname"}},"op":"==","right":"lo"}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"match":{"left":{"payload":{"field":"dport","protocol":"udp"}},"op":"==","right":53}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"match":{"left":{"payload":{"field":"dport","protocol":"tcp"}},"op":"==","right":53}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"match":{"left":{"payload":{"field":"type","protocol":"icmp"}},"op":"==","right":{"set":["echo-request","echo-reply"]}}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"meta":{"key":"iifname"}},"op":"==","right":"wg0"}},{"match":{"left":{"payload":{"field":"saddr","protocol":"ip"}},"op":"==","right":{"prefix":{"addr":"10.64.0.0","len":16}}}},{"match":{"left":{"payload":{"field":"type","protocol":"icmp"}},"op":"==","right":{"set":["echo-request","echo-reply"]}}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr ip","protocol":"arp"}},{"payload":{"field":"daddr ip","protocol":"arp"}}]},"op":"==","right":"@scopes"}},{"accept":null}],"family":"arp","table":"jaco"}}}
            {"add":{"element":{"elem":[{"concat":["s7",{"prefix":{"addr":"10.65.3.0","len":24}},{"prefix":{"addr":"10.65.3.0","len":24}}]}],"family":"inet","name":"scopes","table":"jaco"}}}
            {"add":{"element":{"elem":[{"concat":["s7",{"prefix":{"addr":"10.65.3.0","len":24}},{"prefix":{"addr":"10.65.3.0","len":24}}]}],"family":"arp","name":"scopes","table":"jaco"}}}
        "#]].assert_eq(&lines);
    }
}
