//! From the checked tree of a jaco.yaml to typed values, with the rules of each key.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::unit::{Bytes, MilliCores};

use super::{Acme, JacoYaml, PlacementKind, RouteOverlay, ServiceOverlay, UpdateOverlay};
use crate::facts::{
    Affinity, Bounds, Constraints, FailureAction, Order, Rule, Scoring, Selectors, Spread, Tls,
};
use crate::node::{Map, Node, Value};
use crate::problem::{Code, Report};
use crate::project::normalise_name;
use crate::units;

const OPERATORS: [&str; 14] = [
    "!=",
    "<",
    "<=",
    "=",
    "==",
    ">",
    ">=",
    "is_not_set",
    "is_set",
    "regexp",
    "semver",
    "set_contains",
    "set_contains_any",
    "version",
];

/// Nomad's default weight of a spread criterion and of an affinity.
const DEFAULT_WEIGHT: i64 = 50;

pub(super) fn overlay(root: &Node, report: &mut Report) -> Option<JacoYaml> {
    let map = root.as_map()?;
    let text = |key: &str| map.get(key).and_then(Node::as_str).map(str::to_owned);
    let acme = acme(map.get("acme"), report);
    let mut overlay = JacoYaml {
        deployment: text("deployment").unwrap_or_default(),
        environment: text("environment"),
        config_selector: text("config_selector"),
        acme,
        acme_email: text("acme_email").filter(|email| !email.is_empty()),
        constraints: constraints(map.get("constraints"), report),
        spread: spread(map.get("spread"), report),
        scoring: scoring(map.get("scoring")),
        ..JacoYaml::default()
    };
    check_top(map, &overlay, report);
    for node in items(map, "routes") {
        overlay.routes.extend(route(node, acme, report));
    }
    check_routes(&overlay.routes, report);
    for node in items(map, "services") {
        overlay.services.extend(service(node, report));
    }
    let mut seen = BTreeSet::new();
    for service in &overlay.services {
        if !seen.insert(&service.name) {
            let message = format!("service `{}` is there twice", service.name);
            report.error(service.pos, Code::ValidationFailed, message);
        }
    }
    Some(overlay)
}

fn check_top(map: &Map, overlay: &JacoYaml, report: &mut Report) {
    if let Some(node) = map.get("deployment")
        && (overlay.deployment.is_empty()
            || normalise_name(&overlay.deployment) != overlay.deployment)
    {
        let message = format!("`{}` is not a deployment name", overlay.deployment);
        report
            .error(node.pos, Code::InvalidName, message)
            .expected("small letters, digits, `-` and `_`, beginning with a letter or digit");
    }
    if let (Some(node), Some(email), Acme::On) =
        (map.get("acme_email"), &overlay.acme_email, overlay.acme)
        && !is_email(email)
    {
        report
            .error(node.pos, Code::ValidationFailed, format!("`{email}` is not a mail address"))
            .expected("`name@domain`");
    }
}

fn is_email(text: &str) -> bool {
    let printable = text.chars().all(|c| c.is_ascii_graphic() && !"<>,;\"".contains(c));
    match text.rsplit_once('@') {
        Some((name, domain)) => {
            printable && !name.is_empty() && !name.contains('@') && !domain.is_empty()
        }
        None => false,
    }
}

fn items<'m>(map: &'m Map, key: &str) -> &'m [Node] {
    map.get(key).and_then(Node::as_seq).unwrap_or_default()
}

/// `on` and `off` are texts in YAML 1.2 and truth values in 1.1; both are meant.
fn acme(node: Option<&Node>, report: &mut Report) -> Acme {
    let Some(node) = node else {
        return Acme::On;
    };
    match (&node.value, node.as_str().map(str::to_ascii_lowercase).as_deref()) {
        (Value::Bool(true) | Value::Null, _) | (_, Some("on" | "")) => Acme::On,
        (Value::Bool(false), _) | (_, Some("off")) => Acme::Off,
        _ => {
            report
                .error(node.pos, Code::ValidationFailed, "`acme` is neither on nor off")
                .expected("`on` or `off`");
            Acme::On
        }
    }
}

