//! Applies that are admitted, and those that are refused.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::command::DeploymentApply;
use jaco_state::{ClusterState, Entry, Outcome, apply};
use jaco_types::spec::{
    FailureAction, Placement, Privilege, RollbackFailureAction, RollbackPolicy, UpdateOrder,
    UpdatePolicy,
};
use jaco_types::{Hostname, Identity, Millis, NetworkName, ServiceName, StateIndex, Timestamp};

use super::*;

fn request(compose_json: &str, overlay_yaml: &str) -> v1::ApplyRequest {
    v1::ApplyRequest {
        compose_json: compose_json.to_owned(),
        overlay_yaml: overlay_yaml.to_owned(),
        ..v1::ApplyRequest::default()
    }
}

const SHOP: &str = r#"{"name":"shop","services":{"web":{"image":"web:1"}}}"#;

fn admit(request: &v1::ApplyRequest) -> Result<Admitted, Rejection> {
    super::admit(request, &Stored::default())
}

/// The state after this apply.
fn applied(admitted: &Admitted) -> Stored {
    let mut state = ClusterState::default();
    let Admitted { name, spec, .. } = admitted.clone();
    let command = DeploymentApply::new(name, spec).into();
    let (index, at, by) = (StateIndex(1), Timestamp(0), Identity::Scheduler);
    let entry = Entry { index, at, by, origin: None, request: None, command };
    assert!(matches!(apply(&mut state, &entry), Outcome::Deployed { .. }));
    Stored { deployments: state.deployments, ..Stored::default() }
}

/// R-CLI-6, R-ROLL-1: a restart changes the spec hash, and a later apply of the same files keeps it; a service that is
/// new in them was never restarted.
#[test]
fn restarts_survive_the_next_apply() {
    let mut model: Value = serde_json::from_str(SHOP).unwrap();
    assert!(restart::count(&mut model, Some("web")));
    let first = admit(&request(SHOP, "")).unwrap();
    let restarted = admit(&request(&model.to_string(), "")).unwrap();
    let hash = |admitted: &Admitted, name: &str| {
        let found = admitted.spec.services.iter().find(|(known, _)| known.as_str() == name);
        found.map(|(_, spec)| spec.hash)
    };
    assert_ne!(hash(&first, "web"), hash(&restarted, "web"));
    let stored = applied(&restarted);
    let again = super::admit(&request(SHOP, ""), &stored).unwrap();
    assert_eq!(again.spec, restarted.spec);
    let wider = r#"{"name":"shop","services":{"db":{"image":"d"},"web":{"image":"web:1"}}}"#;
    let wider_again = super::admit(&request(wider, ""), &stored).unwrap();
    assert_eq!(hash(&wider_again, "web"), hash(&restarted, "web"));
    let apart = admit(&request(wider, "")).unwrap();
    assert_eq!(hash(&wider_again, "db"), hash(&apart, "db"));
}

/// R-IN-1: a compose model alone is enough.
#[test]
fn a_compose_model_is_enough() {
    let admitted = admit(&request(SHOP, "")).unwrap();
    assert_eq!(admitted.name.as_str(), "shop");
    let web = admitted.spec.services.values().next().unwrap();
    assert_eq!((&*web.image, web.replicas, &web.placement), ("web:1", 1, &Placement::Spread));
}

/// R-CLI-5: the privileges of services on their nodes are part of the spec, for the audit log; services without any
/// are not listed.
#[test]
fn privileges_are_recorded() {
    let model = r#"{"name":"shop","services":{"web":{"image":"web:1"},
        "agent":{"image":"agent:1","network_mode":"host","pid":"host","cap_add":["NET_ADMIN"],
            "volumes":[{"type":"bind","source":"/srv","target":"/srv"},
                {"type":"bind","source":"/var/run/docker.sock","target":"/docker.sock"}]},
        "db":{"image":"db:1","volumes":[{"type":"volume","source":"data","target":"/data"}]}},
        "volumes":{"data":{}}}"#;
    let privileges = admit(&request(model, "")).unwrap().spec.privileges;
    let agent = ServiceName::new("agent").unwrap();
    let expected = [
        Privilege::EngineSocket,
        Privilege::HostNetwork,
        Privilege::HostPid,
        Privilege::HostPath,
        Privilege::Capabilities,
    ];
    assert_eq!(privileges, [(agent, expected.into())].into());
}

/// R-ROLL-4: `update_config` and `rollback_config` become the update policy.
#[test]
fn update_config_becomes_the_update_policy() {
    let deploy = r#"{"update_config":{"parallelism":2,"delay":"3s","monitor":"4s",
        "failure_action":"pause","max_failure_ratio":0.25,"order":"stop-first"},
        "rollback_config":{"parallelism":5,"delay":"6s","order":"stop-first","monitor":"0s",
        "failure_action":"pause","max_failure_ratio":0.5}}"#;
    let model =
        format!(r#"{{"name":"shop","services":{{"web":{{"image":"web:1","deploy":{deploy}}}}}}}"#);
    let admitted = admit(&request(&model, "")).unwrap();
    let update = admitted.spec.services.values().next().unwrap().update;
    let order = UpdateOrder::StopFirst;
    let expected = UpdatePolicy {
        parallelism: 2,
        delay: Millis::from_secs(3),
        monitor: Some(Millis::from_secs(4)),
        failure_action: FailureAction::Pause,
        max_failure_permille: 250,
        order,
        rollback: RollbackPolicy {
            parallelism: 5,
            delay: Millis::from_secs(6),
            order,
            monitor: Some(Millis(0)),
            failure_action: RollbackFailureAction::Pause,
            max_failure_permille: 500,
        },
        ..UpdatePolicy::default()
    };
    assert_eq!(update, expected);
}

