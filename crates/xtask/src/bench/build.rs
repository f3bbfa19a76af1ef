//! Which build is measured.

/// As packages are built (ADR 0165).
const RESIDENT: &str = "build.rustflags=[\"-Csymbol-mangling-version=v0\"]";

/// A build of our programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// What users run.
    Release,
    /// What developers have: its figures say where time goes, and nothing of the promises.
    Debug,
}

impl Build {
    /// What cargo is told.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Release => &["--release", "--config", RESIDENT],
            Self::Debug => &[],
        }
    }

    /// Where its programs are, in the target directory.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Debug => "debug",
        }
    }
}
