//! Caddy, with one thread for what is Go.

use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::proxy::Proxy;
use super::served::extra_domain;
use super::site::{CLEAR, ORIGIN, Place, Site, TLS, serving};

/// How it is called in the table.
pub(super) const WHO: &str = "Caddy";

/// Serves the site, and so many more names in clear.
pub(super) async fn start(site: &Site, more: usize) -> Result<Proxy> {
    let address = site.address(4);
    let upstreams = site.origins().map(|origin| json!({"dial": format!("{origin}:{ORIGIN}")}));
    let route = |name: &str| {
        json!({
            "match": [{"host": [name]}],
            "handle": [{
                "handler": "reverse_proxy",
                "upstreams": upstreams,
                "load_balancing": {"selection_policy": {"policy": "least_conn"}},
                // Its own default keeps fewer connections than the load has.
                "transport": {"protocol": "http", "keep_alive": {"max_idle_conns_per_host": 128}},
            }],
            "terminal": true,
        })
    };
    let clear: Vec<Value> =
        std::iter::once(route(CLEAR)).chain((0..more).map(|n| route(&extra_domain(n)))).collect();
    let server = |place, routes: Vec<Value>, tls: Value| {
        json!({
            "listen": [serving(address, place).to_string()],
            "automatic_https": {"disable": true},
            "tls_connection_policies": tls,
            "routes": routes,
        })
    };
    let config = json!({
        "admin": {"disabled": true, "config": {"persist": false}},
        "logging": {"logs": {"default": {"level": "ERROR"}}},
        "apps": {
            "http": {"servers": {
                "clear": server(Place::Clear, clear, Value::Null),
                "tls": server(Place::Tls, vec![route(TLS)], json!([{}])),
            }},
            "tls": {"certificates": {"load_files": [{
                "certificate": site.file("chain.pem"),
                "key": site.file("key.pem"),
            }]}},
        },
    });
    let file = site.file("caddy.json");
    std::fs::write(&file, config.to_string())?;
    let mut command = Command::new("caddy");
    command.args(["run", "--config"]).arg(&file);
    command.env("GOMAXPROCS", "1").env("HOME", site.folder());
    command.env("XDG_DATA_HOME", site.folder()).env("XDG_CONFIG_HOME", site.folder());
    Proxy::start(WHO, address, &mut command, &site.file("caddy.log")).await
}
