//! The access log of the edges.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that any user may pass, with the access log of all edges.
pub(crate) struct AccessLog(PathBuf);

impl AccessLog {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("jaco-access-{}-{number}", std::process::id())))
    }

    /// One file for all edges: each only adds to it.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("access.log")
    }

    /// All of it, where that is not much.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.file()).expect("there is an access log");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    pub(crate) fn reader(&self) -> Reader {
        let file = File::open(self.file()).expect("there is an access log");
        Reader { file: BufReader::new(file), line: String::new(), requests: 0 }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// Reads each line once, as there can be millions.
pub(crate) struct Reader {
    file: BufReader<File>,
    /// As much as there is of a line that is not at its end.
    line: String,
    requests: u64,
}

impl Reader {
    /// How many requests of these domains are in it by now.
    pub(crate) fn requests(&mut self, domains: &[&str]) -> u64 {
        while self.file.read_line(&mut self.line).expect("it can be read") > 0 {
            if !self.line.ends_with('\n') {
                continue;
            }
            let line: serde_json::Value = serde_json::from_str(&self.line).expect("it is JSON");
            if line["route"].as_str().is_some_and(|route| domains.contains(&route)) {
                self.requests += 1;
            }
            self.line.clear();
        }
        self.requests
    }
}
