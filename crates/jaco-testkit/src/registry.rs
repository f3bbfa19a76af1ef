//! Debian's `docker-registry`.

use std::fs;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// To whom a registry gives images.
#[derive(Debug, Clone, Copy)]
pub enum Access<'a> {
    /// To all who ask.
    Everybody,
    /// The users of this password file: `user:bcrypt` in each line.
    Users(&'a str),
}

/// A registry that runs. Dropping it ends it; its images stay in their folder.
#[derive(Debug)]
pub struct Registry {
    process: Child,
}

impl Registry {
    /// Starts a registry with the images in this folder on this port of 127.0.0.1.
    ///
    /// # Panics
    /// When the package is not installed.
    #[must_use]
    pub fn start(port: u16, folder: &TempDir) -> Self {
        Self::start_for(Access::Everybody, port, folder)
    }

    /// As [`Registry::start`], for these people.
    ///
    /// # Panics
    /// As [`Registry::start`].
    #[must_use]
    pub fn start_for(access: Access<'_>, port: u16, folder: &TempDir) -> Self {
        let address = format!("127.0.0.1:{port}");
        Self::start_by(&mut Command::new("env"), access, &address, folder)
    }

    /// As [`Registry::start_for`], at any address, through another program: `command` ends where the registry begins.
    ///
    /// # Panics
    /// As [`Registry::start`].
    #[must_use]
    pub fn start_by(
        command: &mut Command,
        access: Access<'_>,
        address: &str,
        folder: &TempDir,
    ) -> Self {
        let mut config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            folder.path().join("data").display()
        );
        if let Access::Users(users) = access {
            let file = folder.path().join("htpasswd");
            fs::write(&file, users).expect("temporary files can be written");
            let path = file.display();
            config.push_str(&format!("auth:\n  htpasswd:\n    realm: test\n    path: {path}\n"));
        }
        let file = folder.path().join("config.yml");
        fs::write(&file, config).expect("temporary files can be written");
        let process = command
            .args(["docker-registry", "serve"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self { process: process.expect("`cargo xtask test` installs docker-registry") }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _gone = self.process.kill().is_err();
        let _gone = self.process.wait().is_err();
    }
}
