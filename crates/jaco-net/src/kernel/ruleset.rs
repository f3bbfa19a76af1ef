//! The rules of a policy, as one transaction of `nft`.
//!
//! Three kinds of packets pass a router:
//!
//! - between containers of a network, from port to tunnel and back: by the scopes, without any state;
//! - to the router: questions for names and echoes, without state either, and the answers to connections that the edge
//!   in this router has made;
//! - from the edges of other sites to what they serve here: they come out of the tunnel with the address of their router
//!   in the mesh, and leave with that of this router in the network, so that the container answers to its own subnet.
//!
//! Only the edges' connections are tracked.

use jaco_dataplane::{Policy, Scope};
use jaco_types::Ipv4Prefix;
use serde_json::{Value, json};

use super::TUNNEL;

/// The families that have a table: `inet` for packets, `arp` for questions about addresses.
pub(super) const FAMILIES: [&str; 2] = ["inet", "arp"];

/// From this port on systems choose the ports of connections by themselves: to such a port come answers. Those that
/// other edges get instead of their own begin here too.
const FIRST_CHOSEN_PORT: u16 = 32_768;

/// Before fragments are put together, which packets that are not tracked are spared.
const BEFORE_FRAGMENTS: i32 = -450;

/// Where source addresses are replaced.
const SOURCE_NAT: i32 = 100;

/// The whole policy. A table is added before it is deleted, so that deleting it cannot fail.
pub(super) fn transaction(policy: &Policy) -> Value {
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
    for (family, hook) in [("inet", "forward"), ("inet", "input"), ("arp", "input")] {
        commands.push(chain(
            family,
            hook,
            json!({ "type": "filter", "prio": 0, "policy": "drop" }),
        ));
    }
    commands.extend(forward_rules());
    commands.extend(input_rules());
    commands.extend(policy.mesh.map(mesh_rules).into_iter().flatten());
    let addresses = [payload("arp", "saddr ip"), payload("arp", "daddr ip")];
    commands.push(rule("arp", "input", vec![in_scope("iifname", addresses), accept()]));
    let elements = elements(policy.scopes.values());
    if !elements.is_empty() {
        commands.extend(FAMILIES.map(|family| element(family, "scopes", &elements)));
    }
    let served = served(policy);
    if !served.is_empty() {
        commands.push(element("inet", "served", &served));
    }
    json!({ "nftables": commands })
}

/// Between tunnel and ports, within one network. No packet goes from port to port: who still knows the address of an instance that is
/// gone is told so, and does not wait for an answer, if its packet comes here: nobody answers ARP for that address.
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
        // To an address of the network that leads into no tunnel: nobody has it any more.
        rule("inet", "forward", vec![in_scope("iifname", ip()), unreachable()]),
    ]
}

/// From a network to the router's address in it: names and echo.
fn input_rules() -> Vec<Value> {
    let from_network =
        |what: Value| rule("inet", "input", vec![in_scope("iifname", ip()), what, accept()]);
    vec![
        rule("inet", "input", vec![equals(meta("iifname"), "lo"), accept()]),
        from_network(equals(payload("udp", "dport"), 53)),
        from_network(equals(payload("tcp", "dport"), 53)),
        from_network(equals(payload("icmp", "type"), echo())),
    ]
}

