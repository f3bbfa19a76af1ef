//! The findings of `jaco doctor` by example.

use jaco_proto::v1::{
    ClusterStatusResponse, ContentInfo, DeploymentInfo, ExamineNetworkResponse, ExamineResponse,
    ExaminedNode, ExaminedRouter, ExaminedWay, KekRotationInfo, NodeInfo, NotifyTargetInfo, Reach,
    ReplicaInfo, RolloutInfo, RotationInfo, ServiceInfo, StatusResponse, UnplacedInfo, VolumeInfo,
    VoterProgress,
};

use super::checks::findings;
use super::examination::Examination;
use super::finding::Finding;

fn cluster(nodes: &[&str]) -> ClusterStatusResponse {
    let node = |name: &&str| NodeInfo {
        hostname: (*name).to_owned(),
        status: "ready".to_owned(),
        availability: "active".to_owned(),
        suffrage: "voter".to_owned(),
        ..NodeInfo::default()
    };
    ClusterStatusResponse {
        leader: "n1".to_owned(),
        nodes: nodes.iter().map(node).collect(),
        ..ClusterStatusResponse::default()
    }
}

fn members(nodes: &[&str]) -> ExamineResponse {
    let node = |name: &&str| ExaminedNode {
        node: (*name).to_owned(),
        version: "1.0.0".to_owned(),
        leader: "n1".to_owned(),
        applied: 40_000,
        round_trip_us: 500,
        ..ExaminedNode::default()
    };
    ExamineResponse { asked: "n1".to_owned(), nodes: nodes.iter().map(node).collect() }
}

fn lines(
    cluster: &ClusterStatusResponse,
    members: &ExamineResponse,
    status: &StatusResponse,
) -> Vec<String> {
    let status = Some(status);
    let network = &ExamineNetworkResponse::default();
    let examination = Examination {
        cluster,
        members,
        network,
        status,
        secrets: &[],
        targets: &[],
        volumes: &[],
        backups: &[],
        own_version: "1.0.0",
        now_ms: 1_000_000,
    };
    shown(&examination)
}

fn shown(examination: &Examination<'_>) -> Vec<String> {
    let found = findings(examination);
    let line = |one: Finding| {
        assert!(!one.help.is_empty(), "{one:?}");
        format!("{} {} {}: {}", one.severity.as_str(), one.check, one.object, one.message)
    };
    found.into_iter().map(line).collect()
}

const THREE: [&str; 3] = ["n1", "n2", "n3"];

/// R-CLI-6: a healthy cluster has no findings, and neither has a single node.
#[test]
fn healthy_cluster_has_no_findings() {
    let none = StatusResponse::default();
    assert_eq!(lines(&cluster(&THREE), &members(&THREE), &none), [""; 0]);
    assert_eq!(lines(&cluster(&["n1"]), &members(&["n1"]), &none), [""; 0]);
}

/// R-IN-5: a secret that has expired, or does within 14 days, is a warning; one without an expiry is none.
#[test]
fn expiring_secrets_are_warnings() {
    const DAY_MS: i64 = 86_400_000;
    let now_ms = 100 * DAY_MS;
    let secret = |name: &str, days: i64| ContentInfo {
        name: name.to_owned(),
        version: 3,
        expires_at_ms: if days == 0 { 0 } else { now_ms + days * DAY_MS },
        ..ContentInfo::default()
    };
    let secrets = [secret("a", 0), secret("b", 14), secret("c", 13), secret("d", -2)];
    let network = &ExamineNetworkResponse::default();
    let (cluster, members) = (&cluster(&THREE), &members(&THREE));
    let none = StatusResponse::default();
    let (status, secrets, own_version) = (Some(&none), &secrets, "1.0.0");
    let examination = Examination {
        cluster,
        members,
        network,
        status,
        secrets,
        targets: &[],
        volumes: &[],
        backups: &[],
        own_version,
        now_ms,
    };
    assert_eq!(
        shown(&examination),
        [
            "warning secret c: version 3 expires in 13d",
            "warning secret d: version 3 expired 2d ago"
        ]
    );
}

