//! Files copied out of containers and into them, by any node.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, binary, v1};

use crate::scenario::{apply_request, deploy};

/// Runs `jaco cp` against one node, with this standard input.
fn cp(cluster: &Cluster, node: usize, args: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(binary("jaco"));
    command.arg("cp").args(args).env("JACO_SOCKET", cluster.nodes[node].socket());
    command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("jaco can be started");
    let mut input = process.stdin.take().expect("it is a pipe");
    let writing = {
        let stdin = stdin.to_vec();
        // A command that is refused closes the pipe.
        std::thread::spawn(move || input.write_all(&stdin).ok())
    };
    let output = process.wait_with_output().expect("jaco ends");
    writing.join().expect("writing does not panic");
    output
}

fn says(out: &Output) -> String {
    let out_text = String::from_utf8_lossy(&out.stdout[..out.stdout.len().min(2000)]);
    format!("{out_text}{}", String::from_utf8_lossy(&out.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is UTF-8")
}

/// R-CLI-6: files, folders and archives get to the container and back unchanged, whichever node is asked; the audit log has
/// who copied which path.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_copied_whichever_node_is_asked() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let here = tempfile::tempdir().expect("a folder");
    let at = |name: &str| here.path().join(name);
    // More than any message or buffer holds.
    let many: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[(n % 3) as usize]).collect();
    fs::create_dir(at("site")).expect("it can be made");
    fs::write(at("site/large"), &many).expect("it can be written");
    fs::write(at("site/small"), "a").expect("it can be written");
    let ran = |node, args: &[&str], stdin: &[u8]| {
        let out = cp(&cluster, node, args, stdin);
        assert!(out.status.success(), "{args:?}: {}", says(&out));
        out
    };
    for node in 0..3 {
        for number in 0..3 {
            let (site, back) = (at("site"), at(&format!("back-{node}-{number}")));
            let remote = format!("shop/web/{number}:/srv/site-{node}");
            ran(node, &[text(&site), &remote], b"");
            let out = ran((node + 1) % 3, &[&remote, text(&back), "-o", "json"], b"");
            let copied: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
            assert_eq!(copied["replica"], format!("shop-web-{number}"));
            assert_eq!((&copied["files"], &copied["bytes"]), (&2.into(), &(many.len() + 1).into()));
            assert_eq!(fs::read(back.join("large")).expect("it is there"), many);
            assert_eq!(fs::read(back.join("small")).expect("it is there"), b"a");
        }
    }
    // One file, into a folder by a link and under its own name.
    ran(0, &[text(&at("site/small")), "shop-web-0:/link"], b"");
    ran(1, &["shop-web-0:/srv/small", text(&at("one"))], b"");
    assert_eq!(fs::read(at("one")).expect("it is there"), b"a");
    // As an archive, and back.
    let archive = ran(2, &["shop-web-0:/srv/site-0", "-"], b"").stdout;
    ran(1, &["-", "shop-web-1:/tmp"], &archive);
    assert_eq!(ran(0, &["shop-web-1:/tmp/site-0", "-"], b"").stdout, archive);

    let request = v1::AuditRequest { kinds: vec!["copy_started".to_owned()], ..Default::default() };
    let mut events = cluster.client().events(request);
    let mut found = Vec::new();
    while let Some(event) = events.next().await.expect("events") {
        found.push(event);
    }
    assert_eq!(found.len(), 9 * 2 + 5);
    let first = &found[0];
    assert!(first.by.starts_with("local:") && first.payload.contains_key("node"), "{first:?}");
    let facts = ["replica", "direction", "path"].map(|name| first.payload[name].as_str());
    assert_eq!(facts, ["shop-web-0", "in", "/srv/site-0"]);
    assert_eq!(found[1].payload["direction"], "out");
}

