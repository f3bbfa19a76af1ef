//! The container hash: cosmetic edits never flip it, semantic ones always do.

use jaco_compose::model::ContainerSpec;
use jaco_compose::{Contents, Options, resolve};
use jaco_types::Hostname;
use jaco_types::spec::Placement;
use proptest::prelude::*;

use crate::util::{load_text, resolve_text};

const BASE: &str = "
services:
  web:
    image: nginx:1
    command: [\"nginx\", \"-g\", \"daemon off;\"]
    environment:
      A: \"1\"
      B: two
    labels:
      team: shop
    ports:
      - \"8080:80\"
    volumes:
      - data:/data
      - ./conf:/etc/nginx:ro
    networks: [front]
    healthcheck:
      test: [\"CMD\", \"true\"]
      interval: 90s
    depends_on: [db]
    deploy:
      replicas: 2
      resources:
        limits: {cpus: '0.5', memory: 64m}
  db:
    image: postgres:16
networks:
  front: {}
  back: {}
volumes:
  data: {}
";

fn hash(text: &str) -> String {
    hash_with(text, None)
}

fn hash_with(text: &str, overlay: Option<&str>) -> String {
    let resolved = resolve_text(text, overlay).unwrap_or_else(|problems| panic!("{problems}"));
    resolved.services["web"].container.hash.to_string()
}

fn edit(from: &str, to: &str) -> String {
    assert!(BASE.contains(from), "the edit must hit: {from}");
    BASE.replacen(from, to, 1)
}

/// Edits that leave the containers as they are.
fn cosmetic() -> Vec<(&'static str, String)> {
    vec![
        ("comment", edit("    image: nginx:1", "    # the web\n    image: nginx:1 # pinned")),
        ("quotes", edit("B: two", "B: 'two'")),
        (
            "list instead of map",
            edit("\n      A: \"1\"\n      B: two", "\n      - B=two\n      - A=1"),
        ),
        ("flow style", edit("\n      team: shop", " {team: shop}")),
        (
            "order of keys",
            edit("    image: nginx:1\n", "").replacen(
                "    labels:",
                "    image: nginx:1\n    labels:",
                1,
            ),
        ),
        ("same duration", edit("90s", "1m30s")),
        ("same amount", edit("64m", "65536k")),
        ("same cpus", edit("'0.5'", "0.50")),
        ("long port", edit("      - \"8080:80\"", "      - {target: 80, published: 8080}")),
        ("long volume", edit("- data:/data", "- {type: volume, source: data, target: /data/}")),
        ("networks as map", edit("networks: [front]", "networks: {front: }")),
        (
            "default written out",
            edit("    image: nginx:1", "    image: nginx:1\n    privileged: false\n    tty: false"),
        ),
        ("extension", edit("    image: nginx:1", "    image: nginx:1\n    x-note: hello")),
        ("profiles", edit("    image: nginx:1", "    image: nginx:1\n    profiles: []")),
        ("replicas", edit("replicas: 2", "replicas: 5")),
        ("mode", edit("replicas: 2", "mode: global")),
        ("scale", edit("replicas: 2", "labels: {a: b}")),
        (
            "placement",
            edit(
                "replicas: 2",
                "replicas: 2\n      placement: {constraints: [\"node.labels.ssd == 1\"]}",
            ),
        ),
        (
            "update policy",
            edit(
                "replicas: 2",
                "replicas: 2\n      update_config: {parallelism: 2, order: stop-first}",
            ),
        ),
        (
            "cpu reservation",
            edit("limits: {cpus", "reservations: {cpus: 0.1}\n        limits: {cpus"),
        ),
        (
            "dependencies",
            edit("depends_on: [db]", "depends_on: {db: {condition: service_healthy}}"),
        ),
        ("restart", edit("    image: nginx:1", "    image: nginx:1\n    restart: unless-stopped")),
        ("pull policy", edit("    image: nginx:1", "    image: nginx:1\n    pull_policy: always")),
        (
            "key without effect",
            edit("    image: nginx:1", "    image: nginx:1\n    mac_address: 02:42:ac:11:00:02"),
        ),
        ("another service", edit("postgres:16", "postgres:17")),
        ("unused resource", edit("  back: {}", "  back: {internal: true}")),
        ("subnet", edit("front: {}", "front: {ipam: {config: [{subnet: 10.1.0.0/24}]}}")),
        ("version", format!("version: '3.8'\n{BASE}")),
        ("anchors", edit("\n      team: shop", " &l {team: shop}")),
        ("line ends", BASE.replace('\n', "\r\n")),
        ("byte order mark", format!("\u{feff}{BASE}")),
        ("escaped dollar free text", edit("two", "\"\\x74wo\"")),
    ]
}

/// Edits that change the containers.
fn semantic() -> Vec<(&'static str, String)> {
    vec![
        ("image", edit("nginx:1", "nginx:2")),
        ("command", edit("daemon off;", "daemon on;")),
        ("entrypoint", edit("    image: nginx:1", "    image: nginx:1\n    entrypoint: /run")),
        ("no entrypoint", edit("    image: nginx:1", "    image: nginx:1\n    entrypoint: []")),
        ("variable", edit("B: two", "B: three")),
        ("variable removed", edit("      B: two\n", "")),
        ("variable unset", edit("B: two", "B:")),
        ("label", edit("team: shop", "team: store")),
        ("port", edit("8080:80", "8081:80")),
        ("protocol", edit("8080:80", "8080:80/udp")),
        ("mount removed", edit("      - data:/data\n", "")),
        ("mount target", edit("data:/data", "data:/data2")),
        ("read-only", edit("/etc/nginx:ro", "/etc/nginx")),
        ("volume name", edit("  data: {}", "  data: {name: other}")),
        ("volume driver", edit("  data: {}", "  data: {driver: nfs}")),
        ("network", edit("[front]", "[front, back]")),
        ("network name", edit("front: {}", "front: {name: edge}")),
        ("internal network", edit("front: {}", "front: {internal: true}")),
        ("alias", edit("networks: [front]", "networks: {front: {aliases: [www]}}")),
        ("health test", edit("\"CMD\", \"true\"", "\"CMD\", \"false\"")),
        ("health interval", edit("90s", "91s")),
        ("memory limit", edit("64m", "65m")),
        ("cpu limit", edit("'0.5'", "'0.6'")),
        ("user", edit("    image: nginx:1", "    image: nginx:1\n    user: '1000'")),
        ("tty", edit("    image: nginx:1", "    image: nginx:1\n    tty: true")),
        ("init off", edit("    image: nginx:1", "    image: nginx:1\n    init: false")),
        (
            "grace period",
            edit("    image: nginx:1", "    image: nginx:1\n    stop_grace_period: 3s"),
        ),
        ("platform", edit("    image: nginx:1", "    image: nginx:1\n    platform: linux/arm64")),
        ("ulimit", edit("    image: nginx:1", "    image: nginx:1\n    ulimits: {nofile: 9}")),
        ("logging", edit("    image: nginx:1", "    image: nginx:1\n    logging: {driver: local}")),
        (
            "memory reservation",
            edit("limits: {cpus", "reservations: {memory: 8m}\n        limits: {cpus"),
        ),
    ]
}

/// R-HASH-1
#[test]
fn cosmetic_edits_never_flip_the_hash() {
    let base = hash(BASE);
    for (what, text) in cosmetic() {
        assert_eq!(hash(&text), base, "{what}");
    }
}

/// R-HASH-1
#[test]
fn semantic_edits_always_flip_the_hash() {
    let base = hash(BASE);
    for (what, text) in semantic() {
        assert_ne!(hash(&text), base, "{what}");
    }
}

/// R-HASH-1
#[test]
fn the_overlay_changes_containers_only_by_its_networks() {
    let overlay = |more: &str| format!("deployment: shop\nservices:\n  - name: web\n{more}");
    let base = hash(BASE);
    let scheduling = overlay(
        "    placement: hosts\n    replicas: 1\n    hosts: [n1, n2]\n    selectors: [ssd]\n    \
         constraints: cpu=2\n    update: {parallelism: 3}\n    resources: {memory: {max: 1GB}}\n",
    );
    assert_eq!(hash_with(BASE, Some(&scheduling)), base);
    assert_eq!(hash_with(BASE, Some(&overlay("    networks: [front]\n"))), base);
    assert_ne!(hash_with(BASE, Some(&overlay("    networks: [back]\n"))), base);
    let resolved = resolve_text(BASE, Some(&scheduling)).unwrap();
    let hosts = ["n1", "n2"].map(|name| Hostname::new(name).unwrap()).into();
    assert_eq!(resolved.services["web"].facts.placement, Placement::Hosts(hosts));
}

/// R-HASH-1: a command that is left empty is none; an empty list takes the image's away.
#[test]
fn a_command_that_is_left_empty_is_none() {
    for key in ["command", "entrypoint"] {
        let with = |value: &str| {
            let resolved =
                resolve_text(&format!("services: {{web: {{image: i, {key}: {value}}}}}"), None);
            resolved.unwrap().services["web"].container.clone()
        };
        let without = resolve_text("services: {web: {image: i}}", None).unwrap();
        assert_eq!(with("null"), without.services["web"].container, "{key}");
        assert_ne!(with("[]").hash, with("null").hash, "{key}");
    }
}

/// R-HASH-1, R-IN-4: the content of uploaded files counts, their place on the client does not.
#[test]
fn contents_of_files_are_part_of_the_hash() {
    let project = load_text(BASE).unwrap().project;
    let with = |digest: &str| {
        let binds = [("conf".to_owned(), digest.to_owned())].into();
        let contents = Contents { binds, ..Contents::default() };
        let options = Options { contents, ..Options::default() };
        resolve(&project, None, &options).unwrap().services["web"].container.hash
    };
    assert_eq!(with("a"), with("a"));
    assert_ne!(with("a"), with("b"));
}

/// The typed view reads every canonical text of the table of edits.
#[test]
fn canonical_texts_have_a_typed_view() {
    for (what, text) in cosmetic().into_iter().chain(semantic()) {
        let resolved = resolve_text(&text, None).unwrap();
        for service in resolved.services.values() {
            let canonical = &service.container.canonical;
            if let Err(error) = ContainerSpec::parse(canonical) {
                panic!("{what}: {error:?} in {canonical}");
            }
        }
    }
    let resolved = resolve_text(BASE, None).unwrap();
    let spec = ContainerSpec::parse(&resolved.services["web"].container.canonical).unwrap();
    assert_eq!(spec.service.image, "nginx:1");
    assert_eq!(spec.service.deploy.unwrap().resources.limits.cpu_millis, Some(500));
    assert_eq!(spec.service.healthcheck.unwrap().interval_nanos, Some(90_000_000_000));
    assert_eq!(spec.service.networks.keys().collect::<Vec<_>>(), ["front"]);
    assert_eq!(spec.networks["front"].name, "shop_front");
    assert_eq!(spec.volumes["data"].name, "shop_data");
}

proptest! {
    /// R-HASH-1: law: blanks, comments and blank lines anywhere between lines change nothing.
    #[test]
    fn layout_never_flips(places in proptest::collection::vec((0_usize..40, 0_usize..3), 0..20)) {
        let mut lines: Vec<String> = BASE.lines().map(str::to_owned).collect();
        for (place, kind) in places {
            let place = place.min(lines.len() - 1);
            match kind {
                0 => lines.insert(place, "# remark".to_owned()),
                1 => lines.insert(place, String::new()),
                _ => lines[place].push_str("   "),
            }
        }
        prop_assert_eq!(hash(&lines.join("\n")), hash(BASE));
    }

    /// R-HASH-1: law: two environments have the same hash exactly if they are the same.
    #[test]
    fn environments_are_told_apart(
        a in proptest::collection::btree_map("[A-Z]{1,2}", "[a-z0-9 :#'-]{0,4}", 0..4),
        b in proptest::collection::btree_map("[A-Z]{1,2}", "[a-z0-9 :#'-]{0,4}", 0..4),
    ) {
        let text = |env: &std::collections::BTreeMap<String, String>| {
            let env = serde_json::to_string(env).unwrap();
            format!("services:\n  web:\n    image: x\n    environment: {env}\n")
        };
        prop_assert_eq!(hash(&text(&a)) == hash(&text(&b)), a == b);
    }
}