fn route(node: &Node, acme: Acme, report: &mut Report) -> Option<RouteOverlay> {
    let port = node.get("port")?;
    let number = port.as_int().and_then(|number| u16::try_from(number).ok()).filter(|n| *n > 0);
    if number.is_none() {
        report
            .error(port.pos, Code::ValidationFailed, "the port of the route is not a port")
            .expected("a number from 1 to 65535");
    }
    let default = if acme == Acme::Off { Tls::Off } else { Tls::Auto };
    let tls = match node.get("tls") {
        None => default,
        Some(tls) => match (&tls.value, tls.as_str()) {
            (Value::Bool(false), _) | (_, Some("off")) => Tls::Off,
            (_, Some("auto")) => Tls::Auto,
            _ => {
                report
                    .error(tls.pos, Code::ValidationFailed, "`tls` is neither auto nor off")
                    .expected("`auto` or `off`");
                default
            }
        },
    };
    let text = |key: &str| node.get_str(key).unwrap_or_default().to_owned();
    for key in ["domain", "service"] {
        if let Some(value) = node.get(key)
            && value.as_str() == Some("")
        {
            report.error(value.pos, Code::ValidationFailed, format!("the route has no {key}"));
        }
    }
    Some(RouteOverlay {
        domain: text("domain").to_ascii_lowercase(),
        service: text("service"),
        port: number?,
        tls,
        path: text("path"),
        strip_path: node.get("strip_path").and_then(Node::as_bool).unwrap_or(false),
        pos: node.pos,
    })
}

fn check_routes(routes: &[RouteOverlay], report: &mut Report) {
    let mut tls: BTreeMap<&str, Tls> = BTreeMap::new();
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for route in routes {
        let domain = route.domain.as_str();
        if *tls.entry(domain).or_insert(route.tls) != route.tls {
            let message = format!("the routes of `{domain}` have TLS both on and off");
            report.error(route.pos, Code::RouteTlsMixed, message);
        }
        if seen.insert((domain, &route.path)) {
            continue;
        }
        if route.path.is_empty() {
            let message = format!("`{domain}` has a second route that takes every path");
            report.error(route.pos, Code::RouteMultipleCatchall, message);
        } else {
            let message = format!("`{domain}` has two routes for `{}`", route.path);
            report.error(route.pos, Code::ValidationFailed, message);
        }
    }
}

fn service(node: &Node, report: &mut Report) -> Option<ServiceOverlay> {
    let map = node.as_map()?;
    let mut places = BTreeMap::new();
    for key in super::table::service_keys() {
        if let Some(value) = map.get(key) {
            places.insert(key, value.pos);
        }
    }
    let placement = placement(map.get("placement"));
    let networks: Option<Vec<String>> = map.get("networks").map(texts);
    let overlay = ServiceOverlay {
        name: node.get_str("name")?.to_owned(),
        replicas: count(map.get("replicas"), "replicas", report),
        placement,
        hosts: map.get("hosts").map(texts).unwrap_or_default(),
        networks: networks.filter(|networks| !networks.is_empty()),
        spread: spread(map.get("spread"), report),
        constraints: constraints(map.get("constraints"), report),
        affinities: affinities(map.get("affinities"), report),
        selectors: selectors(map.get("selectors"), report),
        bounds: bounds(map.get("resources"), report),
        update: update(map.get("update"), report),
        rollback: map.get("rollback").map(|node| update(Some(node), report)),
        min_allocations: count(map.get("min_allocations_count"), "min_allocations_count", report),
        scoring: scoring(map.get("scoring")),
        places,
        pos: node.pos,
    };
    check_service(&overlay, report);
    Some(overlay)
}