/// What the tunnel to other routers brings: echoes between routers, and connections of edges.
fn mesh_rules(mesh: Ipv4Prefix) -> Vec<Value> {
    let mesh = || prefix(mesh);
    let from_mesh = || [equals(meta("iifname"), TUNNEL), equals(payload("ip", "saddr"), mesh())];
    let echoes = [equals(payload("icmp", "type"), echo()), accept()];
    let mut rules = vec![json!({ "add": { "set": {
        "family": "inet", "table": "jaco", "name": "served", "type": "ipv4_addr",
    } } })];
    rules.push(rule("inet", "input", from_mesh().into_iter().chain(echoes).collect()));
    rules.extend(tracking_rules(&from_mesh()));
    let [from_tunnel, of_mesh] = from_mesh();
    let request = vec![from_tunnel, differs(meta("oifname"), TUNNEL), of_mesh, to_served()];
    let request = request.into_iter().chain([connections(), accept()]).collect();
    rules.push(rule("inet", "forward", request));
    let to_mesh = [equals(meta("oifname"), TUNNEL), equals(payload("ip", "daddr"), mesh())];
    let answer = to_mesh.into_iter().chain(answers()).chain([accept()]).collect();
    rules.push(rule("inet", "forward", answer));
    rules.push(rule("inet", "input", answers().into_iter().chain([accept()]).collect()));
    rules.push(chain("inet", "postrouting", json!({ "type": "nat", "prio": SOURCE_NAT })));
    let ports = json!({ "masquerade": { "port": { "range": [FIRST_CHOSEN_PORT, u16::MAX] } } });
    // Of this router's edge, too: where a port of its own is another one's towards that instance, it gets one that is
    // tracked in its place.
    let to_container = [differs(meta("oifname"), TUNNEL), connections()];
    let masquerade = to_container.into_iter().chain([ports]).collect();
    rules.push(rule("inet", "postrouting", masquerade));
    rules
}

/// Nothing is tracked but connections of edges: of others to what is served here, and of the one in this router.
fn tracking_rules(from_mesh: &[Value]) -> Vec<Value> {
    let to_router = || equals(json!({ "fib": { "result": "type", "flags": ["daddr"] } }), "local");
    let fragment = json!({ "&": [payload("ip", "frag-off"), 0x1fff] });
    let chosen = |field: &str| {
        json!({ "match": {
            "op": ">=", "left": payload("th", field), "right": FIRST_CHOSEN_PORT,
        } })
    };
    let done = || json!({ "return": null });
    let untracked = || json!({ "notrack": null });
    let filter = || json!({ "type": "filter", "prio": BEFORE_FRAGMENTS });
    let incoming = |what: Vec<Value>| rule("inet", "prerouting", what);
    let outgoing = |what: Vec<Value>| rule("inet", "output", what);
    vec![
        chain("inet", "prerouting", filter()),
        incoming(from_mesh.iter().cloned().chain([to_served(), done()]).collect()),
        // A fragment but the first has no ports.
        incoming(vec![differs(fragment, 0), to_router(), done()]),
        incoming(vec![connections(), chosen("dport"), to_router(), done()]),
        // Errors about a connection.
        incoming(vec![differs(payload("icmp", "type"), echo()), to_router(), done()]),
        incoming(vec![untracked()]),
        chain("inet", "output", filter()),
        outgoing(vec![differs(meta("oifname"), "lo"), connections(), chosen("sport"), done()]),
        outgoing(vec![untracked()]),
    ]
}

fn to_served() -> Value {
    equals(payload("ip", "daddr"), "@served")
}

fn connections() -> Value {
    equals(meta("l4proto"), json!({ "set": ["tcp", "udp"] }))
}

/// What belongs to a connection that is tracked, in the direction of its answers.
fn answers() -> [Value; 2] {
    let of_connection = json!({ "set": ["established", "related"] });
    let tracked = |key: &str| json!({ "ct": { "key": key } });
    [equals(tracked("state"), of_connection), equals(tracked("direction"), "reply")]
}

fn echo() -> Value {
    json!({ "set": ["echo-request", "echo-reply"] })
}

