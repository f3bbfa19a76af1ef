//! `jaco network`: what is sent, and what is printed.

use std::sync::{Arc, Mutex};

use expect_test::expect;
use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use serde_json::{Value, json};

use crate::fixture::Session;

/// A cluster with two networks that records what it is asked for.
#[derive(Clone, Default)]
struct Cluster {
    asked: Arc<Mutex<Vec<String>>>,
    has_pool: bool,
}

impl Cluster {
    fn note(&self, request: impl std::fmt::Debug, request_id: &str) {
        assert!(!request_id.is_empty());
        let shown = format!("{request:?}").replace(request_id, "");
        self.asked.lock().unwrap().push(shown);
    }

    fn pool(&self) -> Option<v1::NetworkPoolInfo> {
        let (prefix, mesh) = ("10.64.0.0/12".to_owned(), "10.64.0.0/16".to_owned());
        self.has_pool.then_some(v1::NetworkPoolInfo { prefix, mesh, mtu: 1420 })
    }
}

fn network(name: &str) -> v1::NetworkInfo {
    let address = |address: &str, replica: &str, node: &str| v1::NetworkAddress {
        address: address.to_owned(),
        replica: replica.to_owned(),
        raft_index: 12,
        node: node.to_owned(),
        ..v1::NetworkAddress::default()
    };
    let freed = address("10.65.1.3", "shop-web-10", "n1");
    let gone = v1::NetworkAddress { quarantined: true, ..address("10.65.1.9", "shop-db-0", "") };
    v1::NetworkInfo {
        id: 37,
        name: name.to_owned(),
        subnet: "10.65.1.0/24".to_owned(),
        gateway: "10.65.1.1".to_owned(),
        router: "10.65.1.2".to_owned(),
        internal: name == "backbone",
        used: 2,
        quarantined: 2,
        free: 248,
        nodes: vec!["n1".to_owned(), "n2".to_owned()],
        deployments: vec!["blog".to_owned(), "shop".to_owned()],
        bridge: "jn11".to_owned(),
        addresses: vec![
            v1::NetworkAddress { quarantined: true, free_at_ms: 1, ..freed },
            address("10.65.1.4", "shop-web-2", "n2"),
            gone,
        ],
    }
}

impl Script for Cluster {
    fn enable_networks(
        &self,
        request: v1::EnableNetworksRequest,
        _: Option<&str>,
    ) -> Answer<v1::EnableNetworksResponse> {
        self.note(&request, &request.request_id);
        if request.pool == "10.0.0.0/8" {
            let message =
                "networks can be enabled once all members run version 2: n1 runs version 1";
            return Err(Rejection::new(ErrorCode::NetworksNotEnabled, message));
        }
        Ok(v1::EnableNetworksResponse { pool: self.pool() })
    }

    fn create_network(
        &self,
        request: v1::CreateNetworkRequest,
        _: Option<&str>,
    ) -> Answer<v1::CreateNetworkResponse> {
        self.note(&request, &request.request_id);
        Ok(v1::CreateNetworkResponse { network: Some(network(&request.name)) })
    }

    fn remove_network(
        &self,
        request: v1::RemoveNetworkRequest,
        _: Option<&str>,
    ) -> Answer<v1::RemoveNetworkResponse> {
        self.note(&request, &request.request_id);
        Ok(v1::RemoveNetworkResponse {})
    }

    fn resize_network(
        &self,
        request: v1::ResizeNetworkRequest,
        _: Option<&str>,
    ) -> Answer<v1::ResizeNetworkResponse> {
        self.note(&request, &request.request_id);
        Ok(v1::ResizeNetworkResponse { network: Some(network(&request.network)) })
    }

    fn rotate_network_key(
        &self,
        request: v1::RotateNetworkKeyRequest,
        _: Option<&str>,
    ) -> Answer<v1::RotateNetworkKeyResponse> {
        self.asked.lock().unwrap().push(format!("{request:?}"));
        let (before, key) = (vec![0; 32].into(), (0..32).collect::<Vec<u8>>().into());
        Ok(v1::RotateNetworkKeyResponse { before, key })
    }

