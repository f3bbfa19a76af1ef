//! `jaco top` and `jaco rebalance`.

use expect_test::{Expect, expect};
use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;

use crate::fixture::Session;

/// A cluster with a hot node, a node without measurements, and one move.
struct HotNode;

fn amount(cpu_millis: u64, memory_bytes: u64) -> Option<v1::Amount> {
    Some(v1::Amount { cpu_millis, memory_bytes })
}

impl Script for HotNode {
    fn top(&self, _: v1::TopRequest, _: Option<&str>) -> Answer<v1::TopResponse> {
        let node = |name: &str, pressure: Option<u64>, measured| v1::NodeTop {
            hostname: name.to_owned(),
            pressure,
            measured,
            reserved: amount(500, 0),
            limit: amount(1000, 512 << 20),
            capacity: amount(4000, 8 << 30),
            replicas: 1,
        };
        let replica = |id: &str, pressure, measured| v1::ReplicaTop {
            id: id.to_owned(),
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            node: "n1".to_owned(),
            pressure,
            measured,
            reserved: amount(0, 0),
            limit: amount(250, 0),
        };
        Ok(v1::TopResponse {
            nodes: vec![node("n1", Some(904_999), amount(3600, 1 << 30)), node("n2", None, None)],
            replicas: vec![
                replica("shop-web-0", Some(0), amount(0, 0)),
                replica("shop-web-1", None, None),
            ],
            ..v1::TopResponse::default()
        })
    }

    fn rebalance(
        &self,
        request: v1::RebalanceRequest,
        _: Option<&str>,
    ) -> Answer<v1::RebalanceResponse> {
        let facts = [
            ("replica_id", "shop-web-0"),
            ("src", "n1"),
            ("dst", "n2"),
            ("dominant", "cpu"),
            ("relief", "0.2000"),
            ("src_pressure_before", "0.9050"),
            ("src_pressure_after", "0.7050"),
            ("dst_pressure_before", "0.1000"),
            ("dst_pressure_after", "0.3000"),
            ("potential_before", "16"),
            ("potential_after", "10"),
        ];
        let facts = facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).into();
        let moves =
            if [7, 8].contains(&request.max_moves) { vec![] } else { vec![v1::Move { facts }] };
        assert_eq!(request.apply, !request.request_id.is_empty(), "a write has a request id");
        Ok(v1::RebalanceResponse {
            moves,
            index: if request.apply { 42 } else { 0 },
            measured: 2,
            concerned: if request.goal == "pack" { 0 } else { 3 },
            movable: request.max_moves % 2,
            hottest: "n1".to_owned(),
            hottest_pressure: if request.max_moves == 7 { 420_000 } else { 905_000 },
            trigger: 850_000,
        })
    }
}

fn check(session: &Session, line: &str, expected: &Expect) {
    let run = session.run(line);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    expected.assert_eq(&run.out);
}

/// R-REB-2: a missing measurement is not shown as zero.
#[test]
fn usage_is_shown_with_reservations_and_limits() {
    let session = Session::with(HotNode);
    check(
        &session,
        "top",
        &expect![[r#"
        NODE  REPLICAS  PRESSURE  CPU    CPU RESERVED  CPU LIMIT  MEMORY  MEMORY RESERVED  MEMORY LIMIT
        n1    1         90%       3600m  500m          1000m      1 GiB   -                512 MiB
        n2    1         -         -      500m          1000m      -       -                512 MiB

        REPLICA     NODE  PRESSURE  CPU  CPU RESERVED  CPU LIMIT  MEMORY  MEMORY RESERVED  MEMORY LIMIT
        shop-web-0  n1    0%        0m   -             250m       0 B     -                -
        shop-web-1  n1    -         -    -             250m       -       -                -
    "#]],
    );
    let run = session.run("top -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["nodes"][0]["pressure"], "0.9050");
    assert_eq!(json["nodes"][0]["measured"]["cpu_millis"], 3600);
    assert!(json["nodes"][1].get("measured").is_none(), "{json}");
    assert_eq!(json["replicas"][0]["limit"]["cpu_millis"], 250);
}

/// R-REB-9: moves are shown, and made only with --apply.
#[test]
fn moves_are_shown_and_made_on_demand() {
    let session = Session::with(HotNode);
    check(
        &session,
        "rebalance --plan",
        &expect![[r#"
            REPLICA     FROM  TO  RESOURCE  GAIN  FROM PRESSURE  TO PRESSURE
            shop-web-0  n1    n2  cpu       20%   91% -> 71%     10% -> 30%

            1 move planned; --apply makes them
        "#]],
    );
    check(
        &session,
        "rebalance --apply",
        &expect![[r#"
            REPLICA     FROM  TO  RESOURCE  GAIN  FROM PRESSURE  TO PRESSURE
            shop-web-0  n1    n2  cpu       20%   91% -> 71%     10% -> 30%

            1 move started
        "#]],
    );
    check(
        &session,
        "rebalance --plan --max 7",
        &expect![[r#"
            nothing to move: no node is hot; the hottest is n1 at 42%, and 85% is hot
        "#]],
    );
    check(
        &session,
        "rebalance --goal spread --plan",
        &expect![[r#"
        REPLICA     FROM  TO  POTENTIAL
        shop-web-0  n1    n2  16 -> 10

        1 move planned; --apply makes them
    "#]],
    );
    check(
        &session,
        "rebalance --goal pack --plan --most 7",
        &expect![[r#"
            nothing to move: no replica has `placement: pack`
        "#]],
    );
    let why = |line: &str| session.run(line).out.replacen("nothing to move: ", "", 1);
    let relief = why("rebalance --plan --max 8");
    assert!(
        relief.starts_with("n1 is hot at 91%, and no move would lower that enough"),
        "{relief}"
    );
    let bound = why("rebalance --plan --goal spread --max 8");
    assert!(
        bound.starts_with("of 3 replicas with `placement: spread` or `hosts` none can be moved"),
        "{bound}"
    );
    let even = why("rebalance --plan --goal spread --max 7");
    assert!(even.starts_with("1 of 3 replicas with"), "{even}");
    let run = session.run("rebalance --apply -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&json["index"], &json["moves"][0]["dst"]), (&42.into(), &"n2".into()));
    for wrong in [
        "rebalance",
        "rebalance --plan --apply",
        "rebalance --apply --max 0",
        "rebalance --plan --goal hot",
    ] {
        assert_eq!(session.run(wrong).code, Some(2), "{wrong}");
    }
}
