//! Files copied out of real containers and into them, and their ports forwarded. The image has one program and no other
//! file: no shell, no `tar`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;

use jaco_testkit::docker::docker;
use jaco_testkit::{Cluster, Engine, Forwarding};

use crate::mesh::{Mesh, succeeded};
use crate::scenario::{IMAGE, apply, replicas};

const SERVES: &str = r#","command":["serve"]"#;

fn says(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is UTF-8")
}

/// The answer to a request over a forwarded port.
fn asked(forwarding: &Forwarding, number: usize) -> String {
    let mut stream = forwarding.connect(number);
    let request = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an end");
    answer
}

/// The most memory that a daemon has had, in KiB.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// R-CLI-6: folders with programs, links and long names get into a container without any program that unpacks, and back
/// unchanged, whichever node is asked; what comes in belongs to root; memory does not grow with the size.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_copied_without_a_program_in_the_image() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    apply(&cluster, "shop", IMAGE, 2, SERVES).await;
    succeeded(&cluster.cli(0, &["wait", "shop"]));
    let here = tempfile::tempdir().expect("a folder");
    let at = |name: &str| here.path().join(name);
    let long = format!("site/{}/{}", "a".repeat(120), "b".repeat(120));
    fs::create_dir_all(at(&long).parent().expect("it has one")).expect("made");
    fs::write(at(&long), "long").expect("written");
    fs::write(at("site/program"), "#!/hello\n").expect("written");
    fs::set_permissions(at("site/program"), fs::Permissions::from_mode(0o750)).expect("set");
    symlink("program", at("site/link")).expect("made");
    for node in 0..3 {
        for number in 0..2 {
            let remote = format!("shop/web/{number}:/site-{node}");
            succeeded(&cluster.cli(node, &["cp", text(&at("site")), &remote]));
            let back = at(&format!("back-{node}-{number}"));
            succeeded(&cluster.cli((node + 1) % 3, &["cp", &remote, text(&back)]));
            let name = long.strip_prefix("site/").expect("it is below");
            assert_eq!(fs::read_to_string(back.join(name)).expect("there"), "long");
            assert_eq!(fs::read_link(back.join("link")).expect("a link"), Path::new("program"));
            let mode = fs::metadata(back.join("program")).expect("there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o750);
        }
    }
    let container = &replicas(&cluster, 0, "shop").await[0].container_id;
    let seen = docker(&["cp", &format!("{container}:/site-0/program"), "-"]);
    assert_eq!((&seen[108..115], &seen[116..123]), ("0000000", "0000000"), "root's");
    // Into a folder and over a file, as an archive and out of what is no file of the image.
    succeeded(&cluster.cli(0, &["cp", &format!("{}/.", text(&at("site"))), "shop-web-0:/site-1"]));
    succeeded(&cluster.cli(1, &["cp", text(&at(&long)), "shop-web-0:/site-1/program"]));
    succeeded(&cluster.cli(2, &["cp", "shop-web-0:/site-1/program", text(&at("over"))]));
    assert_eq!(fs::read_to_string(at("over")).expect("there"), "long");
    succeeded(&cluster.cli(2, &["cp", "shop-web-0:/etc/hostname", text(here.path())]));
    let refused = |args: &[&str], code: i32, words: &str| {
        let out = cluster.cli(0, &[&["cp"], args].concat());
        let said = says(&out);
        assert!(out.status.code() == Some(code) && said.contains(words), "{args:?}: {said}");
    };
    refused(&["shop/web:/none", text(here.path())], 3, "error[path_not_found]");
    refused(&[text(&at("site")), "shop/web:/none/site"], 1, "error[engine_error]");

    // 200 MiB, through a node between.
    let large = fs::File::create(at("large")).expect("made");
    large.set_len(200 << 20).expect("it is sparse");
    let pids: Vec<u32> = cluster.nodes.iter().map(|node| node.pid()).collect();
    let before: Vec<u64> = pids.iter().map(|pid| peak(*pid)).collect();
    for node in 0..3 {
        succeeded(&cluster.cli(node, &["cp", text(&at("large")), "shop-web-1:/large"]));
        succeeded(&cluster.cli(node, &["cp", "shop-web-1:/large", text(&at("large-back"))]));
        assert_eq!(fs::metadata(at("large-back")).expect("there").len(), 200 << 20);
    }
    for (pid, before) in pids.iter().zip(before) {
        let grown = peak(*pid).saturating_sub(before);
        println!("a daemon grew by {grown} KiB at most, from {before} KiB");
        assert!(grown < 64 << 10, "{grown} KiB");
    }
}