    fn list_networks(
        &self,
        request: v1::ListNetworksRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListNetworksResponse> {
        let name = Some(request.network).filter(|name| !name.is_empty());
        let networks = match (self.has_pool, name) {
            (false, _) => Vec::new(),
            (true, Some(name)) => vec![network(&name)],
            (true, None) => vec![network("backbone"), network("shop/default")],
        };
        Ok(v1::ListNetworksResponse { pool: self.pool(), networks })
    }

    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let address = |network: &str, address: &str| v1::ReplicaAddress {
            network: network.to_owned(),
            address: address.to_owned(),
        };
        let replica = v1::ReplicaInfo {
            id: "shop-web-0".to_owned(),
            state: "running".to_owned(),
            addresses: vec![address("shop/default", "10.65.1.4"), address("lan", "10.65.2.3")],
            ..v1::ReplicaInfo::default()
        };
        Ok(Feed::of(vec![v1::StatusResponse {
            replicas: vec![replica],
            ..v1::StatusResponse::default()
        }]))
    }
}

fn session(has_pool: bool) -> (Session, Cluster) {
    let cluster = Cluster { has_pool, ..Cluster::default() };
    (Session::with(cluster.clone()), cluster)
}

/// R-CLI-6: pool and MTU have defaults; a refusal has its code; nothing invalid is sent.
#[test]
fn networks_are_enabled() {
    let (session, cluster) = session(true);
    let run = session.run("network enable");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    expect![[r#"
        networks of the cluster enabled: pool 10.64.0.0/12, MTU 1420
        Each deployment gets them with its next apply, which replaces its replicas.
    "#]]
    .assert_eq(&run.out);
    session.run("network enable --pool 172.16.0.0/12 --mtu 1370 -o json");
    let sent = |pool: &str, mtu: u32| {
        format!(r#"EnableNetworksRequest {{ pool: "{pool}", mtu: {mtu}, request_id: "" }}"#)
    };
    let asked = std::mem::take(&mut *cluster.asked.lock().unwrap());
    assert_eq!(asked, [sent("10.64.0.0/12", 1420), sent("172.16.0.0/12", 1370)]);
    let refused = session.run("network enable --pool 10.64.0.1/12");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("use the first address of a range"), "{}", refused.err);
    assert!(cluster.asked.lock().unwrap().is_empty());
    let refused = session.run("network enable --pool 10.0.0.0/8");
    assert_eq!(refused.code, Some(3), "{}", refused.err);
    assert!(refused.err.contains("n1 runs version 1"), "{}", refused.err);
    assert!(refused.err.contains("networks_not_enabled"), "{}", refused.err);
}

/// R-CLI-6: a key is shown as WireGuard's own tools show it.
#[test]
fn a_key_is_rotated_by_node() {
    let (session, cluster) = session(true);
    let run = session.run("network rotate-key n2");
    expect![[r#"
        router of n2: key AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= in place of AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
    "#]]
    .assert_eq(&run.out);
    let run = session.run("network rotate-key n2 -o json");
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["node"], "n2");
    assert_eq!(json["key"], "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let asked = std::mem::take(&mut *cluster.asked.lock().unwrap());
    assert_eq!(asked, [r#"RotateNetworkKeyRequest { hostname: "n2" }"#; 2]);
}

/// R-CLI-6: shared networks are created, resized and removed by name.
#[test]
fn shared_networks_are_managed() {
    let (session, cluster) = session(true);
    let run = session.run("network create backbone --internal --prefix-length 22");
    assert_eq!(run.out, "network backbone created with subnet 10.65.1.0/24\n", "{}", run.err);
    let run = session.run("network resize shop/default 20");
    assert_eq!(run.out, "network shop/default has subnet 10.65.1.0/24\n", "{}", run.err);
    assert_eq!(session.run("network rm backbone").out, "network backbone removed\n");
    assert_eq!(session.run("network delete backbone -o json").code, Some(0));
    let asked = std::mem::take(&mut *cluster.asked.lock().unwrap()).join("\n");
    expect![[r#"
        CreateNetworkRequest { name: "backbone", internal: true, prefix_length: 22, request_id: "" }
        ResizeNetworkRequest { network: "shop/default", prefix_length: 20, request_id: "" }
        RemoveNetworkRequest { name: "backbone", request_id: "" }
        RemoveNetworkRequest { name: "backbone", request_id: "" }"#]]
    .assert_eq(&asked);
    for line in ["create shop/default", "create -x", "create a..b/", "rm ''", "inspect a/b/c"] {
        assert_eq!(session.run(&format!("network {line}")).code, Some(2), "{line}");
    }
    assert!(cluster.asked.lock().unwrap().is_empty());
}

/// R-CLI-6: networks are listed with what is free in them; without a pool the command that makes one is named.
#[test]
fn networks_are_listed() {
    let (session, _) = session(true);
    expect![[r#"
        NAME          SUBNET        USED  FREE  NODES  INTERNAL  DEPLOYMENTS
        backbone      10.65.1.0/24  2     248   2      yes       blog, shop
        shop/default  10.65.1.0/24  2     248   2      no        blog, shop
    "#]]
    .assert_eq(&session.run("network list").out);
    let listed: Value = serde_json::from_str(&session.run("network ls -o json").out).unwrap();
    assert_eq!((&listed[0]["internal"], &listed[1]["bridge"]), (&json!(true), &json!("jn11")));
    assert!(listed[0].get("addresses").is_none());
    let (session, _) = self::session(false);
    let run = session.run("network ls");
    assert!(run.err.contains("jaco network enable"), "{}", run.err);
    assert_eq!(run.code, Some(0));
}

/// R-CLI-6: a network is inspected with its addresses by replica, those in quarantine included.
#[test]
fn addresses_are_inspected() {
    let (session, _) = session(true);
    expect![[r#"
        Network:     shop/default
        Id:          37
        Subnet:      10.65.1.0/24
        Gateway:     10.65.1.1
        Router:      10.65.1.2
        Bridge:      jn11
        MTU:         1420
        Internal:    no
        Nodes:       n1, n2
        Deployments: blog, shop
        Addresses:   2 used, 2 in quarantine, 248 free

        REPLICA      ADDRESS    NODE  STATUS
        shop-db-0    10.65.1.9  -     in quarantine until its node reports that the instance is gone
        shop-web-2   10.65.1.4  n2    in use
        shop-web-10  10.65.1.3  n1    free
    "#]]
    .assert_eq(&session.run("network inspect shop/default").out);
    let json = session.run("network inspect shop/default -o json").out;
    let json: Value = serde_json::from_str(&json).unwrap();
    let expected = json!({
        "address": "10.65.1.3", "replica": "shop-web-10", "raft_index": 12, "node": "n1",
        "quarantined": true, "free_at": "1970-01-01T00:00:00.001Z",
    });
    assert_eq!(json[0]["addresses"][0], expected);
    assert_eq!(json[0]["mtu"], json!(1420));
}

/// R-CLI-6: a replica has its addresses in the order in which it is attached.
#[test]
fn replicas_have_addresses() {
    let (session, _) = session(true);
    let wide = session.run("get replicas -o wide").out;
    let lines: Vec<&str> = wide.lines().collect();
    let at = lines[0].find("ADDRESS").expect("there is such a column");
    assert!(lines[1][at..].starts_with("10.65.1.4 10.65.2.3 "), "{wide}");
    let json: Value =
        serde_json::from_str(&session.run("get replica shop-web-0 -o json").out).unwrap();
    let expected = json!([
        {"network": "shop/default", "address": "10.65.1.4"},
        {"network": "lan", "address": "10.65.2.3"},
    ]);
    assert_eq!(json["addresses"], expected);
}