/// R-PLACE-4: a count beside `global` is refused in the documented words.
#[test]
fn global_with_replicas_is_refused() {
    let overlay = "deployment: shop\nservices:\n  - {name: web, placement: global, replicas: 2}\n";
    let refused = admit(&request(SHOP, overlay)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidManifest);
    let words = "service \"web\" uses placement=global; remove replicas (global runs one \
                 replica per ready node)";
    assert!(refused.message.contains(words), "{}", refused.message);
}

/// R-RES-2: the reservation of the environment is used if it is within the bounds of the manifest.
#[test]
fn an_environment_sets_reservations() {
    let overlay =
        "deployment: shop\nservices: [{name: web, resources: {memory: {min: 64, max: 512}}}]";
    let reserved = |environment: &str| {
        let request =
            v1::ApplyRequest { environment_toml: environment.to_owned(), ..request(SHOP, overlay) };
        let admitted = admit(&request).map_err(|rejection| rejection.details)?;
        let web = admitted.spec.services.values().next().unwrap();
        Ok::<_, BTreeMap<String, String>>(web.reservation.memory.0 >> 20)
    };
    assert_eq!(reserved("").ok(), Some(512));
    assert_eq!(reserved("[web]\nmemory = 128").ok(), Some(128));
    let outside = reserved("[web]\nmemory = 1024").unwrap_err();
    assert!(outside["problems"].contains("unsupported_resource_configuration"), "{outside:?}");
    let unknown = reserved("[wbe]\nmemory = 128").unwrap_err();
    assert!(unknown["problems"].contains("unknown_service"), "{unknown:?}");
}

/// R-CONS-5: constraints of another provider are ignored with a warning; contradicting ones are refused with both
/// named, and all problems of all services are reported at once.
#[test]
fn contradicting_constraints_are_refused() {
    let admit = |constraints: &str| {
        let overlay = format!(
            "deployment: shop\nconstraints: zone=a instance-type=m5\n\
             services: [{{name: web, constraints: [{constraints}]}}]"
        );
        admit(&request(SHOP, &overlay))
    };
    let warnings = admit("zone=b").unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("constraint instance-type=m5 is ignored"), "{warnings:?}");
    let refused = admit(
        "{attribute: meta.zone, value: b}, {attribute: node.os, operator: regexp, value: \"(\"}, \
         hostname=n1 place-in=n2",
    );
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidManifest);
    for problem in [
        "service web: no node can satisfy both node.zone = a and meta.zone = b",
        "no node can satisfy both node.hostname = n1 and node.hostname = n2",
        "node.os regexp: \"(\" is no regular expression",
    ] {
        assert!(refused.message.contains(problem), "{}", refused.message);
    }
}

/// R-CONS-6: colocation and the maximum per node become part of the scheduling policy.
#[test]
fn colocation_becomes_part_of_the_policy() {
    let model = r#"{"name":"shop","services":{"web":{"image":"i","volumes":["data:/d"],"network_mode":"service:vpn"},
        "vpn":{"image":"i"},"log":{"image":"i","volumes_from":["web"],"deploy":{"placement":{"max_replicas_per_node":3}}},
        "agent":{"image":"i"}},"volumes":{"data":{}}}"#;
    let overlay = "deployment: shop\nconstraints: max-per-node=5\nservices:\n\
                   - {name: agent, constraints: scale-with=web max-per-node=}\n\
                   - {name: vpn, constraints: place-with=vpn}\n";
    let spec = admit(&request(model, overlay)).unwrap().spec;
    let policies = ["agent", "log", "vpn", "web"].map(|name| {
        let spec = &spec.services[&name.parse::<ServiceName>().unwrap()];
        let policy = &spec.scheduling;
        let names = |names: &BTreeSet<ServiceName>| {
            names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let max = policy.max_per_node.map_or(0, std::num::NonZeroU32::get);
        let (with, beside) = (names(&policy.place_with), names(&policy.shares_namespaces_with));
        format!("{name} {} {max} [{with}] [{beside}] {:?}", spec.placement.as_str(), spec.storage)
    });
    let expected = [
        "agent global 0 [] [web] Stateless",
        "log spread 3 [web] [] Stateful",
        "vpn spread 5 [] [] Stateful",
        "web spread 5 [] [vpn] Stateful",
    ];
    assert_eq!(policies, expected);
}

