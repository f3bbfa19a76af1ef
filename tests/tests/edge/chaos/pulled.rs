//! A service whose image is pulled for each instance, and the registry that has it, which can end.

use std::sync::Mutex;

use jaco_testkit::docker::IMAGE;
use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::registry::{Access, Registry};
use jaco_testkit::{eventually_within, succeeded};
use tempfile::TempDir;

use crate::outside::Outside;

/// Where the registry listens: outside of all machines, as clients are.
const ADDRESS: &str = "10.99.0.100:5000";

/// Instances of the service.
pub(crate) const SLOTS: usize = 2;

/// The registry. Dropping it ends it.
pub(crate) struct Pulled {
    images: TempDir,
    process: Mutex<Option<Registry>>,
}

impl Pulled {
    /// Starts the registry with the image, and applies the deployment.
    pub(crate) async fn start(outside: &Outside) -> Self {
        let images = tempfile::tempdir().expect("temporary files can be made");
        let pulled = Self { images, process: Mutex::default() };
        pulled.begin(&outside.machines);
        let image = format!("{ADDRESS}/hello:v1");
        for engine in &outside.machines.engines {
            engine.trust_registry(ADDRESS);
        }
        let engine = &outside.machines.engines[0];
        succeeded(&engine.command(&["tag", IMAGE, &image]).output().expect("docker runs"));
        eventually_within(PATIENCE, "the registry takes the image", || async {
            let pushed = engine.command(&["push", &image]).output().expect("docker runs");
            if pushed.status.success() { Ok(()) } else { Err(format!("{pushed:?}")) }
        })
        .await;
        succeeded(&engine.command(&["rmi", &image]).output().expect("docker runs"));
        let compose = format!(
            "
name: pulled
services:
  web:
    image: {image}
    pull_policy: always
    command: [serve]
    deploy: {{replicas: {SLOTS}, update_config: {{monitor: 0s, order: start-first}}}}
    stop_grace_period: 2s
"
        );
        outside.machines.apply(&compose, None);
        pulled
    }

    /// Starts the registry, as after a restart: it has its images.
    pub(crate) fn begin(&self, machines: &Machines) {
        let process =
            Registry::start_by(&mut machines.at_switch(), Access::Everybody, ADDRESS, &self.images);
        *self.process.lock().expect("nobody panics") = Some(process);
    }

    /// `kill -9`.
    pub(crate) fn kill(&self) {
        let process = self.process.lock().expect("nobody panics").take();
        drop(process.expect("it runs"));
    }
}