/// R-OPS-1: a target that does not accept what it is sent is a warning with the reason, and so is what it was never sent.
#[test]
fn failing_targets_are_warnings() {
    let now_ms = 10_000_000;
    let target = |name: &str| NotifyTargetInfo {
        name: name.to_owned(),
        address: "https://a.example".to_owned(),
        ..NotifyTargetInfo::default()
    };
    let targets = [
        target("fine"),
        NotifyTargetInfo {
            failing_since_ms: now_ms - 600_000,
            failing_reason: "answered 503".to_owned(),
            behind: 3,
            ..target("busy")
        },
        NotifyTargetInfo { undelivered: 2, pruned: 7, discarded: 1, ..target("lost") },
        NotifyTargetInfo { paused_at_ms: now_ms - 600_000, behind: 1, ..target("quiet") },
    ];
    let network = &ExamineNetworkResponse::default();
    let (cluster, members) = (&cluster(&THREE), &members(&THREE));
    let none = StatusResponse::default();
    let (status, targets, own_version) = (Some(&none), &targets, "1.0.0");
    let examination = Examination {
        cluster,
        members,
        network,
        status,
        secrets: &[],
        targets,
        volumes: &[],
        backups: &[],
        own_version,
        now_ms,
    };
    assert_eq!(
        shown(&examination),
        [
            "warning notify busy: https://a.example has failed for 10m, 3 events behind: answered 503",
            "warning notify lost: 1 notification that was given up was discarded",
            "warning notify lost: 2 notifications to https://a.example were given up",
            "warning notify lost: 7 events were pruned before they could be delivered",
            "warning notify quiet: https://a.example has been paused for 10m, 1 event behind",
        ]
    );
}

/// R-RES-3: a volume that takes more than its size is a warning; one without a size, or that was not counted, is none.
#[test]
fn volumes_over_their_size_are_warnings() {
    let volume = |name: &str, size_bytes, used_bytes| VolumeInfo {
        deployment: "shop".to_owned(),
        volume: name.to_owned(),
        node: "n1".to_owned(),
        class: "ssd".to_owned(),
        size_bytes,
        used_bytes,
        ..VolumeInfo::default()
    };
    let volumes = [
        volume("fine", 5 << 30, Some(5 << 30)),
        volume("full", 5 << 30, Some(6 << 30)),
        volume("any", 0, Some(6 << 30)),
        volume("unknown", 5 << 30, None),
    ];
    let network = &ExamineNetworkResponse::default();
    let (cluster, members) = (&cluster(&THREE), &members(&THREE));
    let none = StatusResponse::default();
    let (status, volumes, own_version) = (Some(&none), &volumes, "1.0.0");
    let examination = Examination {
        cluster,
        members,
        network,
        status,
        secrets: &[],
        targets: &[],
        volumes,
        backups: &[],
        own_version,
        now_ms: 10_000_000,
    };
    assert_eq!(
        shown(&examination),
        ["warning volume shop/full: on n1 it takes 6 GiB and has a size of 5 GiB"]
    );
}

/// R-CLI-6: who holds a phase of a rotation is named, once it has taken longer than members need.
#[test]
fn holders_of_a_rotation_are_named() {
    let none = StatusResponse::default();
    let mut seen = cluster(&THREE);
    let rotation = |since_ms, holders: &[&str]| RotationInfo {
        phase: "renewing".to_owned(),
        since_ms,
        holders: holders.iter().map(|one| (*one).to_owned()).collect(),
        ..RotationInfo::default()
    };
    for quiet in [rotation(990_000, &["n3"]), rotation(0, &[])] {
        seen.rotation = Some(quiet);
        assert_eq!(lines(&seen, &members(&THREE), &none), [""; 0]);
    }
    seen.rotation = Some(rotation(700_000, &["n3"]));
    assert_eq!(
        lines(&seen, &members(&THREE), &none),
        [
            "warning rotation n3: the rotation of the authority waits for it in the phase renewing, which began 5m ago"
        ]
    );
}

