//! The newest lines of the daemon's log, in memory: whoever is asked for help wants to see them, and may have no access to the
//! machine.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

/// Bytes that are kept.
const LOG_BYTES_MAX: usize = 128 << 10;

/// The end of the log. Clones share it; what is written to it beyond its size replaces the oldest.
#[derive(Debug, Clone, Default)]
pub struct LogTail(Arc<Mutex<VecDeque<u8>>>);

impl LogTail {
    /// What is kept, in whole lines.
    #[must_use]
    pub fn text(&self) -> String {
        let kept = self.0.lock().expect("no holder of the lock panics");
        let (is_full, mut bytes) =
            (kept.len() == LOG_BYTES_MAX, Vec::from_iter(kept.iter().copied()));
        drop(kept);
        if is_full && let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            bytes.drain(..=end);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for LogTail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().expect("no holder of the lock panics");
        let newest = &bytes[bytes.len().saturating_sub(LOG_BYTES_MAX)..];
        let surplus = (kept.len() + newest.len()).saturating_sub(LOG_BYTES_MAX);
        kept.drain(..surplus);
        kept.extend(newest);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// R-OPS-1, R-FAULT-3: the newest lines are kept, whole ones, in bounded memory, however long one is.
    #[test]
    fn the_newest_lines_are_kept() {
        let mut tail = LogTail::default();
        assert_eq!(tail.text(), "");
        for number in 0..20_000 {
            writeln!(tail, "line {number}").unwrap();
        }
        let text = tail.text();
        assert!(text.len() <= LOG_BYTES_MAX && text.len() > LOG_BYTES_MAX - 20);
        assert!(text.starts_with("line ") && text.ends_with("line 19999\n"));
        let first: u32 = text.lines().next().unwrap()["line ".len()..].parse().unwrap();
        assert_eq!(text.lines().count(), 20_000 - first as usize);
        tail.write_all(&vec![b'x'; LOG_BYTES_MAX * 2]).unwrap();
        assert_eq!(tail.text().len(), LOG_BYTES_MAX);
        assert!(tail.0.lock().unwrap().capacity() <= 2 * LOG_BYTES_MAX);
    }
}