fn check_service(overlay: &ServiceOverlay, report: &mut Report) {
    let name = &overlay.name;
    if name.is_empty() {
        report.error(overlay.place("name"), Code::ValidationFailed, "a service has no name");
    }
    match overlay.placement {
        Some(PlacementKind::Hosts) if overlay.hosts.is_empty() => {
            let message = format!("service `{name}` uses placement=hosts without hosts");
            report
                .error(overlay.place("placement"), Code::ValidationFailed, message)
                .suggest("add `hosts: [NAME, …]`");
        }
        Some(PlacementKind::Global) if overlay.replicas.is_some() => {
            // The wording is part of the interface: scripts look for it.
            let message = format!(
                "service \"{name}\" uses placement=global; remove replicas (global runs one \
                 replica per ready node)"
            );
            report.error(overlay.place("replicas"), Code::ValidationFailed, message);
        }
        Some(PlacementKind::Hosts) => {
            let (wanted, hosts) = (overlay.replicas.unwrap_or(1) as usize, overlay.hosts.len());
            if wanted > hosts {
                let message =
                    format!("service `{name}` wants {wanted} replicas on {hosts} pinned hosts");
                report
                    .error(overlay.place("replicas"), Code::ReplicasExceedPinnedHosts, message)
                    .suggest("add hosts, or lower `replicas`");
            }
        }
        Some(PlacementKind::Spread | PlacementKind::Pack | PlacementKind::Global) | None => {
            if !overlay.hosts.is_empty() {
                let message = format!("the hosts of service `{name}` are not used");
                report
                    .warning(overlay.place("hosts"), Code::NoEffect, message)
                    .suggest("add `placement: hosts`");
            }
        }
    }
}

fn texts(node: &Node) -> Vec<String> {
    let items = node.as_seq().unwrap_or_default();
    items.iter().filter_map(Node::as_str).map(str::to_owned).collect()
}

fn count(node: Option<&Node>, key: &str, report: &mut Report) -> Option<u32> {
    let node = node?;
    let number = node.as_int()?;
    let count = u32::try_from(number).ok();
    if count.is_none() {
        report
            .error(node.pos, Code::ValidationFailed, format!("`{key}` cannot be {number}"))
            .expected("a whole number from 0");
    }
    count
}

fn placement(node: Option<&Node>) -> Option<PlacementKind> {
    match node?.as_str()? {
        "spread" => Some(PlacementKind::Spread),
        "pack" => Some(PlacementKind::Pack),
        "hosts" => Some(PlacementKind::Hosts),
        "global" => Some(PlacementKind::Global),
        _ => None,
    }
}

fn scoring(node: Option<&Node>) -> Option<Scoring> {
    match node?.as_str()? {
        "nomad" => Some(Scoring::Nomad),
        "jaco" => Some(Scoring::Jaco),
        _ => None,
    }
}

/// `"cpu=2 ram=3G"`, a mapping, or a list of rules and such texts.
fn constraints(node: Option<&Node>, report: &mut Report) -> Constraints {
    let mut all = Constraints::default();
    let Some(node) = node else {
        return all;
    };
    match &node.value {
        Value::Null => {}
        Value::Str(text) => pairs(text, node, &mut all, report),
        Value::Map(map) => {
            for entry in map.iter() {
                match plain(&entry.node) {
                    Some(value) => {
                        all.pairs.insert(entry.key.to_string(), value);
                    }
                    None => {
                        let message =
                            format!("the constraint `{}` is a {}", entry.key, entry.node.kind());
                        report.error(entry.node.pos, Code::WrongType, message);
                    }
                }
            }
        }
        Value::Seq(items) => {
            for item in items {
                match item.as_str() {
                    Some(text) => pairs(text, item, &mut all, report),
                    None => all.rules.extend(rule(item, &[], report)),
                }
            }
        }
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            report
                .error(node.pos, Code::WrongType, format!("`constraints` is {}", node.kind()))
                .expected("a text such as \"cpu=2 ram=3G\", a mapping, or a list of rules");
        }
    }
    all
}