/// R-CONS-6, R-RES-4: unknown services, cycles and contradictions of `scale-with` are reported at once.
#[test]
fn invalid_colocation_is_refused() {
    let model = r#"{"name":"shop","services":{"web":{"image":"i"},"api":{"image":"i"},"job":{"image":"i"}}}"#;
    let overlay = "deployment: shop\nservices:\n\
                   - {name: web, constraints: place-with=api}\n\
                   - {name: api, constraints: place-with=web}\n\
                   - {name: job, replicas: 2, placement: pack, constraints: scale-with=wep}\n";
    let refused = admit(&request(model, overlay)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidManifest);
    for problem in [
        "services api, web are colocated with each other in a cycle",
        "service job uses scale-with=wep; remove placement=pack (it runs wherever wep runs)",
        "service job uses scale-with=wep; remove replicas",
        "job is colocated with wep, which is no service of the deployment; did you mean web?",
    ] {
        assert!(refused.message.contains(problem), "{problem}: {}", refused.message);
    }
}

/// R-RES-4: fewer replicas or matching nodes than `min_allocations_count` are refused, all at once.
#[test]
fn too_few_allocations_are_refused() {
    let model = r#"{"name":"shop","services":{"web":{"image":"i"},"agent":{"image":"i"}}}"#;
    let overlay = "deployment: shop\nservices:\n\
                   - {name: web, replicas: 2, min_allocations_count: 3}\n\
                   - {name: agent, placement: global, selectors: [ssd], min_allocations_count: 2}\n";
    let stored = Stored { nodes: nodes(&[("n1", "ssd"), ("n2", "hdd")]), ..Stored::default() };
    let refused = super::admit(&request(model, overlay), &stored).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidManifest);
    for problem in [
        "service web: min_allocations_count is 3, and only 2 replicas are desired",
        "service agent: min_allocations_count is 2, and only 1 nodes match its selectors",
    ] {
        assert!(refused.message.contains(problem), "{}", refused.message);
    }
    let stored = Stored { nodes: nodes(&[("n1", "ssd"), ("n2", "ssd")]), ..Stored::default() };
    let overlay = overlay.replace("replicas: 2", "replicas: 3");
    let admitted = super::admit(&request(model, &overlay), &stored).unwrap();
    assert!(admitted.warnings.iter().all(|warning| !warning.contains("min_allocations_count")));
}

/// R-RES-4: a label that no node has is a warning with the nearest label.
#[test]
fn unknown_labels_are_warnings() {
    let overlay = "deployment: shop\nservices:\n\
                   - {name: web, selectors: [worker, sdd], constraints: zone=a, spread: [{attribute: node.arhc}]}\n";
    let stored = Stored { nodes: nodes(&[("n1", "ssd")]), ..Stored::default() };
    let warnings = super::admit(&request(SHOP, overlay), &stored).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "service web: no node has the label \"arhc\"; did you mean node.arch?",
            "service web: no node has the label \"sdd\"; did you mean ssd?",
            "service web: no node has the label \"zone\"",
        ]
    );
}

fn nodes(labels: &[(&str, &str)]) -> Table<NodeId, Node> {
    let node = |(number, (host, label)): (u64, &(&str, &str))| Node {
        id: NodeId(number),
        hostname: Hostname::new(host).unwrap(),
        address: String::new(),
        mesh_address: None,
        key_fingerprint: [0; 32],
        status: jaco_types::NodeStatus::Ready,
        status_reason: String::new(),
        availability: jaco_types::Availability::Active,
        availability_reason: String::new(),
        drain: None,
        facts: jaco_types::NodeFacts::default(),
        labels: BTreeMap::from([((*label).to_owned(), String::new())]),
        joined_at: jaco_types::Timestamp(0),
        modified: jaco_types::StateIndex(number),
    };
    (1..).zip(labels).map(node).map(|node| (node.id, node)).collect()
}

/// A cluster whose networks are its own, with these shared ones.
fn with_networks(shared: &[&str]) -> Stored {
    use jaco_state::command::{NetworkBegin, NetworkCreate};
    let mut state = ClusterState::default();
    let begin = NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1420).into();
    let create =
        shared.iter().map(|name| NetworkCreate::new(NetworkName::new(name).unwrap()).into());
    for (index, command) in (1..).zip([begin].into_iter().chain(create)) {
        let (index, at, by) = (StateIndex(index), Timestamp(0), Identity::Scheduler);
        let entry = Entry { index, at, by, origin: None, request: None, command };
        assert_eq!(apply(&mut state, &entry), Outcome::Done);
    }
    Stored { networks: state.networks, ..Stored::default() }
}

/// Services with two networks of the deployment, a shared one, and one with a name of its own.
const ATTACHED: &str = r#"{"name":"shop","services":{
    "web":{"image":"w","container_name":"front.1","dns":"10.0.0.53","networks":{
        "default":null,"back":{"aliases":["www","web"],"priority":5},"lan":null}},
    "db":{"image":"d","networks":{"back":{"aliases":["base"]},"named":null}},
    "host":{"image":"h","network_mode":"host"}},
    "networks":{"default":{"name":"shop_default"},
        "back":{"name":"shop_back","internal":true,"ipam":{"config":[{"subnet":"10.5.0.0/16"}]}},
        "named":{"name":"metrics"},"lan":{"name":"lan","external":true}}}"#;

