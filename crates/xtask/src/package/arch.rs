//! The architectures that there are packages for.

use std::fmt;

use anyhow::{Result, bail};

/// An architecture, by Debian's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    /// This machine's.
    ///
    /// # Errors
    /// If there are no packages for it.
    pub(super) fn of_host() -> Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => bail!("there are no packages for {other}; --arch names amd64 or arm64"),
        }
    }

    /// Rust's name of it.
    pub(super) fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The name that readelf has for its programs.
    pub(super) fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "Advanced Micro Devices X86-64",
            Self::Arm64 => "AArch64",
        }
    }

    /// The name that compilers and Debian's folders have for it.
    pub(super) fn gnu(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// What runs its programs on a machine of another architecture.
    pub(super) fn emulator(self) -> &'static str {
        match self {
            Self::Amd64 => "qemu-x86_64",
            Self::Arm64 => "qemu-aarch64",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        })
    }
}