/// R-CLI-6: so is who holds a phase of a rotation of the key-encryption key, and what cannot be sealed anew.
#[test]
fn holders_of_a_kek_rotation_are_named() {
    let none = StatusResponse::default();
    let mut seen = cluster(&THREE);
    let rotation = |since_ms, holders: &[&str], left| KekRotationInfo {
        phase: "resealing".to_owned(),
        since_ms,
        holders: holders.iter().map(|one| (*one).to_owned()).collect(),
        left,
        first_left: "the password at ghcr.io".to_owned(),
        ..KekRotationInfo::default()
    };
    for quiet in [rotation(990_000, &["n3"], 7), rotation(0, &[], 0)] {
        seen.kek_rotation = Some(quiet);
        assert_eq!(lines(&seen, &members(&THREE), &none), [""; 0]);
    }
    seen.kek_rotation = Some(rotation(700_000, &["n3"], 7));
    assert_eq!(
        lines(&seen, &members(&THREE), &none),
        [
            "warning rotation n3: the rotation of the key-encryption key waits for it in the phase resealing, which began 5m ago"
        ]
    );
    seen.kek_rotation = Some(rotation(700_000, &[], 1));
    assert_eq!(
        lines(&seen, &members(&THREE), &none),
        [
            "warning rotation the password at ghcr.io: the rotation of the key-encryption key cannot seal the password at ghcr.io anew since 5m"
        ]
    );
}

/// R-CLI-6: a broken connection between nodes is reported once, with its direction.
#[test]
fn ways_between_nodes_are_lines() {
    let none = StatusResponse::default();
    let mut seen = members(&THREE);
    let reach = |node: &str, why: &str| Reach {
        node: node.to_owned(),
        unreachable: why.to_owned(),
        ..Reach::default()
    };
    seen.nodes[1].reaches = vec![reach("n1", ""), reach("n3", "no answer within 2 s")];
    assert_eq!(
        lines(&cluster(&THREE), &seen, &none),
        ["failing reach n2: it cannot reach n3, which other nodes can: no answer within 2 s"]
    );
    seen.nodes[2] = ExaminedNode {
        node: "n3".to_owned(),
        unreachable: "connection refused".to_owned(),
        ..ExaminedNode::default()
    };
    let mut known = cluster(&THREE);
    known.nodes[2].status = "down".to_owned();
    assert_eq!(
        lines(&known, &seen, &none),
        [
            "failing reach n3: n1 cannot reach it: connection refused",
            "warning voters cluster: 0 of 3 voters can be lost without losing the quorum",
        ]
    );
    // It answers, and the leader considers it down: that is reported.
    assert_eq!(lines(&known, &members(&THREE), &none), ["failing node n3: it is down"]);
}

/// R-CLI-6: each value that a member reports about itself is checked.
#[test]
fn reports_of_members_are_checked() {
    let none = StatusResponse::default();
    let check = |change: &dyn Fn(&mut ExaminedNode), expected: &[&str]| {
        let mut seen = members(&THREE);
        change(&mut seen.nodes[2]);
        assert_eq!(lines(&cluster(&THREE), &seen, &none), expected);
    };
    check(&|node| node.clock_ahead_ms = 1000, &[]);
    check(
        &|node| node.clock_ahead_ms = -2500,
        &["warning clock n3: its clock is 2.5 s behind that of n1"],
    );
    check(&|node| (node.clock_ahead_ms, node.round_trip_us) = (2500, 3_000_000), &[]);
    check(&|node| node.applied = 30_000, &[]);
    check(&|node| node.applied = 29_999, &["warning behind n3: its state is 10001 entries behind"]);
    check(
        &|node| node.engine_down = "refused".to_owned(),
        &["failing engine n3: its container engine does not answer: refused"],
    );
    check(
        &|node| node.key_problem = "the key of n3 is another".to_owned(),
        &["failing kek n3: the key of n3 is another"],
    );
    check(
        &|node| node.version = "0.9.0".to_owned(),
        &[
            "warning version cluster: the nodes run different versions: 0.9.0 on n3; 1.0.0 on n1, n2",
        ],
    );
    check(
        &|node| node.leader.clear(),
        &[
            "warning leader cluster: the members disagree about the leader: n3 follows no leader; n1, n2 follow n1",
        ],
    );
}