/// The attachments of each service: `back(alias,alias)`, `@shared()`.
fn attached(admitted: &Admitted) -> Vec<String> {
    let attachment = |one: &jaco_types::spec::Attachment| {
        let name = match &one.network {
            jaco_types::spec::NetworkRef::Own(key) => key.to_string(),
            jaco_types::spec::NetworkRef::Shared(name) => format!("@{name}"),
        };
        format!("{name}({})", one.aliases.join(","))
    };
    let services = admitted.spec.services.values();
    let line = |service: &std::sync::Arc<jaco_types::ServiceSpec>| {
        let networks: Vec<String> = service.networks.iter().map(attachment).collect();
        format!("{}: {}", service.name, networks.join(" "))
    };
    services.map(line).collect()
}

/// R-IN-2: in a cluster with networks of its own, services are attached to them in order, under all names that
/// do not follow from the service's; a network with a name of its own is the shared one of that name, if there is
/// one; without, and in other clusters, nothing is attached.
#[test]
fn services_are_attached_to_networks_of_the_cluster() {
    let admitted = super::admit(&request(ATTACHED, ""), &with_networks(&["lan"])).unwrap();
    assert_eq!(
        attached(&admitted),
        [
            "db: back(base) named()",
            "host: ",
            "web: back(front.1,web,www) default(front.1) @lan(front.1)",
        ]
    );
    let networks = admitted.spec.networks.iter().map(|(key, spec)| (key.as_str(), *spec));
    use jaco_types::NetworkReach::{Internal, Outside};
    let spec = |reach, length| jaco_types::spec::NetworkSpec { reach, length };
    assert_eq!(
        networks.collect::<Vec<_>>(),
        [
            ("back", spec(Internal, Some(20))),
            ("default", spec(Outside, None)),
            ("named", spec(Outside, None)),
        ]
    );
    let warnings = admitted.warnings.join("\n");
    assert!(warnings.contains("prefix length of 16 and gets one of 20"), "{warnings}");
    assert!(warnings.contains("`jaco network create metrics`"), "{warnings}");
    assert!(!warnings.contains("DNS"), "{warnings}");
    let resolvers = |admitted: &Admitted| {
        let services = admitted.spec.services.values();
        services.map(|one| (one.name.to_string(), one.resolvers.clone())).collect::<Vec<_>>()
    };
    let (web, none) = ("web".to_owned(), vec![]);
    let others = ["db", "host"].map(|name| (name.to_owned(), none.clone()));
    let expected = [&others[..], &[(web.clone(), vec![[10, 0, 0, 53].into()])]].concat();
    assert_eq!(resolvers(&admitted), expected);
    let shared = super::admit(&request(ATTACHED, ""), &with_networks(&["lan", "metrics"])).unwrap();
    assert_eq!(attached(&shared)[0], "db: back(base) @metrics()");
    let before = super::admit(&request(ATTACHED, ""), &Stored::default()).unwrap();
    assert_eq!(attached(&before), ["db: ", "host: ", "web: "]);
    assert!(before.spec.networks.is_empty());
    assert_eq!(resolvers(&before), [&others[..], &[(web, none)]].concat(), "its engine has them");
    // A container that has a network is another one in each of these; one without is the same.
    let hashes = [&before, &admitted, &shared].map(|admitted| {
        admitted.spec.services.values().map(|service| service.hash).collect::<Vec<_>>()
    });
    let [db, host, web] =
        [0, 1, 2].map(|at| hashes.iter().map(|hashes| hashes[at]).collect::<BTreeSet<_>>().len());
    assert_eq!((db, host, web), (3, 1, 2));
}

/// R-IN-2: as many DNS servers as a container would ask, and none at which nodes would ask themselves; each that is left out
/// is named.
#[test]
fn servers_that_nodes_can_ask_are_asked() {
    let model = r#"{"name":"shop","services":{"web":{"image":"w","dns":["127.0.0.11","10.0.0.1","::1",
        "10.0.0.2","::ffff:127.0.0.1","fd00::3","0.0.0.0","10.0.0.4","224.0.0.251"]}}}"#;
    let admitted = super::admit(&request(model, ""), &with_networks(&[])).unwrap();
    let web = admitted.spec.services.values().next().unwrap();
    let asked: Vec<String> = web.resolvers.iter().map(ToString::to_string).collect();
    assert_eq!(asked, ["10.0.0.1", "10.0.0.2", "fd00::3"]);
    let warnings = admitted.warnings.join("\n");
    for left in ["127.0.0.11", "::1", "::ffff:127.0.0.1", "0.0.0.0", "224.0.0.251"] {
        assert!(warnings.contains(&format!("service web: {left} is not asked")), "{warnings}");
    }
    assert!(warnings.contains("names 4 DNS servers: the first 3 are asked"), "{warnings}");
}

