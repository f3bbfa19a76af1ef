//! Debian's `docker-registry` on loopback, and a registry that accepts and never answers.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A registry that runs. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Registry {
    process: Child,
}

impl Registry {
    /// Starts a registry with the images in this folder on this port of 127.0.0.1.
    pub(crate) fn start(port: u16, folder: &TempDir) -> Self {
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            folder.path().join("data").display()
        );
        let file = folder.path().join("config.yml");
        fs::write(&file, config).expect("temporary files can be written");
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process =
            process.expect("docker-registry is there: `cargo xtask test docker` installs it");
        Self { process }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _gone = self.process.kill().is_err();
        let _gone = self.process.wait().is_err();
    }
}

/// A port of loopback that nobody listens on at the moment.
pub(crate) fn free_port() -> u16 {
    Silence::start().port()
}

/// A port on which connections are accepted and never answered, until it is dropped.
#[derive(Debug)]
pub(crate) struct Silence {
    listener: TcpListener,
}

impl Silence {
    pub(crate) fn start() -> Self {
        // The kernel completes handshakes for a listener that nobody accepts on.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        Self { listener }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().expect("it is bound").port()
    }
}
