//! A small cluster, written out: what one site holds, and the steps when it changes.

use expect_test::expect;
use jaco_dataplane::{Exposure, InterfaceName, Seen, Topology, diff, plan};
use jaco_types::{NetworkId, NodeId};

use crate::cluster::{instance, rekey, topology};

fn shop() -> Topology {
    let instances = [
        instance(1, "shop/web", &[7], 10),
        instance(2, "shop/db", &[7], 11),
        instance(2, "blog/web", &[8], 10),
        instance(3, "blog/db", &[8], 11),
    ];
    topology(&[1, 2, 3], &[7, 8], instances)
}

/// One line per step, without what does not matter here.
fn steps(before: &Topology, after: &Topology) -> String {
    steps_of(1, before, after)
}

fn steps_of(site: u64, before: &Topology, after: &Topology) -> String {
    let seen = Seen::of(&plan(before, NodeId(site)));
    let steps = diff(&plan(after, NodeId(site)), &seen);
    steps.iter().map(|step| format!("{step:?}\n")).collect()
}

#[test]
fn a_site_holds_its_own_networks_and_the_ways_to_their_members() {
    let plan = plan(&shop(), NodeId(1));
    expect![[r#"
        SitePlan {
            policy: Policy {
                scopes: {
                    NetworkId(
                        7,
                    ): Scope {
                        interface: s7,
                        subnet: Subnet(
                            10.65.7.0/24,
                        ),
                    },
                },
                served: {},
                mesh: Some(
                    10.64.0.0/16,
                ),
            },
            tunnel: Some(
                Tunnel {
                    address: 10.64.0.1,
                    mesh: 10.64.0.0/16,
                    key: 01010101…,
                    mtu: 1420,
                },
            ),
            ports: {
                NetworkId(
                    7,
                ): Port {
                    interface: s7,
                    bridge_end: jr7,
                    bridge: br-7,
                    subnet: Subnet(
                        10.65.7.0/24,
                    ),
                    mtu: 1420,
                },
            },
            peers: {
                02020202…: Peer {
                    endpoint: Some(
                        192.0.2.2:51820,
                    ),
                    addresses: {
                        10.64.0.2,
                        10.65.7.11,
                    },
                },
            },
            routes: {
                10.65.7.11: NetworkId(
                    7,
                ),
            },
            names: Names {
                known: {
                    (
                        NetworkId(
                            7,
                        ),
                        "db",
                    ): {
                        "shop": Addresses {
                            ready_here: {},
                            ready_elsewhere: {
                                10.65.7.11,
                            },
                            starting: {},
                        },
                    },
                    (
                        NetworkId(
                            7,
                        ),
                        "db-11",
                    ): {
                        "shop": Addresses {
                            ready_here: {},
                            ready_elsewhere: {
                                10.65.7.11,
                            },
                            starting: {},
                        },
                    },
                    (
                        NetworkId(
                            7,
                        ),
                        "web",
                    ): {
                        "shop": Addresses {
                            ready_here: {
                                10.65.7.10,
                            },
                            ready_elsewhere: {},
                            starting: {},
                        },
                    },
                    (
                        NetworkId(
                            7,
                        ),
                        "web-10",
                    ): {
                        "shop": Addresses {
                            ready_here: {
                                10.65.7.10,
                            },
                            ready_elsewhere: {},
                            starting: {},
                        },
                    },
                },
                owners: {
                    10.65.7.10: Owner {
                        network: NetworkId(
                            7,
                        ),
                        name: "web-10.shop",
                    },
                    10.65.7.11: Owner {
                        network: NetworkId(
                            7,
                        ),
                        name: "db-11.shop",
                    },
                },
                askers: {
                    10.65.7.10: Asker {
                        deployment: "shop",
                        networks: [
                            NetworkId(
                                7,
                            ),
                        ],
                        reach: Outside,
                        resolvers: [],
                    },
                },
                pool: Some(
                    10.64.0.0/12,
                ),
            },
            listeners: {},
        }
    "#]]
    .assert_eq(&format!("{plan:#?}\n"));
}

#[test]
fn an_empty_router_gets_its_policy_first_and_names_last() {
    let seen = Seen::default();
    let steps = diff(&plan(&shop(), NodeId(1)), &seen);
    let lines: String = steps.iter().map(|step| format!("{step:?}\n")).collect();
    expect![[r#"
        LoadPolicy(Policy { scopes: {NetworkId(7): Scope { interface: s7, subnet: Subnet(10.65.7.0/24) }}, served: {}, mesh: Some(10.64.0.0/16) })
        AddTunnel(Tunnel { address: 10.64.0.1, mesh: 10.64.0.0/16, key: 01010101…, mtu: 1420 })
        AddPort(Port { interface: s7, bridge_end: jr7, bridge: br-7, subnet: Subnet(10.65.7.0/24), mtu: 1420 })
        SetPeer { key: 02020202…, peer: Peer { endpoint: Some(192.0.2.2:51820), addresses: {10.64.0.2, 10.65.7.11} } }
        AddRoutes({10.65.7.11})
        ChangeNames(NamesChange { known: {(NetworkId(7), "db"): Some({"shop": Addresses { ready_here: {}, ready_elsewhere: {10.65.7.11}, starting: {} }}), (NetworkId(7), "db-11"): Some({"shop": Addresses { ready_here: {}, ready_elsewhere: {10.65.7.11}, starting: {} }}), (NetworkId(7), "web"): Some({"shop": Addresses { ready_here: {10.65.7.10}, ready_elsewhere: {}, starting: {} }}), (NetworkId(7), "web-10"): Some({"shop": Addresses { ready_here: {10.65.7.10}, ready_elsewhere: {}, starting: {} }})}, owners: {10.65.7.10: Some(Owner { network: NetworkId(7), name: "web-10.shop" }), 10.65.7.11: Some(Owner { network: NetworkId(7), name: "db-11.shop" })}, askers: {10.65.7.10: Some(Asker { deployment: "shop", networks: [NetworkId(7)], reach: Outside, resolvers: [] })}, pool: Some(Some(10.64.0.0/12)) })
    "#]].assert_eq(&lines);
}

/// The first site has no part in network 8: it gets the way to what edges serve there, and neither port nor name. The
/// third one has all others as peers, as their edges come.
#[test]
fn what_edges_serve_is_a_route_elsewhere_and_a_peer_here() {
    let mut after = shop();
    let db = after.instances.values_mut().find(|it| it.node == NodeId(3)).unwrap();
    db.exposure = Exposure::Edges;
    expect![[r#"
        SetPeer { key: 03030303…, peer: Peer { endpoint: Some(192.0.2.3:51820), addresses: {10.64.0.3, 10.65.8.11} } }
        AddRoutes({10.65.8.11})
    "#]].assert_eq(&steps(&shop(), &after));
    expect![[r#"
        RemoveRoutes({10.65.8.11})
        RemovePeer(03030303…)
    "#]]
    .assert_eq(&steps(&after, &shop()));
    expect![[r#"
        OpenServed({10.65.8.11: NetworkId(8)})
        SetPeer { key: 01010101…, peer: Peer { endpoint: Some(192.0.2.1:51820), addresses: {10.64.0.1} } }
    "#]].assert_eq(&steps_of(3, &shop(), &after));
    expect![[r#"
        RemovePeer(01010101…)
        CloseServed({10.65.8.11: NetworkId(8)})
    "#]]
    .assert_eq(&steps_of(3, &after, &shop()));
}

#[test]
fn a_new_instance_elsewhere_is_a_peer_then_a_route_then_a_name() {
    let mut after = shop();
    let new = instance(3, "shop/db", &[7], 12);
    after.instances.insert(crate::cluster::instance_id(90), new);
    expect![[r#"
        SetPeer { key: 03030303…, peer: Peer { endpoint: Some(192.0.2.3:51820), addresses: {10.64.0.3, 10.65.7.12} } }
        AddRoutes({10.65.7.12})
        ChangeNames(NamesChange { known: {(NetworkId(7), "db"): Some({"shop": Addresses { ready_here: {}, ready_elsewhere: {10.65.7.11, 10.65.7.12}, starting: {} }}), (NetworkId(7), "db-12"): Some({"shop": Addresses { ready_here: {}, ready_elsewhere: {10.65.7.12}, starting: {} }})}, owners: {10.65.7.12: Some(Owner { network: NetworkId(7), name: "db-12.shop" })}, askers: {}, pool: None })
    "#]].assert_eq(&steps(&shop(), &after));
    // And the other way round when it goes.
    expect![[r#"
        ChangeNames(NamesChange { known: {(NetworkId(7), "db"): Some({"shop": Addresses { ready_here: {}, ready_elsewhere: {10.65.7.11}, starting: {} }}), (NetworkId(7), "db-12"): None}, owners: {10.65.7.12: None}, askers: {}, pool: None })
        RemoveRoutes({10.65.7.12})
        RemovePeer(03030303…)
    "#]].assert_eq(&steps(&after, &shop()));
}

/// A node that has no tunnel any more, or is removed, drops packets to the others once no name leads to them (swarm seed
/// 204874): the policy is another one, and yet not the first step.
#[test]
fn names_go_before_the_policy_of_their_mesh() {
    let mut after = shop();
    after.nodes.get_mut(&NodeId(1)).unwrap().link = None;
    let mut gone = shop();
    gone.nodes.remove(&NodeId(1));
    for after in [after, gone] {
        let steps = steps(&shop(), &after);
        let at = |step: &str| steps.lines().position(|line| line.starts_with(step));
        assert!(at("ChangeNames").unwrap() < at("LoadPolicy").unwrap(), "{steps}");
        assert!(at("LoadPolicy").unwrap() < at("RemoveTunnel").unwrap(), "{steps}");
    }
}

/// A tunnel that gets another key keeps its routes; one whose peer has another key is never without a peer for them.
#[test]
fn another_key_takes_no_route_away() {
    let mut after = shop();
    rekey(&mut after, 1);
    expect![[r#"
        SetKey(65656565…)
    "#]]
    .assert_eq(&steps(&shop(), &after));
    let mut after = shop();
    rekey(&mut after, 2);
    expect![[r#"
        SetPeer { key: 66666666…, peer: Peer { endpoint: Some(192.0.2.2:51820), addresses: {10.64.0.2, 10.65.7.11} } }
        RemovePeer(02020202…)
    "#]]
    .assert_eq(&steps(&shop(), &after));
}

#[test]
fn the_last_instance_takes_the_port_with_it() {
    let mut after = shop();
    after.instances.retain(|_, instance| instance.node != NodeId(1));
    expect![[r#"
        ChangeNames(NamesChange { known: {(NetworkId(7), "db"): None, (NetworkId(7), "db-11"): None, (NetworkId(7), "web"): None, (NetworkId(7), "web-10"): None}, owners: {10.65.7.10: None, 10.65.7.11: None}, askers: {10.65.7.10: None}, pool: None })
        RemoveRoutes({10.65.7.11})
        RemovePeer(02020202…)
        RemovePort(s7)
        CloseScopes({NetworkId(7): Scope { interface: s7, subnet: Subnet(10.65.7.0/24) }})
    "#]].assert_eq(&steps(&shop(), &after));
}

#[test]
fn an_instance_that_moves_leaves_one_peer_before_it_joins_the_other() {
    let mut after = shop();
    let moved = after
        .instances
        .values_mut()
        .find(|it| it.deployment.as_str() == "shop" && it.node == NodeId(2));
    moved.unwrap().node = NodeId(3);
    expect![[r#"
        RemovePeer(02020202…)
        SetPeer { key: 03030303…, peer: Peer { endpoint: Some(192.0.2.3:51820), addresses: {10.64.0.3, 10.65.7.11} } }
    "#]].assert_eq(&steps(&shop(), &after));
}

#[test]
fn interfaces_fit_the_kernel_for_every_id() {
    let mut topology = shop();
    let network = topology.networks.remove(&NetworkId(7)).unwrap();
    topology.networks.insert(NetworkId(u32::MAX), network);
    for instance in topology.instances.values_mut() {
        for (id, _) in instance.addresses.iter_mut().filter(|(id, _)| id.0 == 7) {
            *id = NetworkId(u32::MAX);
        }
    }
    let port = &plan(&topology, NodeId(1)).ports[&NetworkId(u32::MAX)];
    assert_eq!(port.interface.as_str(), "s1z141z3");
    assert_eq!(port.bridge_end.as_str(), "jr1z141z3");
    assert!(InterfaceName::new(port.bridge_end.as_str()).is_ok());
    for wrong in ["", "a b", "a/b", "sixteencharacter", ".."] {
        assert!(InterfaceName::new(wrong).is_err(), "{wrong:?}");
    }
}