/// R-IN-2: where networks are those of each node, services that share one and may be apart are named with what to do; not on
/// one node, not where they share none, and not where networks are the cluster's.
#[test]
fn services_that_may_not_reach_each_other_are_named() {
    let says = |model: &str, stored: &Stored| {
        let warnings = super::admit(&request(model, ""), stored).unwrap().warnings;
        warnings.into_iter().filter(|text| text.contains("do not reach each other")).collect()
    };
    let two = || nodes(&[("n1", "ssd"), ("n2", "hdd")]);
    let talking = r#"{"name":"shop","services":{"web":{"image":"w"},"db":{"image":"d"},
        "host":{"image":"h","network_mode":"host"}}}"#;
    let alone = r#"{"name":"shop","services":{"web":{"image":"w"},
        "host":{"image":"h","network_mode":"host"}}}"#;
    let stored = Stored { nodes: two(), ..Stored::default() };
    let expected = "services db, web share the network default, and those on different nodes do not reach each \
                    other: this cluster has no networks of its own, `jaco network enable` makes them";
    let said: Vec<String> = says(talking, &stored);
    assert_eq!(said, [expected]);
    assert_eq!(says(alone, &stored), [""; 0]);
    let single = Stored { nodes: nodes(&[("n1", "ssd")]), ..Stored::default() };
    assert_eq!(says(talking, &single), [""; 0]);
    let networked = Stored { nodes: two(), ..with_networks(&[]) };
    assert_eq!(says(talking, &networked), [""; 0]);
}

/// R-IN-3: shared networks that are missing are refused at once, with the commands that create them.
#[test]
fn missing_shared_networks_are_refused() {
    let model = r#"{"name":"shop","services":{"web":{"image":"w","networks":{"a":null,"b":null}}},
        "networks":{"a":{"name":"lan","external":true},"b":{"name":"wan","external":true}}}"#;
    let refused = super::admit(&request(model, ""), &with_networks(&["other"])).unwrap_err();
    assert_eq!(refused.code, ErrorCode::NetworkNotFound);
    let expected = "the cluster has no shared network lan, wan: run `jaco network create lan` and `jaco \
                    network create wan`";
    assert_eq!(refused.message, expected);
    assert_eq!(refused.details["networks"], "lan,wan");
    assert!(super::admit(&request(model, ""), &Stored::default()).is_ok());
}

/// R-IN-6: what a service reaches of its node is said, for a dry run too, by the revision that introduces or changes it.
#[test]
fn reaches_are_said_once() {
    let model = |path: &str, image: &str| {
        format!(
            r#"{{"name":"shop","services":{{"db":{{"image":"{image}","pid":"host","cap_drop":["ALL"],
            "volumes":[{{"type":"bind","source":"{path}","target":"/d"}}]}},"web":{{"image":"w"}}}}}}"#
        )
    };
    let said = |path: &str, image: &str, stored: &Stored| {
        let dry = v1::ApplyRequest { dry_run: true, ..request(&model(path, image), "") };
        let admitted = super::admit(&dry, stored).unwrap();
        let reaching = admitted.reaches.keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(reaching, ["db"]);
        let warnings = admitted.warnings.into_iter();
        warnings.filter(|warning| warning.contains("reaches the node")).collect::<Vec<_>>()
    };
    let expected = |path: &str| {
        format!("service db reaches the node it runs on: host-path={path}, host-namespace=pid")
    };
    assert_eq!(said("/srv/a/../b", "db:1", &Stored::default()), [expected("/srv/b")]);
    let stored = applied(&admit(&request(&model("/srv/b", "db:1"), "")).unwrap());
    assert_eq!(said("/srv/b/", "db:2", &stored), [""; 0], "it is known");
    assert_eq!(said("/srv", "db:1", &stored), [expected("/srv")]);
}

/// The first apply after the networks became the cluster's says that it replaces all services with networks;
/// later ones do not.
#[test]
fn migration_is_announced_once() {
    let says = |admitted: &Admitted| {
        admitted.warnings.iter().filter(|warning| warning.contains("are replaced")).count()
    };
    let before = admit(&request(SHOP, "")).unwrap();
    let present = applied(&before).deployments;
    let stored = Stored { deployments: present, ..with_networks(&[]) };
    let moved = super::admit(&request(SHOP, ""), &stored).unwrap();
    let expected =
        "the networks of shop become the cluster's: all replicas of web are replaced, once";
    assert_eq!(moved.warnings, [expected]);
    assert_eq!(says(&super::admit(&request(SHOP, ""), &with_networks(&[])).unwrap()), 0);
    let mut state = ClusterState { networks: stored.networks.clone(), ..ClusterState::default() };
    state.deployments = stored.deployments;
    let command = DeploymentApply::new(moved.name, moved.spec).into();
    let (index, at, by) = (StateIndex(9), Timestamp(0), Identity::Scheduler);
    let entry = Entry { index, at, by, origin: None, request: None, command };
    assert!(matches!(apply(&mut state, &entry), Outcome::Deployed { .. }));
    let event = state.audit.events.values().last().unwrap();
    assert_eq!(
        event.payload["changes"],
        "networks of each node -> of the cluster; web: networks, container"
    );
    let stored =
        Stored { networks: state.networks, deployments: state.deployments, ..Stored::default() };
    assert_eq!(says(&super::admit(&request(SHOP, ""), &stored).unwrap()), 0);
}