fn pairs(text: &str, node: &Node, all: &mut Constraints, report: &mut Report) {
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                all.pairs.insert(key.to_owned(), value.to_owned());
            }
            Some(_) | None => {
                report
                    .error(node.pos, Code::InvalidValue, format!("`{word}` is not a constraint"))
                    .expected("`KEY=VALUE`, separated by blanks");
            }
        }
    }
}

fn plain(node: &Node) -> Option<String> {
    match &node.value {
        Value::Null => Some(String::new()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Int(value) => Some(value.to_string()),
        Value::Float(value) => Some(crate::scalar::format_float(*value)),
        Value::Str(text) => Some(text.to_string()),
        Value::Seq(_) | Value::Map(_) => None,
    }
}

fn rule(node: &Node, more: &[&str], report: &mut Report) -> Option<Rule> {
    let map = known_keys(node, &[&["attribute", "operator", "value"], more].concat(), report)?;
    let attribute = node.get_str("attribute").map(bare_attribute).filter(|text| !text.is_empty());
    if attribute.is_none() {
        report.error(node.pos, Code::MissingKey, "the rule has no `attribute`");
    }
    let operator = node.get_str("operator").unwrap_or("=");
    if !OPERATORS.contains(&operator) {
        let pos = map.get("operator").map_or(node.pos, |node| node.pos);
        report
            .error(pos, Code::InvalidValue, format!("`{operator}` is not an operator"))
            .nearest(operator, OPERATORS.into_iter())
            .expected(OPERATORS.map(|name| format!("`{name}`")).join(", "));
    }
    let operator = if operator == "==" { "=" } else { operator };
    let value = map.get("value").and_then(plain).unwrap_or_default();
    Some(Rule { attribute: attribute?.to_owned(), operator: operator.to_owned(), value })
}

/// `${node.zone}` and `node.zone` are the same attribute.
fn bare_attribute(text: &str) -> &str {
    text.strip_prefix("${").and_then(|text| text.strip_suffix('}')).unwrap_or(text)
}

fn known_keys<'n>(node: &'n Node, known: &[&str], report: &mut Report) -> Option<&'n Map> {
    let Some(map) = node.as_map() else {
        let list = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        report
            .error(
                node.pos,
                Code::WrongType,
                format!("a mapping is needed, but this is {}", node.kind()),
            )
            .expected(format!("a mapping with {list}"));
        return None;
    };
    for entry in map.iter() {
        if !known.contains(&entry.key.as_str()) {
            report
                .error(
                    entry.key_pos,
                    Code::UnknownKey,
                    format!("there is no key `{}` here", entry.key),
                )
                .nearest(&entry.key, known.iter().copied());
        }
    }
    Some(map)
}

fn affinities(node: Option<&Node>, report: &mut Report) -> Vec<Affinity> {
    let items = list_of(node, "affinities", report);
    let mut all = Vec::new();
    for item in items {
        let weight = weight(item, -100, report);
        if let Some(rule) = rule(item, &["weight"], report) {
            all.push(Affinity { rule, weight });
        }
    }
    all
}

fn weight(node: &Node, least: i64, report: &mut Report) -> i8 {
    let Some(weight) = node.get("weight") else {
        return i8::try_from(DEFAULT_WEIGHT).unwrap_or(i8::MAX);
    };
    match weight.as_int().filter(|number| (least..=100).contains(number)) {
        Some(number) => i8::try_from(number).unwrap_or(i8::MAX),
        None => {
            report
                .error(weight.pos, Code::InvalidValue, "the weight is out of range")
                .expected(format!("a whole number from {least} to 100"));
            0
        }
    }
}