/// R-CLI-6: a port that is not published is reached from any node, also of a container that shares the network of another
/// one; where nothing listens, the reason is said.
#[tokio::test(flavor = "multi_thread")]
async fn ports_that_are_not_published_are_forwarded() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    let service = format!(r#""image":"{IMAGE}","command":["serve"]"#);
    let beside = format!(r#""image":"{IMAGE}","command":["sleep"]"#);
    let compose_json = format!(
        r#"{{"name":"shop","services":{{
            "web":{{{service},"deploy":{{"replicas":3}}}},
            "beside":{{{beside},"network_mode":"service:web"}},
            "alone":{{{service},"network_mode":"none"}}}}}}"#
    );
    let request = jaco_testkit::v1::ApplyRequest {
        compose_json,
        request_id: jaco_testkit::fresh_request_id(),
        ..Default::default()
    };
    cluster.client().apply(request).await.expect("it is admitted");
    succeeded(&cluster.cli(0, &["wait", "shop"]));
    for node in 0..3 {
        for number in 0..3 {
            let of = format!("shop/web/{number}");
            let forwarding = Forwarding::start(&cluster.nodes[node], &of, &[8080]);
            let answer = asked(&forwarding, 0);
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
    let forwarding = Forwarding::start(&cluster.nodes[0], "shop/beside", &[8080, 81]);
    assert!(asked(&forwarding, 0).starts_with("HTTP/1.1 200"));
    let reset = forwarding.connect(1).read(&mut [0; 1]).expect_err("no clean end");
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    forwarding.says("Connection refused");
    let forwarding = Forwarding::start(&cluster.nodes[0], "shop/alone", &[8080]);
    drop(forwarding.connect(0));
    forwarding.says("has no network");
}

const APART: &str = "
name: shop
services:
  web: {image: 'jaco-hello:v1', command: [serve], networks: [back]}
  db: {image: 'jaco-hello:v1', command: [serve], networks: [back]}
networks: {back: {internal: true}}
";

const PLACES: &str = "
services:
  - {name: web, placement: hosts, hosts: [n1]}
  - {name: db, placement: hosts, hosts: [n2]}
";

/// R-CLI-6: a container on another machine is reached and copied to by the cluster's own connections alone, also one that is
/// only in an internal network of the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn containers_of_other_machines_are_reached() {
    let mesh = Mesh::start().await;
    succeeded(&mesh.cluster.cli(0, &["network", "enable"]));
    mesh.has_routers().await;
    mesh.apply(APART, PLACES);
    for node in 0..2 {
        for service in ["web", "db"] {
            let of = format!("shop/{service}");
            let forwarding = Forwarding::start(&mesh.cluster.nodes[node], &of, &[8080]);
            let answer = asked(&forwarding, 0);
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let here = tempfile::tempdir().expect("a folder");
            fs::write(here.path().join("file"), service).expect("written");
            let (file, remote) = (here.path().join("file"), format!("{of}:/file"));
            succeeded(&mesh.cluster.cli(node, &["cp", text(&file), &remote]));
            let back = here.path().join("back");
            succeeded(&mesh.cluster.cli(1 - node, &["cp", &remote, text(&back)]));
            assert_eq!(fs::read_to_string(back).expect("there"), service);
        }
    }
}