/// R-IN-3: a model that a client cannot have resolved is refused.
#[test]
fn an_invalid_model_is_refused() {
    for model in ["", "[]", "{", r#"{"services":{"web":{"imagee":"web:1"}}}"#] {
        let refused = admit(&request(model, "")).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidManifest, "{model}");
    }
    let large = " ".repeat(MODEL_BYTES_MAX + 1);
    assert_eq!(admit(&request(&large, "")).unwrap_err().code, ErrorCode::TooLarge);
}

/// R-IN-3: a deployment has a bounded number of replicas, whoever sends it and wherever it is written.
#[test]
fn replicas_are_bounded() {
    let scaled = |replicas: &str| {
        format!(
            r#"{{"name":"shop","services":{{"web":{{"image":"i","deploy":{{"replicas":{replicas}}}}}}}}}"#
        )
    };
    let most = admit(&request(&scaled("10000"), "")).expect("as many are admitted");
    assert_eq!(most.spec.services.values().next().unwrap().replicas, 10_000);
    for replicas in ["10001", "1000000", "4000000000", "-1"] {
        let refused = admit(&request(&scaled(replicas), "")).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidManifest, "{replicas}");
        assert!(
            refused.message.contains("the number of replicas is not valid"),
            "{}",
            refused.message
        );
    }
    let overlay = "services: [{name: web, replicas: 1000000}]\n";
    let refused = admit(&request(SHOP, overlay)).unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidManifest);
    let two = r#"{"name":"shop","services":{"a":{"image":"i","scale":6000},"b":{"image":"i","scale":6000}}}"#;
    let refused = admit(&request(two, "")).unwrap_err();
    assert!(refused.message.contains("the deployment has 12000 replicas"), "{}", refused.message);
}

/// R-IN-3: the replicas of all deployments are bounded together, and what makes them fewer is always admitted.
#[test]
fn replicas_of_a_cluster_are_bounded() {
    let sized = |name: &str, replicas: u32| {
        format!(r#"{{"name":"{name}","services":{{"web":{{"image":"i","scale":{replicas}}}}}}}"#)
    };
    let mut stored = Stored::default();
    for number in 0..10 {
        let name = format!("d{number}");
        let admitted = super::admit(&request(&sized(&name, 10_000), ""), &stored).unwrap();
        for (name, deployment) in applied(&admitted).deployments.iter() {
            stored.deployments.insert(name.clone(), deployment.clone());
        }
    }
    let refused = super::admit(&request(&sized("more", 1), ""), &stored).unwrap_err();
    assert_eq!(refused.code, ErrorCode::TooLarge);
    assert!(refused.message.contains("beside 100000 of the others"), "{}", refused.message);
    for replicas in [10_000, 9_999, 0] {
        super::admit(&request(&sized("d0", replicas), ""), &stored).expect("it does not grow");
    }
    let smaller = super::admit(&request(&sized("d0", 9_000), ""), &stored).unwrap();
    for (name, deployment) in applied(&smaller).deployments.iter() {
        stored.deployments.insert(name.clone(), deployment.clone());
    }
    super::admit(&request(&sized("more", 1_000), ""), &stored).expect("there is room again");
    let back = super::admit(&request(&sized("d0", 10_000), ""), &stored);
    back.expect("its own former replicas do not count");
}

/// R-IN-1: without a name in jaco.yaml the deployment has that of the request, or else of the model.
#[test]
fn a_jaco_yaml_without_a_name_is_admitted() {
    let overlay = "services: [{name: web, replicas: 3}]\n";
    let admitted = admit(&request(SHOP, overlay)).unwrap();
    assert_eq!(admitted.name.as_str(), "shop");
    let named = v1::ApplyRequest { deployment: "other".into(), ..request(SHOP, overlay) };
    assert_eq!(admit(&named).unwrap().name.as_str(), "other");
    assert_eq!(admit(&named).unwrap().spec.services.values().next().unwrap().replicas, 3);
}

/// R-IN-3, R-IN-4, R-IN-5: each code that admission refuses with, by a request that causes it.
#[test]
fn each_refusal_has_its_code() {
    let file = |name: &str, tree: Vec<u8>| v1::FileUpload { name: name.into(), tree: tree.into() };
    let with_bind =
        |tree: Vec<u8>| v1::ApplyRequest { binds: vec![file("./data", tree)], ..request(SHOP, "") };
    let secret = r#"{"name":"shop","services":{"web":{"image":"i","secrets":[{"source":"key"}]}},
        "secrets":{"key":{"external":true,"name":"db.key"}}}"#;
    let no_services = r#"{"name":"shop","services":{}}"#;
    let cases = [
        ("a malformed model", request("{", ""), ErrorCode::InvalidManifest),
        ("a malformed overlay", request(SHOP, "deployment: ["), ErrorCode::InvalidManifest),
        ("no services", request(no_services, ""), ErrorCode::InvalidManifest),
        (
            "an unknown key",
            request(SHOP, "deployment: shop\nreplica: 2"),
            ErrorCode::InvalidManifest,
        ),
        ("a large overlay", request(SHOP, &"#".repeat(MODEL_BYTES_MAX)), ErrorCode::TooLarge),
        ("an external secret that is not stored", request(secret, ""), ErrorCode::ContentNotFound),
        ("files that were not uploaded", with_bind(vec![7; 32]), ErrorCode::ContentMissing),
        ("a malformed content id", with_bind(vec![7; 31]), ErrorCode::InvalidRequest),
        (
            "an invalid name",
            v1::ApplyRequest { deployment: "Shop!".into(), ..request(SHOP, "") },
            ErrorCode::InvalidRequest,
        ),
    ];
    for (case, request, expected) in cases {
        let refused = admit(&request).expect_err(case);
        assert_eq!(refused.code, expected, "{case}: {}", refused.message);
        assert!(!refused.message.is_empty(), "{case}");
    }
}

