//! How long a volume takes from one node to another, beside rsync from one folder of the same disk to another.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_testkit::Engine;
use jaco_testkit::docker::docker;
use serde_json::{Value, json};

use crate::Plan;
use crate::engines::said;
use crate::figure::{Figure, say};
use crate::ours::{NODES, Ours};

const DEPLOYMENT: &str = "moving";
const LIMIT: Duration = Duration::from_secs(60);

/// What is in the volume: files of a database, and many small ones. 1 GB in all.
const CONTENT: [(usize, u64); 2] = [(98, 10_000_000), (5_000, 4_000)];

/// Moves the volume to the next node and copies its folder, in turns.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let ours = Ours::start(Engine::Docker).await?;
    let model = json!({"name": DEPLOYMENT, "services": {"db": {
        "image": "jaco-hello:v1",
        "volumes": [{"type": "volume", "source": "data", "target": "/data"}],
    }}, "volumes": {"data": {}}});
    ours.apply(&ours.client(0)?, model).await?;
    ours.running(DEPLOYMENT, 1, LIMIT).await;
    let mut node =
        ours.cluster.overview(0).await.map_err(anyhow::Error::msg)?.replicas[0].node.clone();
    fill(&folder_of(&ours, &node)?)?;
    jaco(&ours, &["disable", "moving/db"])?;
    let copies = tempfile::tempdir()?;
    let (mut moves, mut others) = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        let from = folder_of(&ours, &node)?;
        node = next(&node)?;
        rustix::fs::sync();
        let begun = Instant::now();
        jaco(&ours, &["volume", "move", "moving/data", &node, "--replace"])?;
        let moved = begun.elapsed().as_secs_f64();
        let to = folder_of(&ours, &node)?;
        ensure!(entries(&to)? == entries(&from)?, "not everything is in {}", to.display());
        rustix::fs::sync();
        let copy = copies.path().join(round.to_string());
        let begun = Instant::now();
        rsync(&from, &copy)?;
        let copied = begun.elapsed().as_secs_f64();
        fs::remove_dir_all(copy)?;
        say(&format!("volumes, round {round}: moved in {moved:.2} s, rsync took {copied:.2} s"));
        moves.push(moved);
        others.push(copied);
    }
    Ok(vec![Figure::beside("volume of 1 GB moved", "s", moves, "rsync", others)])
}

/// The node after this one.
fn next(node: &str) -> Result<String> {
    let number: usize = node.trim_start_matches('n').parse()?;
    Ok(format!("n{}", number % NODES + 1))
}

fn jaco(ours: &Ours, args: &[&str]) -> Result<Vec<u8>> {
    let out = ours.cluster.cli(0, args);
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "jaco {} ended with {}: {said}", args.join(" "), out.status);
    Ok(out.stdout)
}

/// Where the engine has the volume of this node.
fn folder_of(ours: &Ours, node: &str) -> Result<PathBuf> {
    let listed: Vec<Value> =
        serde_json::from_slice(&jaco(ours, &["volume", "ls", DEPLOYMENT, "-o", "json"])?)?;
    let row = listed.iter().find(|row| row["node"] == node);
    let id = row.and_then(|row| row["engine_name"].as_str());
    let id = id.with_context(|| format!("{node} does not have the volume"))?;
    Ok(docker(&["volume", "inspect", "--format", "{{.Mountpoint}}", id]).trim().into())
}

fn fill(folder: &Path) -> Result<()> {
    let mut random = File::open("/dev/urandom")?;
    for (kind, (files, bytes)) in CONTENT.into_iter().enumerate() {
        let inside = folder.join(kind.to_string());
        fs::create_dir(&inside)?;
        for file in 0..files {
            io::copy(
                &mut (&mut random).take(bytes),
                &mut File::create(inside.join(file.to_string()))?,
            )?;
        }
    }
    Ok(())
}

/// How many files there are, and their bytes.
fn entries(folder: &Path) -> Result<(usize, u64)> {
    let mut all = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (files, bytes) = match entry.file_type()?.is_dir() {
            true => entries(&entry.path())?,
            false => (1, entry.metadata()?.len()),
        };
        all = (all.0 + files, all.1 + bytes);
    }
    Ok(all)
}

fn rsync(from: &Path, to: &Path) -> Result<()> {
    said(Command::new("rsync").arg("--archive").arg(from.join("")).arg(to)).map(drop)
}
