//! Clocks of daemons that tests set: those of their processes, as the machine has one clock.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

/// The library of Debian's package `faketime`, for this machine's architecture.
///
/// # Panics
/// When the package is not installed.
#[must_use]
pub fn faketime_library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("a system has libraries");
    let folders = folders.map(|folder| folder.expect("it can be listed").path());
    let mut libraries = folders.map(|folder| folder.join("faketime/libfaketime.so.1"));
    libraries.find(|library| library.exists()).expect("the package faketime is installed")
}

/// The clock of a process and of those that it starts. It can be set while they run, which they see within a second; what
/// measures time without a date goes on as it is.
#[derive(Debug, Clone)]
pub struct Clock(PathBuf);

impl Clock {
    /// One that is right, kept in this file.
    ///
    /// # Panics
    /// When the file cannot be written.
    #[must_use]
    pub fn new(file: PathBuf) -> Self {
        let clock = Self(file);
        clock.set(0);
        clock
    }

    /// Sets it to so many seconds ahead of the machine's own, or behind it.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn set(&self, seconds_ahead: i64) {
        let new = self.0.with_extension("new");
        fs::write(&new, format!("{seconds_ahead:+}\n")).expect("temporary files can be written");
        // A reader finds one or the other.
        fs::rename(&new, &self.0).expect("it is ours");
    }

    /// The environment of processes that have this clock.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 4] {
        [
            ("LD_PRELOAD", faketime_library().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.0.clone().into()),
            ("FAKETIME_CACHE_DURATION", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }
}
