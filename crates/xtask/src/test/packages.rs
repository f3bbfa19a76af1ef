//! Programs of the distribution that some layers start: installed where they are missing, and said so.
//!
//! The Docker Engine has a life of its own and is the business of [`crate::engine`].

use anyhow::{Context, Result};

use super::layer::Layer;
use crate::engine;

/// A program, the Debian package that has it, and what is shown with it.
#[derive(Debug, PartialEq, Eq)]
struct Needed {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const STRACE: Needed = Needed {
    program: "strace",
    package: "strace",
    purpose: "shows in which order a daemon writes, syncs and answers",
};

const FAKETIME: Needed =
    Needed { program: "faketime", package: "faketime", purpose: "sets the clocks of daemons" };

const PEBBLE: Needed = Needed {
    program: "pebble",
    package: "pebble",
    purpose: "issues certificates on loopback, as Let's Encrypt does",
};

const CURL: Needed =
    Needed { program: "curl", package: "curl", purpose: "asks for documents as any client does" };

const CHROMIUM: Needed =
    Needed { program: "chromium", package: "chromium", purpose: "shows pages as a user sees them" };

const CHROMEDRIVER: Needed = Needed {
    program: "chromedriver",
    package: "chromium-driver",
    purpose: "clicks and types in the browser",
};

const CERTUTIL: Needed = Needed {
    program: "certutil",
    package: "libnss3-tools",
    purpose: "has the browser trust an authority",
};

/// A browser without a window, what drives it, and what makes it trust an authority.
const BROWSER: [Needed; 3] = [CHROMIUM, CHROMEDRIVER, CERTUTIL];

const TESTSSL: Needed =
    Needed { program: "testssl", package: "testssl.sh", purpose: "scans the TLS of edges" };

const SLOWHTTPTEST: Needed = Needed {
    program: "slowhttptest",
    package: "slowhttptest",
    purpose: "holds connections of edges as long as they let it",
};

const REGISTRY: Needed = Needed {
    program: "docker-registry",
    package: "docker-registry",
    purpose: "serves images on loopback, for tests of pulling",
};

const TCPDUMP: Needed =
    Needed { program: "tcpdump", package: "tcpdump", purpose: "shows what is on the wire" };

const IP: Needed =
    Needed { program: "ip", package: "iproute2", purpose: "makes bridges and containers" };

const NFT: Needed =
    Needed { program: "nft", package: "nftables", purpose: "loads the rules of routers" };

const IPERF3: Needed =
    Needed { program: "iperf3", package: "iperf3", purpose: "measures throughput" };

const PING: Needed =
    Needed { program: "ping", package: "iputils-ping", purpose: "measures round trips" };

const QEMU: Needed = Needed {
    program: "qemu-system-x86_64",
    package: "qemu-system-x86",
    purpose: "boots a kernel that has WireGuard",
};

/// What builds sites, sends, measures and captures in the layer of packets.
const PACKETS: [Needed; 5] = [IP, NFT, TCPDUMP, IPERF3, PING];

/// The same for a machine in which that is done once more.
const MACHINE: [Needed; 6] = [IP, NFT, TCPDUMP, IPERF3, PING, QEMU];

/// What breaks and watches machines with an edge each, and asks them.
const EDGES: [Needed; 9] =
    [IP, NFT, TCPDUMP, FAKETIME, REGISTRY, CURL, CHROMIUM, CHROMEDRIVER, CERTUTIL];

/// What makes packages and a fresh Debian to install them in, and the shells and the reader that they bring files for.
const PACKAGING: [Needed; 10] = [
    CURL,
    IP,
    Needed { program: "script", package: "bsdutils", purpose: "types on a terminal" },
    Needed { program: "readelf", package: "binutils", purpose: "reads what a program needs" },
    Needed { program: "mmdebstrap", package: "mmdebstrap", purpose: "makes a fresh Debian" },
    Needed {
        program: "systemd-nspawn",
        package: "systemd-container",
        purpose: "starts systemd in the fresh Debian",
    },
    Needed { program: "man", package: "man-db", purpose: "renders man pages" },
    Needed { program: "bash", package: "bash", purpose: "completes words" },
    Needed { program: "zsh", package: "zsh", purpose: "completes words" },
    Needed { program: "fish", package: "fish", purpose: "completes words" },
];

/// Makes sure that what a layer starts is there; does nothing if it is.
///
/// # Errors
/// If something is missing and cannot be installed: the layer would prove less than it says.
pub(super) fn ensure(layer: Layer) -> Result<()> {
    let missing = || needed(layer).iter().filter(|needed| engine::find(needed.program).is_none());
    let packages: Vec<_> = missing().map(|needed| needed.package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let needs = || {
        let needs = missing().map(|it| format!("{}: it {}", it.program, it.purpose));
        format!("layer {layer} needs {}", needs.collect::<Vec<_>>().join("; "))
    };
    engine::install(&packages).with_context(needs)
}

fn needed(layer: Layer) -> &'static [Needed] {
    match layer {
        // The raft crate traces itself, the cluster layer traces a whole daemon.
        Layer::Unit => &[STRACE, PEBBLE],
        Layer::Cluster => &[STRACE, FAKETIME, PEBBLE, CURL],
        Layer::Browser => &BROWSER,
        Layer::Net => &PACKETS,
        Layer::Vm => &MACHINE,
        Layer::Docker => &[REGISTRY, TCPDUMP, PEBBLE, TESTSSL, SLOWHTTPTEST],
        Layer::Edge => &EDGES,
        Layer::Package => &PACKAGING,
        Layer::Lint | Layer::Pure | Layer::RaftSim | Layer::Sim => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layer_gets_what_its_tests_start() {
        let check = |layer, expected: &[&str]| {
            let programs: Vec<_> = needed(layer).iter().map(|needed| needed.program).collect();
            assert_eq!(programs, expected, "{layer}");
        };
        check(Layer::Pure, &[]);
        check(Layer::Unit, &["strace", "pebble"]);
        check(Layer::Cluster, &["strace", "faketime", "pebble", "curl"]);
        check(Layer::Browser, &["chromium", "chromedriver", "certutil"]);
        check(Layer::Net, &["ip", "nft", "tcpdump", "iperf3", "ping"]);
        let in_a_machine = ["ip", "nft", "tcpdump", "iperf3", "ping", "qemu-system-x86_64"];
        check(Layer::Vm, &in_a_machine);
        let on_engines = ["docker-registry", "tcpdump", "pebble", "testssl", "slowhttptest"];
        check(Layer::Docker, &on_engines);
        let machines = ["ip", "nft", "tcpdump", "faketime", "docker-registry"];
        let clients = ["curl", "chromium", "chromedriver", "certutil"];
        let edges = [&machines[..], &clients].concat();
        check(Layer::Edge, &edges);
        let packaging = [
            "curl",
            "ip",
            "script",
            "readelf",
            "mmdebstrap",
            "systemd-nspawn",
            "man",
            "bash",
            "zsh",
            "fish",
        ];
        check(Layer::Package, &packaging);
    }
}
