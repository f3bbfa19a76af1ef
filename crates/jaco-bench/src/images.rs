//! How long an image takes to reach three nodes, beside `docker save | docker load` to one other engine.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use jaco_testkit::Engine;
use serde_json::Value;

use crate::Plan;
use crate::docker::command;
use crate::engines::Engines;
use crate::figure::{Figure, say};
use crate::ours::{NODES, Ours};

/// What other measurements run; engines are started with one.
const PRESENT: &str = "jaco-hello:v1";

/// Layers of the image, and the bytes of each: 200 MB in all.
const LAYERS: usize = 5;
const LAYER_BYTES: u64 = 40_000_000;

/// Brings an image that neither has to both, in turns.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let ours = Ours::start(Engine::Docker).await?;
    let engines = Engines::start(PRESENT)?;
    let other = engines.members.first().context("there are three")?;
    let (mut pushes, mut loads) = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        let image = Image::build(round)?;
        rustix::fs::sync();
        let begun = Instant::now();
        let holders = push(&ours, &image.0)?;
        let pushed = begun.elapsed().as_secs_f64();
        ensure!(holders == NODES, "{holders} nodes have {}", image.0);
        rustix::fs::sync();
        let begun = Instant::now();
        other.load(&image.0)?;
        let loaded = begun.elapsed().as_secs_f64();
        say(&format!("images, round {round}: pushed in {pushed:.2} s, loaded in {loaded:.2} s"));
        pushes.push(pushed);
        loads.push(loaded);
    }
    Ok(vec![Figure::beside("image of 200 MB to three nodes", "s", pushes, "docker", loads)])
}

/// Pushes it, and says how many nodes hold it then.
fn push(ours: &Ours, image: &str) -> Result<usize> {
    let copies = NODES.to_string();
    let out = ours.cluster.cli(0, &["image", "push", image, "--copies", &copies, "-o", "json"]);
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "jaco image push ended with {}: {said}", out.status);
    let pushed: Value = serde_json::from_slice(&out.stdout).context("jaco image push")?;
    Ok(pushed["nodes"].as_array().map_or(0, Vec::len))
}

/// An image of the machine's engine. Removed when dropped.
struct Image(String);

impl Image {
    /// One of bytes that nobody has seen before.
    fn build(round: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut steps = String::from("FROM scratch\n");
        for layer in 0..LAYERS {
            fill(&folder.path().join(layer.to_string()))?;
            steps.push_str(&format!("COPY {layer} /{layer}\n"));
        }
        std::fs::write(folder.path().join("Dockerfile"), steps)?;
        let name = format!("jaco-bench-image:{}-{round}", std::process::id());
        let path = folder.path().to_str().context("a folder with a name in UTF-8")?;
        command(&["build", "--quiet", "--tag", &name, path])?;
        Ok(Self(name))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Err(error) = command(&["image", "rm", &self.0]) {
            say(&format!("{} is left behind: {error:#}", self.0));
        }
    }
}

fn fill(path: &Path) -> Result<()> {
    use std::io::Read;
    let mut random = File::open("/dev/urandom")?.take(LAYER_BYTES);
    io::copy(&mut random, &mut File::create(path)?)?;
    Ok(())
}