/// R-FAULT-1: a voter that lags without moving is named, and not counted among those that can take over.
#[test]
fn a_voter_that_stands_still_is_named() {
    let none = StatusResponse::default();
    let mut seen = members(&THREE);
    let voter = |node: &str, lag, still_ms| VoterProgress {
        node: node.to_owned(),
        match_index: Some(40_000 - lag),
        lag,
        last_contact_ms: Some(100),
        still_ms,
        refused: String::new(),
    };
    seen.nodes[0].voters = vec![voter("n1", 0, 0), voter("n2", 0, 0), voter("n3", 7, 9_999)];
    assert_eq!(lines(&cluster(&THREE), &seen, &none), [""; 0]);
    seen.nodes[0].voters[2].still_ms = 42_000;
    assert_eq!(
        lines(&cluster(&THREE), &seen, &none),
        [
            "failing replication n3: its log is 7 entries behind the leader's and has not moved for 42 s: it does not count as a voter that helps",
            "warning voters cluster: 0 of 3 voters can be lost without losing the quorum",
        ]
    );
    seen.nodes[0].voters[2].refused = "it acknowledged entry 9 and lacks it".to_owned();
    assert_eq!(
        lines(&cluster(&THREE), &seen, &none)[0],
        "failing log n3: the leader refuses it: it acknowledged entry 9 and lacks it"
    );
    seen.nodes[0].voters[2].refused.clear();
    for unheard in [None, Some(6_000)] {
        seen.nodes[0].voters[2].last_contact_ms = unheard;
        assert_eq!(
            lines(&cluster(&THREE), &seen, &none)[0],
            "failing replication n3: the leader does not hear it, so that its log does not grow: it does not count as a voter that helps"
        );
    }
    // A leader of before says nothing any more.
    (seen.nodes[0].term, seen.nodes[1].term) = (4, 5);
    seen.nodes[1].voters = vec![voter("n1", 0, 0), voter("n2", 0, 0), voter("n3", 0, 0)];
    assert_eq!(lines(&cluster(&THREE), &seen, &none), [""; 0]);
}

/// R-CLI-6: a node that is cut off says that of itself, and not that the cluster has no quorum.
#[test]
fn a_node_that_is_cut_off_is_told_from_a_lost_quorum() {
    let none = StatusResponse::default();
    let mut known = cluster(&THREE);
    known.leader.clear();
    known.quorum_lost = true;
    let mut seen = members(&THREE);
    seen.nodes[0].leader.clear();
    for node in &mut seen.nodes[1..] {
        node.leader = "n2".to_owned();
    }
    assert_eq!(
        lines(&known, &seen, &none),
        [
            "failing leader n1: it follows no leader, and 2 of 3 voters follow n2: it is cut off, and the others go on without it"
        ]
    );
    // One of three follows nobody that could decide.
    seen.nodes[2].leader.clear();
    assert_eq!(
        lines(&known, &seen, &none)[0],
        "failing quorum cluster: no quorum: nothing can be changed, running containers keep running"
    );
}

/// R-CLI-6: quorum, voters and cordons are checked.
#[test]
fn quorum_and_voters_are_checked() {
    let none = StatusResponse::default();
    let lost = ClusterStatusResponse { quorum_lost: true, ..cluster(&THREE) };
    assert_eq!(
        lines(&lost, &members(&THREE), &none),
        [
            "failing quorum cluster: no quorum: nothing can be changed, running containers keep running",
        ]
    );
    let mut two = cluster(&["n1", "n2"]);
    two.nodes[1].suffrage = "learner".to_owned();
    two.nodes[1].availability = "cordoned".to_owned();
    assert_eq!(
        lines(&two, &members(&["n1", "n2"]), &none),
        [
            "warning cordon n2: it gets no new replicas",
            "warning voters cluster: 0 of 1 voter can be lost without losing the quorum",
        ]
    );
}