/// R-SEL-1: without a list, `selectors: auto` selects nodes by a label with the name of the service.
#[test]
fn automatic_selectors_are_the_name_of_the_service() {
    let selectors = |overlay: &str| {
        let spec = admit(&request(SHOP, overlay)).unwrap().spec;
        spec.services.values().next().unwrap().scheduling.selectors.clone()
    };
    let overlay = |selectors: &str| {
        format!("deployment: shop\nservices: [{{name: web, selectors: {selectors}}}]")
    };
    assert_eq!(selectors(&overlay("auto")), BTreeSet::from(["web".to_owned()]));
    assert_eq!(selectors(&overlay("[ssd, gpu]")), ["gpu", "ssd"].map(str::to_owned).into());
    assert_eq!(selectors(""), BTreeSet::new());
}

/// The manifest of a deployment with these routes, which are jaco.yaml's.
fn routed(routes: &str) -> v1::ApplyRequest {
    request(SHOP, &format!("deployment: shop\nroutes: {routes}\n"))
}

/// A cluster with networks of its own in which `blog` has the route `a.de/blog`, and with a certificate that is for
/// `*.example.com` and ends 10 days after the time of admission.
fn with_routes() -> Stored {
    let stored = with_networks(&[]);
    let mut state = ClusterState { networks: stored.networks, ..ClusterState::default() };
    let blog = r#"{"name":"blog","services":{"web":{"image":"web:1"}}}"#;
    let overlay = "routes: [{domain: a.de, path: /blog, service: web, port: 80}]\n";
    let request = request(blog, overlay);
    let now = Timestamp(1_000_000_000_000);
    let stored = Stored { networks: state.networks.clone(), now, ..Stored::default() };
    let admitted = super::admit(&request, &stored).unwrap();
    let own = jaco_state::command::CertificateStore {
        name: jaco_types::CertificateName::new("own").unwrap(),
        chain: "PEM".into(),
        key: jaco_state::edge::SealedKey([7; 40].into()),
        names: ["*.example.com".into()].into(),
        not_before: Timestamp(0),
        not_after: now.after(Millis::from_secs(10 * 86_400)),
        fingerprint: [0; 32],
    };
    let apply_of_blog = DeploymentApply::new(admitted.name, admitted.spec);
    let commands = [jaco_state::command::EdgeBegin.into(), own.into(), apply_of_blog.into()];
    for (command, index) in commands.into_iter().zip(2..) {
        let (index, at, by) = (StateIndex(index), now, Identity::Scheduler);
        let entry = Entry { index, at, by, origin: None, request: None, command };
        assert!(!matches!(apply(&mut state, &entry), Outcome::Rejected(_)));
    }
    Stored {
        networks: state.networks,
        edges: state.edges,
        deployments: state.deployments,
        now,
        ..Stored::default()
    }
}

/// R-EDGE-2: routes become part of the spec where networks are the cluster's; elsewhere no edge could reach a
/// replica, which the apply says.
#[test]
fn routes_become_part_of_the_spec() {
    let request = routed("[{domain: a.de, service: web, port: 80}]");
    let admitted = super::admit(&request, &with_routes()).unwrap();
    let keys: Vec<String> = admitted.spec.routes.keys().map(ToString::to_string).collect();
    assert_eq!(keys, ["a.de"]);
    assert!(admitted.spec.needs_edges());
    let elsewhere = admit(&request).unwrap();
    assert!(!elsewhere.spec.needs_edges());
    let said =
        elsewhere.warnings.iter().filter(|text| text.contains("`jaco network enable` first"));
    assert_eq!(said.count(), 1, "{:?}", elsewhere.warnings);
}

/// R-EDGE-2, NET-5: all routes that others have are refused at once, with the names of their deployments.
#[test]
fn routes_of_others_are_refused() {
    let taken = "[{domain: a.de, path: /blog, service: web, port: 80}, {domain: a.de, service: web, port: 80}]";
    let refused = super::admit(&routed(taken), &with_routes()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::RouteConflict);
    assert_eq!(
        refused.message,
        "routes that other deployments have: a.de/blog (deployment blog); remove them there first, or use other \
         domains or paths"
    );
    assert_eq!((&*refused.details["route"], &*refused.details["owner"]), ("a.de/blog", "blog"));
}

