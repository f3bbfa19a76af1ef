//! HAProxy, as a proxy and as the origin of all of them.

use std::process::Command;

use anyhow::Result;

use super::proxy::Proxy;
use super::site::{ORIGIN, Place, Site, serving};

/// How it is called in the table.
pub(super) const WHO: &str = "HAProxy";

const COMMON: &str = "\
global
    nbthread 1
    maxconn 4096
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout http-keep-alive 60s
";

/// Answers each request with 1 KiB.
pub(super) async fn origin(site: &Site) -> Result<Proxy> {
    let [one, two] = site.origins();
    let document = site.file("document");
    // What waits for it looks at both ports.
    let (clear, tls) = (serving(one, Place::Clear), serving(one, Place::Tls));
    assert_eq!(clear.port(), ORIGIN, "the origin is reached as any proxy is");
    let config = format!(
        "{COMMON}frontend origin
    bind {clear}
    bind {tls}
    bind {two}:{ORIGIN}
    http-request return status 200 content-type text/plain file {}
",
        document.display()
    );
    start(site, "origin", one, &config).await
}

/// Serves the site with one thread.
pub(super) async fn proxy(site: &Site) -> Result<Proxy> {
    let address = site.address(3);
    let [one, two] = site.origins();
    let (clear, tls) = (serving(address, Place::Clear), serving(address, Place::Tls));
    let config = format!(
        "{COMMON}frontend site
    bind {clear}
    bind {tls} ssl crt {} alpn h2,http/1.1
    option forwardfor
    default_backend instances
backend instances
    balance leastconn
    http-reuse always
    server one {one}:{ORIGIN}
    server two {two}:{ORIGIN}
",
        site.file("both.pem").display()
    );
    start(site, WHO, address, &config).await
}

async fn start(
    site: &Site,
    name: &'static str,
    address: std::net::Ipv4Addr,
    config: &str,
) -> Result<Proxy> {
    let file = site.file(&format!("{name}.cfg"));
    std::fs::write(&file, config)?;
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&file);
    // The distribution keeps it where only root looks.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin"));
    Proxy::start(name, address, &mut command, &site.file(&format!("{name}.log"))).await
}
