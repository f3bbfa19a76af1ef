//! The requests of routes.

use jaco_proto::v1::{RouteTop, RouteTraffic, TopResponse};
use serde_json::{Value, json};

use super::json::without_null;
use crate::format::quantity::count;
use crate::format::table::Table;
use crate::output::Detail;

/// Routes with requests, as JSON.
pub(super) fn json(routes: &[RouteTop]) -> Value {
    let routes = routes.iter().map(|route| {
        let nodes = route.nodes.iter().map(|node| {
            json!({
                "hostname": node.hostname,
                "traffic": node.traffic.as_ref().map(traffic),
            })
        });
        json!({
            "domain": route.domain,
            "path": route.path,
            "deployment": route.deployment,
            "traffic": route.total.as_ref().map(traffic),
            "nodes": nodes.collect::<Value>(),
        })
    });
    routes.collect()
}

fn traffic(traffic: &RouteTraffic) -> Value {
    let is_measured = p99(traffic).is_some();
    without_null(json!({
        "window_millis": traffic.window_ms,
        "requests": traffic.requests,
        "milli_requests_per_second": traffic.milli_requests_per_second,
        "failed": traffic.failed,
        "refused": traffic.refused,
        "p99_above_micros": is_measured.then_some(traffic.p99_above_micros),
        "p99_up_to_micros": traffic.p99_up_to_micros,
    }))
}

/// Routes with requests, and a line about those that are not shown; `None` without routes.
pub(super) fn text(top: &TopResponse, detail: Detail) -> Option<String> {
    let others = [
        (top.idle_routes, "without requests lately"),
        (top.routes_left_out, "with fewer requests"),
    ];
    let others = others.iter().filter(|(number, _)| *number > 0);
    let others: Vec<String> = others
        .map(|(number, which)| {
            let number = usize::try_from(*number).unwrap_or(usize::MAX);
            format!("{} {which}\n", count(number, "more route"))
        })
        .collect();
    if top.routes.is_empty() {
        let none = (top.idle_routes > 0).then(|| "no route has had requests lately\n".to_owned());
        return none;
    }
    Some(format!("{}{}", table(&top.routes, detail), others.concat()))
}

fn table(routes: &[RouteTop], detail: Detail) -> String {
    let columns = ["REQ/S", "5XX", "REFUSED", "P99"];
    let mut table = match detail {
        Detail::Short => Table::new(&[["ROUTE"].as_slice(), &columns].concat()),
        Detail::Wide => Table::new(&[["ROUTE", "NODE"].as_slice(), &columns].concat()),
    };
    for route in routes {
        let name = format!("{}{}", route.domain, route.path.trim_end_matches('/'));
        let total = route.total.unwrap_or_default();
        match detail {
            Detail::Short => table.row([name].into_iter().chain(cells(&total))),
            Detail::Wide => {
                table.row([name.clone(), "all".to_owned()].into_iter().chain(cells(&total)));
                for node in &route.nodes {
                    let own = cells(&node.traffic.unwrap_or_default());
                    table.row([name.clone(), node.hostname.clone()].into_iter().chain(own));
                }
            }
        }
    }
    table.render()
}

fn cells(traffic: &RouteTraffic) -> [String; 4] {
    let rate = traffic.milli_requests_per_second.saturating_add(50) / 100;
    [
        format!("{}.{}", rate / 10, rate % 10),
        share(traffic.failed, traffic.requests),
        share(traffic.refused, traffic.requests),
        p99(traffic).unwrap_or_default(),
    ]
}

/// A share in percent. Not even one of a million is shown as none.
fn share(part: u64, whole: u64) -> String {
    if part == 0 {
        return "0%".to_owned();
    }
    let tenths = (u128::from(part) * 1000 / u128::from(whole.max(1))).max(1);
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// The bound within which the 99th percentile is; `None` where nothing was measured.
fn p99(traffic: &RouteTraffic) -> Option<String> {
    match (traffic.p99_up_to_micros, traffic.p99_above_micros) {
        (Some(up_to), _) => Some(format!("<={}", duration(up_to))),
        (None, 0) => None,
        (None, above) => Some(format!(">{}", duration(above))),
    }
}

fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}us"),
        1_000..1_000_000 => decimal(micros / 100, "ms"),
        _ => decimal(micros / 100_000, "s"),
    }
}

fn decimal(tenths: u64, unit: &str) -> String {
    match tenths % 10 {
        0 => format!("{}{unit}", tenths / 10),
        rest => format!("{}.{rest}{unit}", tenths / 10),
    }
}