fn chain(family: &str, hook: &str, how: Value) -> Value {
    let mut chain = json!({ "family": family, "table": "jaco", "name": hook, "hook": hook });
    if let (Some(chain), Value::Object(how)) = (chain.as_object_mut(), how) {
        chain.extend(how);
    }
    json!({ "add": { "chain": chain } })
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

fn differs(left: Value, right: impl Into<Value>) -> Value {
    let right = right.into();
    json!({ "match": { "op": "!=", "left": left, "right": right } })
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

fn unreachable() -> Value {
    json!({ "reject": { "type": "icmp", "expr": "host-unreachable" } })
}

fn accept() -> Value {
    json!({ "accept": null })
}

fn prefix(prefix: Ipv4Prefix) -> Value {
    json!({ "prefix": { "addr": prefix.first().to_string(), "len": prefix.length() } })
}

fn element(family: &str, set: &str, elements: &[Value]) -> Value {
    json!({ "add": { "element": {
        "family": family, "table": "jaco", "name": set, "elem": elements,
    } } })
}

/// Addresses that edges serve, as `nft` has them.
pub(super) fn served(policy: &Policy) -> Vec<Value> {
    policy.served.keys().map(|address| address.to_string().into()).collect()
}

/// Scopes, as `nft` has them.
pub(super) fn elements<'a>(scopes: impl Iterator<Item = &'a Scope>) -> Vec<Value> {
    let element = |scope: &Scope| {
        let (interface, subnet) = (scope.interface.as_str(), prefix(scope.subnet.prefix()));
        json!({ "concat": [interface, subnet, subnet] })
    };
    scopes.map(element).collect()
}

/// What a listing or a transaction consists of.
pub(super) fn objects(listing: &Value) -> impl Iterator<Item = &Value> {
    listing["nftables"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use expect_test::expect;
    use jaco_dataplane::InterfaceName;
    use jaco_types::{NetworkId, Subnet};

    use super::*;

    #[test]
    fn a_policy_is_one_transaction() {
        let prefix = |address: [u8; 4], length| Ipv4Prefix::new(address.into(), length).unwrap();
        let interface = InterfaceName::new("s7").unwrap();
        let scope = Scope { interface, subnet: Subnet::new(prefix([10, 65, 3, 0], 24)).unwrap() };
        let local = Policy { scopes: BTreeMap::from([(NetworkId(7), scope)]), ..Policy::default() };
        let meshed = Policy {
            served: BTreeMap::from([(Ipv4Addr::new(10, 65, 3, 9), NetworkId(7))]),
            mesh: Some(prefix([10, 64, 0, 0], 16)),
            ..local.clone()
        };
        let lines = |policy: &Policy| -> Vec<String> {
            objects(&transaction(policy)).map(|command| format!("{command}\n")).collect()
        };
        let (local, meshed) = (lines(&local), lines(&meshed));
        let only_meshed = meshed.iter().filter(|line| !local.contains(line)).cloned();
        let only_meshed: String = only_meshed.collect();
        assert!(local.iter().all(|line| meshed.contains(line)));
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
            {"add":{"rule":{"chain":"forward","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"reject":{"expr":"host-unreachable","type":"icmp"}}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"meta":{"key":"iifname"}},"op":"==","right":"lo"}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"match":{"left":{"payload":{"field":"dport","protocol":"udp"}},"op":"==","right":53}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"match":{"left":{"payload":{"field":"dport","protocol":"tcp"}},"op":"==","right":53}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr","protocol":"ip"}},{"payload":{"field":"daddr","protocol":"ip"}}]},"op":"==","right":"@scopes"}},{"match":{"left":{"payload":{"field":"type","protocol":"icmp"}},"op":"==","right":{"set":["echo-request","echo-reply"]}}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"concat":[{"meta":{"key":"iifname"}},{"payload":{"field":"saddr ip","protocol":"arp"}},{"payload":{"field":"daddr ip","protocol":"arp"}}]},"op":"==","right":"@scopes"}},{"accept":null}],"family":"arp","table":"jaco"}}}
            {"add":{"element":{"elem":[{"concat":["s7",{"prefix":{"addr":"10.65.3.0","len":24}},{"prefix":{"addr":"10.65.3.0","len":24}}]}],"family":"inet","name":"scopes","table":"jaco"}}}
            {"add":{"element":{"elem":[{"concat":["s7",{"prefix":{"addr":"10.65.3.0","len":24}},{"prefix":{"addr":"10.65.3.0","len":24}}]}],"family":"arp","name":"scopes","table":"jaco"}}}
        "#]].assert_eq(&local.concat());
        expect![[r#"
            {"add":{"set":{"family":"inet","name":"served","table":"jaco","type":"ipv4_addr"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"meta":{"key":"iifname"}},"op":"==","right":"wg0"}},{"match":{"left":{"payload":{"field":"saddr","protocol":"ip"}},"op":"==","right":{"prefix":{"addr":"10.64.0.0","len":16}}}},{"match":{"left":{"payload":{"field":"type","protocol":"icmp"}},"op":"==","right":{"set":["echo-request","echo-reply"]}}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"chain":{"family":"inet","hook":"prerouting","name":"prerouting","prio":-450,"table":"jaco","type":"filter"}}}
            {"add":{"rule":{"chain":"prerouting","expr":[{"match":{"left":{"meta":{"key":"iifname"}},"op":"==","right":"wg0"}},{"match":{"left":{"payload":{"field":"saddr","protocol":"ip"}},"op":"==","right":{"prefix":{"addr":"10.64.0.0","len":16}}}},{"match":{"left":{"payload":{"field":"daddr","protocol":"ip"}},"op":"==","right":"@served"}},{"return":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"prerouting","expr":[{"match":{"left":{"&":[{"payload":{"field":"frag-off","protocol":"ip"}},8191]},"op":"!=","right":0}},{"match":{"left":{"fib":{"flags":["daddr"],"result":"type"}},"op":"==","right":"local"}},{"return":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"prerouting","expr":[{"match":{"left":{"meta":{"key":"l4proto"}},"op":"==","right":{"set":["tcp","udp"]}}},{"match":{"left":{"payload":{"field":"dport","protocol":"th"}},"op":">=","right":32768}},{"match":{"left":{"fib":{"flags":["daddr"],"result":"type"}},"op":"==","right":"local"}},{"return":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"prerouting","expr":[{"match":{"left":{"payload":{"field":"type","protocol":"icmp"}},"op":"!=","right":{"set":["echo-request","echo-reply"]}}},{"match":{"left":{"fib":{"flags":["daddr"],"result":"type"}},"op":"==","right":"local"}},{"return":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"prerouting","expr":[{"notrack":null}],"family":"inet","table":"jaco"}}}
            {"add":{"chain":{"family":"inet","hook":"output","name":"output","prio":-450,"table":"jaco","type":"filter"}}}
            {"add":{"rule":{"chain":"output","expr":[{"match":{"left":{"meta":{"key":"oifname"}},"op":"!=","right":"lo"}},{"match":{"left":{"meta":{"key":"l4proto"}},"op":"==","right":{"set":["tcp","udp"]}}},{"match":{"left":{"payload":{"field":"sport","protocol":"th"}},"op":">=","right":32768}},{"return":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"output","expr":[{"notrack":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"forward","expr":[{"match":{"left":{"meta":{"key":"iifname"}},"op":"==","right":"wg0"}},{"match":{"left":{"meta":{"key":"oifname"}},"op":"!=","right":"wg0"}},{"match":{"left":{"payload":{"field":"saddr","protocol":"ip"}},"op":"==","right":{"prefix":{"addr":"10.64.0.0","len":16}}}},{"match":{"left":{"payload":{"field":"daddr","protocol":"ip"}},"op":"==","right":"@served"}},{"match":{"left":{"meta":{"key":"l4proto"}},"op":"==","right":{"set":["tcp","udp"]}}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"forward","expr":[{"match":{"left":{"meta":{"key":"oifname"}},"op":"==","right":"wg0"}},{"match":{"left":{"payload":{"field":"daddr","protocol":"ip"}},"op":"==","right":{"prefix":{"addr":"10.64.0.0","len":16}}}},{"match":{"left":{"ct":{"key":"state"}},"op":"==","right":{"set":["established","related"]}}},{"match":{"left":{"ct":{"key":"direction"}},"op":"==","right":"reply"}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"rule":{"chain":"input","expr":[{"match":{"left":{"ct":{"key":"state"}},"op":"==","right":{"set":["established","related"]}}},{"match":{"left":{"ct":{"key":"direction"}},"op":"==","right":"reply"}},{"accept":null}],"family":"inet","table":"jaco"}}}
            {"add":{"chain":{"family":"inet","hook":"postrouting","name":"postrouting","prio":100,"table":"jaco","type":"nat"}}}
            {"add":{"rule":{"chain":"postrouting","expr":[{"match":{"left":{"meta":{"key":"oifname"}},"op":"!=","right":"wg0"}},{"match":{"left":{"meta":{"key":"l4proto"}},"op":"==","right":{"set":["tcp","udp"]}}},{"masquerade":{"port":{"range":[32768,65535]}}}],"family":"inet","table":"jaco"}}}
            {"add":{"element":{"elem":["10.65.3.9"],"family":"inet","name":"served","table":"jaco"}}}
        "#]].assert_eq(&only_meshed);
    }
}