/// R-EDGE-2: a certificate that is missing is refused with the command that stores it; one that ends soon, or is
/// not for a domain, is warned about.
#[test]
fn certificates_of_routes_are_checked() {
    let of = |domain: &str, name: &str| {
        routed(&format!("[{{domain: '{domain}', service: web, port: 80, tls: {name}}}]"))
    };
    let refused = super::admit(&of("b.example.com", "other"), &with_routes()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::CertificateNotFound);
    assert_eq!(
        refused.message,
        "the cluster has no certificate other: run `jaco certificate set other`"
    );
    let warnings = |domain: &str, now: Timestamp| {
        let stored = Stored { now, ..with_routes() };
        let all = super::admit(&of(domain, "own"), &stored).unwrap().warnings;
        all.into_iter().filter(|text| text.starts_with("certificate")).collect::<Vec<_>>()
    };
    let now = with_routes().now;
    let soon = "certificate own expires in 10 days: replace it with `jaco certificate set own`";
    assert_eq!(warnings("b.example.com", now), [soon]);
    assert_eq!(warnings("*.example.com", now), [soon]);
    assert_eq!(warnings("b.example.com", Timestamp(now.0 - 5 * 86_400_000)), [""; 0], "15 days");
    let over = "certificate own has expired: replace it with `jaco certificate set own`";
    assert_eq!(warnings("b.example.com", now.after(Millis::from_secs(11 * 86_400))), [over]);
    let other = "certificate own is not for c.b.example.com, so clients will refuse it there: it is for \
                 *.example.com";
    assert_eq!(warnings("c.b.example.com", now), [soon, other]);
}

/// A manifest of a service `web` with this list of ports, in the cluster of [`with_routes`].
fn published(name: &str, ports: &str) -> Result<Admitted, Rejection> {
    let model = format!(
        r#"{{"name":"{name}","networks":{{"default":null}},"services":{{"web":{{"image":"web:1","networks":{{"default":null}},"ports":{ports}}}}}}}"#
    );
    super::admit(&request(&model, ""), &with_routes())
}

/// R-EDGE-2: ports without `mode: host` are those of edges where networks are the cluster's, and of nodes elsewhere.
#[test]
fn ports_become_part_of_the_spec() {
    let ports = r#"[{"target":80,"published":"8080","protocol":"tcp","mode":"ingress"},
        {"target":81,"published":"8081","protocol":"tcp","mode":"host"}]"#;
    let spec = published("shop", ports).unwrap().spec;
    let web = spec.services.values().next().unwrap();
    let of_edges: Vec<_> =
        web.ingress_ports.iter().map(|port| port.published.to_string()).collect();
    assert_eq!(of_edges, ["8080"]);
    assert_eq!(web.host_ports.iter().map(|port| port.port).collect::<Vec<_>>(), [8081]);
    assert!(spec.needs_edges() && !web.networks.is_empty());
    let model =
        format!(r#"{{"name":"shop","services":{{"web":{{"image":"w","ports":{ports}}}}}}}"#);
    let spec = admit(&request(&model, "")).unwrap().spec;
    let web = spec.services.values().next().unwrap();
    let of_nodes: Vec<_> = web.host_ports.iter().map(|port| port.port).collect();
    assert_eq!((of_nodes, web.ingress_ports.len()), (vec![8080, 8081], 0));
    assert!(!spec.needs_edges());
}

/// R-EDGE-2, NET-5: all ports that others have are refused at once, with the names of their deployments.
#[test]
fn ports_of_others_are_refused() {
    let port = |number: u16, mode: &str| {
        format!(r#"{{"target":80,"published":"{number}","protocol":"tcp","mode":"{mode}"}}"#)
    };
    let stored = with_routes();
    let mut state = ClusterState {
        networks: stored.networks,
        edges: stored.edges,
        deployments: stored.deployments,
        ..ClusterState::default()
    };
    let wiki = published("wiki", &format!("[{},{}]", port(8080, "ingress"), port(8081, "ingress")));
    let Admitted { name, spec, .. } = wiki.unwrap();
    let command = DeploymentApply::new(name, spec).into();
    let (index, at, by) = (StateIndex(9), stored.now, Identity::Scheduler);
    let entry = Entry { index, at, by, origin: None, request: None, command };
    assert!(matches!(apply(&mut state, &entry), Outcome::Deployed { .. }));
    let own = published("shop", &format!("[{},{}]", port(8080, "ingress"), port(8081, "ingress")));
    let (name, spec) = (own.as_ref().unwrap().name.clone(), own.unwrap().spec);
    let refused = ports::check_owners(&name, &spec, &state.edges).unwrap_err();
    assert_eq!(refused.code, ErrorCode::PortConflict);
    assert_eq!(
        refused.message,
        "ports that other deployments publish: *:8080/tcp (deployment wiki), *:8081/tcp (deployment wiki); remove \
         them there first, or publish other ports"
    );
    let wiki = DeploymentName::new("wiki").unwrap();
    assert_eq!(ports::check_owners(&wiki, &spec, &state.edges), Ok(()));
}
