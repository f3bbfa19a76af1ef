//! A test of the layer `edge` that runs for longer than it does by itself.

use anyhow::Result;

use crate::workspace::{Workspace, program_packages};
use crate::{engine, image, process, test};

/// How the programs are built.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Profile {
    Debug,
    Release,
}

impl Profile {
    /// That of a flag `--release`.
    pub(crate) fn of(release: bool) -> Self {
        if release { Self::Release } else { Self::Debug }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Debug => &[],
            Self::Release => &["--release"],
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

/// Which test, and how much of it.
#[derive(Debug)]
pub(crate) struct LongTest {
    pub(crate) name: &'static str,
    pub(crate) profile: Profile,
    /// Variables of its environment.
    pub(crate) asked: Vec<(&'static str, u64)>,
}

impl LongTest {
    /// Builds what it takes and runs it; it prints what came of it.
    ///
    /// # Errors
    /// If it fails, or there is no engine, or something does not build.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        test::ensure_wires()?;
        let _engine = engine::ensure(workspace)?;
        image::build(workspace)?;
        // Together, as the layer builds them: apart, they would be built in other sets of features.
        let packages: Vec<&str> = program_packages().chain(["--package", "jaco-tests"]).collect();
        let mut build = workspace.cargo();
        build.args(["build", "--quiet"]).args(self.profile.arguments()).args(&packages);
        process::run(build.args(["--bins", "--test", "edge"]))?;
        let mut command = workspace.cargo();
        command.args(["test", "--quiet"]).args(self.profile.arguments()).args(&packages);
        command.args(["--test", "edge", self.name, "--", "--nocapture"]);
        command.env("JACO_BIN_DIR", workspace.target.join(self.profile.folder()));
        for (variable, value) in &self.asked {
            command.env(variable, value.to_string());
        }
        process::run(&mut command)
    }
}