/// R-CLI-6: unplaced services, aborted rollouts and failed replicas are reported.
#[test]
fn what_does_not_run_is_lines() {
    let service = ServiceInfo {
        name: "web".to_owned(),
        unplaced: vec![UnplacedInfo {
            count: 2,
            reason: "no_capacity".to_owned(),
            ..UnplacedInfo::default()
        }],
        rollout: Some(RolloutInfo {
            target_revision: 3,
            state: "aborted".to_owned(),
            failure_reason: "step_timeout".to_owned(),
            ..RolloutInfo::default()
        }),
        ..ServiceInfo::default()
    };
    let replica = |id: &str, state: &str| ReplicaInfo {
        id: id.to_owned(),
        state: state.to_owned(),
        code: "restart_exhausted".to_owned(),
        ..ReplicaInfo::default()
    };
    let status = StatusResponse {
        deployments: vec![DeploymentInfo {
            name: "shop".to_owned(),
            services: vec![service],
            ..DeploymentInfo::default()
        }],
        replicas: vec![replica("shop-web-0", "running"), replica("shop-web-1", "failed")],
        ..StatusResponse::default()
    };
    let found = lines(&cluster(&THREE), &members(&THREE), &status);
    let [placement, replica, rollout] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(placement, "failing placement shop/web: 2 replicas cannot be placed: no capacity");
    assert!(replica.starts_with("failing replica shop-web-1: failed"), "{replica}");
    assert_eq!(
        rollout,
        "warning rollout shop/web: its rollout to revision 3 is aborted: step_timeout"
    );
}

/// R-CLI-6: packets between routers are findings with the pair, the direction and what to do.
#[test]
fn packets_between_routers_are_checked() {
    let way = |from: &str, to: &str| ExaminedWay {
        from: from.to_owned(),
        to: to.to_owned(),
        port: 51820,
        arrives: true,
        arrives_full: true,
        one_direction: true,
        sent_forbidden: true,
        path_mtu: 1500,
        round_trip_us: Some(600),
    };
    let router = |node: &str| ExaminedRouter { node: node.to_owned(), ..ExaminedRouter::default() };
    let mut network = ExamineNetworkResponse {
        routers: vec![router("n1"), router("n2"), router("n3")],
        ways: vec![way("n1", "n2"), way("n1", "n3"), way("n2", "n1"), way("n2", "n3")],
        mtu: 1420,
    };
    let lines = |network: &ExamineNetworkResponse| -> Vec<String> {
        let mut found = super::finding::Findings::default();
        super::network_checks::network(network, &mut found);
        let line = |one: Finding| {
            format!(
                "{} {} {}: {}; {}",
                one.severity.as_str(),
                one.check,
                one.object,
                one.message,
                one.help
            )
        };
        found.into_sorted().into_iter().map(line).collect()
    };
    assert_eq!(lines(&network), [""; 0]);
    network.ways[0].arrives = false;
    network.ways[1] = ExaminedWay { arrives: false, one_direction: false, ..way("n1", "n3") };
    network.ways[2].arrives_full = false;
    network.ways[3].path_mtu = 1280;
    network.routers[1].let_through = vec!["n1".to_owned()];
    network.routers[2].problem = "nft cannot be run".to_owned();
    assert_eq!(
        lines(&network),
        [
            "failing isolation n1 to n2: its router let a packet of n1 through that its rules must drop: replicas of \
             other networks may be reached; rules in the router's namespace were changed: restart jacod-net on \
             n2, and look for what did it",
            "failing mtu n2 to n1: small packets arrive, those of 1420 bytes do not: connections hang; let the links \
             from n2 to n1 take packets of 1500 bytes, or let what is between them report what it takes",
            "failing router n3: its router does not work: nft cannot be run; see NET in jaco node ls, and journalctl -u \
             jacod-net on n3",
            "failing tunnel n1 to n2: n2 hears nothing of the router of n1; let UDP port 51820 pass from n1 to n2",
            "failing tunnel n1 to n3: n3 does not answer the router of n1; let UDP port 51820 pass from n1 to n3, and \
             back",
            "warning mtu n2 to n3: the link takes 1280 bytes, so each packet of 1420 bytes is sent in two: slower, and \
             lost where fragments are dropped; let the links between the two take packets of 1500 bytes",
        ]
    );
}