/// A list, or the one item it would hold.
fn list_of<'n>(node: Option<&'n Node>, key: &str, report: &mut Report) -> Vec<&'n Node> {
    let Some(node) = node else {
        return Vec::new();
    };
    match &node.value {
        Value::Seq(items) => items.iter().collect(),
        Value::Map(_) => vec![node],
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => {
            report
                .error(node.pos, Code::WrongType, format!("`{key}` is {}", node.kind()))
                .expected("a list of mappings");
            Vec::new()
        }
    }
}

fn spread(node: Option<&Node>, report: &mut Report) -> Vec<Spread> {
    let mut all = Vec::new();
    for item in list_of(node, "spread", report) {
        let Some(map) = known_keys(item, &["attribute", "weight", "targets"], report) else {
            continue;
        };
        let Some(attribute) = item.get_str("attribute").map(bare_attribute) else {
            report.error(item.pos, Code::MissingKey, "the spread criterion has no `attribute`");
            continue;
        };
        let weight = u8::try_from(weight(item, 0, report)).unwrap_or(0);
        let targets = targets(map.get("targets"), report);
        all.push(Spread { attribute: attribute.to_owned(), weight, targets });
    }
    all
}

fn targets(node: Option<&Node>, report: &mut Report) -> BTreeMap<String, u8> {
    let mut all = BTreeMap::new();
    let Some(node) = node else {
        return all;
    };
    let mut add = |value: String, percent: Option<&Node>, pos, report: &mut Report| {
        let number = percent.and_then(Node::as_int).filter(|number| (0..=100).contains(number));
        let Some(number) = number.and_then(|number| u8::try_from(number).ok()) else {
            report
                .error(
                    pos,
                    Code::InvalidValue,
                    format!("the share of `{value}` is not a percentage"),
                )
                .expected("`percent:` from 0 to 100");
            return;
        };
        if all.insert(value.clone(), number).is_some() {
            report.error(pos, Code::DuplicateValue, format!("`{value}` is there twice"));
        }
    };
    if let Some(map) = node.as_map() {
        for entry in map.iter() {
            add(entry.key.to_string(), Some(&entry.node), entry.node.pos, report);
        }
    }
    for item in node.as_seq().unwrap_or_default() {
        if known_keys(item, &["value", "percent"], report).is_some() {
            let value = item.get("value").and_then(plain).unwrap_or_default();
            add(value, item.get("percent"), item.pos, report);
        }
    }
    let total: u32 = all.values().map(|percent| u32::from(*percent)).sum();
    if total > 100 {
        report
            .error(node.pos, Code::InvalidValue, format!("the shares add up to {total} percent"))
            .expected("at most 100");
    }
    all
}

fn selectors(node: Option<&Node>, report: &mut Report) -> Selectors {
    let Some(node) = node else {
        return Selectors::Any;
    };
    if node.as_str() == Some("auto") {
        return Selectors::Auto;
    }
    let Some(items) = node.as_seq() else {
        report
            .error(node.pos, Code::WrongType, format!("`selectors` is {}", node.kind()))
            .expected("a list of labels, or `auto`");
        return Selectors::Any;
    };
    let mut labels = BTreeSet::new();
    for item in items {
        match item.as_str() {
            Some(text) if !text.is_empty() => {
                labels.insert(text.to_owned());
            }
            Some(_) | None => {
                report.error(item.pos, Code::WrongType, "a selector is not a label");
            }
        }
    }
    if labels.is_empty() { Selectors::Any } else { Selectors::All(labels) }
}

/// R-RES-1: a lone minimum is the maximum too; nothing is no bound.
fn bounds(node: Option<&Node>, report: &mut Report) -> Bounds {
    let mut bounds = Bounds::default();
    let Some(node) = node else {
        return bounds;
    };
    let memory = range(node.get("memory"), "memory", parse_memory, report);
    let cpu = range(node.get("cpu"), "cpu", parse_cpu, report);
    (bounds.memory_min, bounds.memory_max) = (Bytes(memory.0), Bytes(memory.1));
    (bounds.cpu_min, bounds.cpu_max) = (MilliCores(cpu.0), MilliCores(cpu.1));
    bounds
}

