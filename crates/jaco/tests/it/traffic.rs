//! Requests of routes in `jaco top`.

use expect_test::expect;
use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;

use crate::fixture::Session;

/// Two routes with requests, three without, and an edge that does not answer.
struct Shop;

fn traffic(
    requests: u64,
    [failed, refused]: [u64; 2],
    p99: (u64, Option<u64>),
) -> v1::RouteTraffic {
    let (p99_above_micros, p99_up_to_micros) = p99;
    v1::RouteTraffic {
        requests,
        window_ms: 20_000,
        milli_requests_per_second: requests * 50,
        failed,
        refused,
        p99_above_micros,
        p99_up_to_micros,
    }
}

fn route(path: &str, total: v1::RouteTraffic, nodes: Vec<v1::NodeTraffic>) -> v1::RouteTop {
    let (domain, deployment) = ("shop.example".to_owned(), "shop".to_owned());
    v1::RouteTop { domain, path: path.to_owned(), deployment, total: Some(total), nodes }
}

impl Script for Shop {
    fn top(&self, _: v1::TopRequest, _: Option<&str>) -> Answer<v1::TopResponse> {
        let on = |name: &str, traffic| v1::NodeTraffic {
            hostname: name.to_owned(),
            traffic: Some(traffic),
        };
        let slow = (10_000_000, None);
        let nodes = vec![
            on("n1", traffic(2000, [1, 0], (1000, Some(2500)))),
            on("n2", traffic(469, [0, 247], slow)),
        ];
        let routes = vec![
            route("/", traffic(2469, [1, 247], slow), nodes),
            route("/api", traffic(1, [0, 0], (0, Some(250))), vec![]),
        ];
        Ok(v1::TopResponse {
            routes,
            idle_routes: 3,
            routes_left_out: 1,
            unknown_edges: [("n3".to_owned(), "its edge does not answer".to_owned())].into(),
            ..v1::TopResponse::default()
        })
    }
}

/// R-EDGE-1: routes are shown with what all edges answered, and by node on request; an edge that says nothing is named.
#[test]
fn routes_have_their_requests() {
    let session = Session::with(Shop);
    let routes = |line: &str| {
        let run = session.run(line);
        assert_eq!(run.code, Some(0));
        expect![[r#"
            warning: the requests of the edge of n3 are not known: its edge does not answer
        "#]]
        .assert_eq(&run.err);
        run.out.split_once('\n').unwrap().1.to_owned()
    };
    expect![[r#"

        ROUTE             REQ/S  5XX   REFUSED  P99
        shop.example      123.5  0.1%  10.0%    >10s
        shop.example/api  0.1    0%    0%       <=250us
        3 more routes without requests lately
        1 more route with fewer requests
    "#]]
    .assert_eq(&routes("top"));
    expect![[r#"

        ROUTE             NODE  REQ/S  5XX   REFUSED  P99
        shop.example      all   123.5  0.1%  10.0%    >10s
        shop.example      n1    100.0  0.1%  0%       <=2.5ms
        shop.example      n2    23.5   0%    52.6%    >10s
        shop.example/api  all   0.1    0%    0%       <=250us
        3 more routes without requests lately
        1 more route with fewer requests
    "#]]
    .assert_eq(&routes("top -o wide"));
}

/// R-EDGE-1: the JSON has integers with their units in the names.
#[test]
fn routes_are_machine_readable() {
    let run = Session::with(Shop).run("top -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    expect![[r#"{"failed":1,"milli_requests_per_second":100000,"p99_above_micros":1000,"p99_up_to_micros":2500,"refused":0,"requests":2000,"window_millis":20000}"#]]
    .assert_eq(&json["routes"][0]["nodes"][0]["traffic"].to_string());
    let slow = &json["routes"][0]["traffic"];
    assert_eq!(slow["p99_above_micros"], 10_000_000);
    assert!(slow.get("p99_up_to_micros").is_none(), "{slow}");
    assert_eq!((&json["idle_routes"], &json["routes_left_out"]), (&3.into(), &1.into()));
    assert_eq!(json["unknown_edges"]["n3"], "its edge does not answer");
}