/// R-CLI-6, R-CLI-8: a copy that cannot be made is refused with a reason, and one that breaks off is not taken for complete.
#[tokio::test(flavor = "multi_thread")]
async fn refused_copy_has_a_reason() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let here = tempfile::tempdir().expect("a folder");
    let file = here.path().join("file");
    fs::write(&file, "text").expect("it can be written");
    let (file, folder) = (text(&file), text(here.path()));
    let refused = |args: &[&str], code: i32, words: &str| {
        for node in 0..2 {
            let out = cp(&cluster, node, args, b"no archive");
            let said = says(&out);
            assert!(out.status.code() == Some(code) && said.contains(words), "{args:?}: {said}");
        }
    };
    refused(&["shop-web-0:/srv/none", folder], 3, "error[path_not_found]: there is no /srv/none");
    refused(&["shop-web-9:/srv", folder], 3, "error[replica_not_found]");
    refused(&["shop/wbe:/srv", folder], 3, "error[service_not_found]");
    refused(&[file, "shop-web-1:/none/"], 3, "there is no folder /none");
    refused(&[file, "shop-web-1:/none/file"], 1, "error[engine_error]");
    refused(&["-", "shop-web-1:/srv"], 1, "error[engine_error]: the files of replica shop-web-1");
    refused(&[file, folder], 2, "no side is in a container");
    refused(&[&format!("{file}-none"), "shop-web-0:/srv"], 1, "cannot read");
}

/// A tar archive with these entries: path, type, and content or target of a link.
fn archive(entries: &[(&str, u8, &str)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (path, kind, text) in entries {
        let mut header = vec![0_u8; 512];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        let content = if *kind == b'2' { "" } else { text };
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = *kind;
        if *kind == b'2' {
            header[157..157 + text.len()].copy_from_slice(text.as_bytes());
        }
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        header.extend_from_slice(content.as_bytes());
        header.resize(header.len().next_multiple_of(512), 0);
        all.extend(header);
    }
    all.resize(all.len() + 1024, 0);
    all
}

/// Path, type, and content or target of a link.
type Entries<'a> = &'a [(&'a str, u8, &'a str)];

/// R-IN-3: whatever a container makes of the archive, nothing is written outside of the destination.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_archives_write_nothing_outside() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 1).await;
    let absolute = tempfile::tempdir().expect("a folder");
    let absolute = format!("{}/victim", text(absolute.path()));
    let hostile: [(Entries<'_>, &str); 4] = [
        (&[("r/", b'5', ""), ("r/../../victim", b'0', "evil")], "leads out of the destination"),
        (&[("r/", b'5', ""), (&absolute, b'0', "evil")], "is absolute"),
        (
            &[("r/", b'5', ""), ("r/up", b'2', ".."), ("r/up/victim", b'0', "evil")],
            "left out: r/up",
        ),
        (
            &[
                ("r/", b'5', ""),
                ("r/in/", b'5', ""),
                ("r/l", b'2', "in"),
                ("r/l/victim", b'0', "evil"),
            ],
            "is a link or a file, and no folder",
        ),
    ];
    for (entries, words) in hostile {
        // The fake engine hands out what it was given.
        let sent = cp(&cluster, 0, &["-", "shop/web:/srv"], &archive(entries));
        assert!(sent.status.success(), "{}", says(&sent));
        let here = tempfile::tempdir().expect("a folder");
        let to = here.path().join("to");
        let out = cp(&cluster, 0, &["shop/web:/srv/r", text(&to)], b"");
        assert!(says(&out).contains(words), "{}", says(&out));
        let around: Vec<_> = fs::read_dir(here.path()).expect("there").collect();
        assert_eq!(around.len(), 1, "{around:?}");
        assert!(!Path::new(&absolute).exists() && !to.join("in/victim").exists());
    }
}

/// R-CLI-6: readers that stop reading block neither the nodes in between nor other requests.
#[tokio::test(flavor = "multi_thread")]
async fn stalled_copies_do_not_block_other_requests() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let status = cluster.converged(leader, "shop").await;
    let at_leader = |one: &&v1::ReplicaInfo| one.node == cluster.nodes[leader].name;
    let replica = status.replicas.iter().find(at_leader).expect("they are spread").id.clone();
    let stalled = cluster.nodes[follower].client();
    let mut readers = Vec::new();
    for _ in 0..8 {
        let (path, direction) = ("/endless".to_owned(), "out".to_owned());
        let start = v1::CopyStart { replica: replica.clone(), path, direction };
        readers.push(stalled.copy(start).await.expect("it is started"));
    }
    // No state shows that a reader stalled; its buffers fill within a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for number in 0..5 {
        let request = apply_request(&format!("next-{number}"), "web:1", 1);
        let asked = cluster.nodes[follower].client();
        let applied = tokio::time::timeout(Duration::from_secs(5), asked.apply(request)).await;
        applied.expect("the leader is reached").expect("it is admitted");
    }
    drop(readers);
}