fn range(
    node: Option<&Node>,
    what: &str,
    parse: fn(&str) -> Option<u64>,
    report: &mut Report,
) -> (u64, u64) {
    let Some(node) = node else {
        return (0, 0);
    };
    let mut read = |key: &str| {
        let value = node.get(key)?;
        let text = value.as_str()?;
        let number = parse(text);
        if number.is_none() {
            report
                .error(
                    value.pos,
                    Code::InvalidManifest,
                    format!("`{what}.{key}` cannot be `{text}`"),
                )
                .expected(if what == "cpu" { "`500 MHz`, `2 GHz`" } else { "`512 MB`, `2 GB`" });
        }
        number
    };
    let min = read("min").unwrap_or(0);
    let max = read("max").unwrap_or(0);
    if max == 0 {
        return (min, min);
    }
    if min > max {
        report.error(
            node.pos,
            Code::InvalidManifest,
            format!("`{what}.min` is more than `{what}.max`"),
        );
    }
    (min, max)
}

/// Megabytes without a unit.
pub(crate) fn parse_memory(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text);
    let shift = match unit.as_str() {
        "" | "mb" | "m" => 20,
        "gb" | "g" => 30,
        "tb" | "t" => 40,
        _ => return None,
    };
    units::scale(number, 1 << shift)
}

/// Megahertz without a unit; a thousand are one core, so one is a thousandth of a core.
pub(crate) fn parse_cpu(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text);
    let millis = match unit.as_str() {
        "" | "mhz" => 1,
        "ghz" => 1_000,
        "thz" => 1_000_000,
        _ => return None,
    };
    units::scale(number, millis)
}

fn number_and_unit(text: &str) -> (&str, String) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim().to_ascii_lowercase())
}

/// An update section of jaco.yaml or of compose's `deploy`; both have the same words.
pub(crate) fn update(node: Option<&Node>, report: &mut Report) -> UpdateOverlay {
    let Some(node) = node else {
        return UpdateOverlay::default();
    };
    let nanos = |key: &str| node.get_str(key).and_then(units::parse_duration_nanos);
    let ratio = node.get("max_failure_ratio");
    let permille = ratio.and_then(|ratio| {
        let permille = permille(ratio);
        if permille.is_none() {
            report
                .error(ratio.pos, Code::InvalidValue, "`max_failure_ratio` is not a share")
                .expected("a number from 0 to 1");
        }
        permille
    });
    let action = node.get("failure_action").and_then(|action| {
        let known = match action.as_str()? {
            "pause" => Some(FailureAction::Pause),
            "continue" => Some(FailureAction::Continue),
            "rollback" => Some(FailureAction::Rollback),
            _ => None,
        };
        if known.is_none() {
            report
                .error(action.pos, Code::InvalidValue, "`failure_action` is not known")
                .expected("`pause`, `continue` or `rollback`");
        }
        known
    });
    let order = match node.get_str("order") {
        Some("start-first") => Some(Order::StartFirst),
        Some("stop-first") => Some(Order::StopFirst),
        Some(_) | None => None,
    };
    UpdateOverlay {
        parallelism: count(node.get("parallelism"), "parallelism", report),
        delay_nanos: nanos("delay"),
        monitor_nanos: nanos("monitor"),
        step_timeout_nanos: nanos("step_timeout"),
        max_failure_permille: permille,
        failure_action: action,
        order,
    }
}

fn permille(node: &Node) -> Option<u32> {
    let text = plain(node)?;
    let permille = units::scale(&text, 1_000)?;
    u32::try_from(permille).ok().filter(|permille| *permille <= 1_000)
}
