//! The text that `strace -f -xx` writes, as calls. It must never drop a line that it does not understand.

use std::collections::BTreeMap;
use std::io;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returned {
    Value(i64),
    Failed,
    /// The program ended within the call.
    Never,
}

/// One system call; begin and end are positions in the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) returned: Returned,
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

/// One argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Argument {
    Text(Vec<u8>),
    /// A number, a name of flags, or a structure.
    Other(String),
}

impl Call {
    /// A number among the arguments.
    pub(crate) fn number(&self, at: usize) -> io::Result<i64> {
        match self.arguments.get(at) {
            Some(Argument::Other(text)) => text.parse().map_err(|_| self.malformed()),
            Some(Argument::Text(_)) | None => Err(self.malformed()),
        }
    }

    /// Names of flags, or a structure.
    pub(crate) fn word(&self, at: usize) -> io::Result<&str> {
        match self.arguments.get(at) {
            Some(Argument::Other(text)) => Ok(text),
            Some(Argument::Text(_)) | None => Err(self.malformed()),
        }
    }

    /// Bytes that were written, or of a path.
    pub(crate) fn bytes(&self, at: usize) -> io::Result<&[u8]> {
        match self.arguments.get(at) {
            Some(Argument::Text(bytes)) => Ok(bytes),
            Some(Argument::Other(_)) | None => Err(self.malformed()),
        }
    }

    /// What it would have returned to a program that ended before: how much it wrote, or a descriptor that nobody uses.
    pub(crate) fn if_carried_out(&self) -> i64 {
        match self.name.as_str() {
            "write" | "pwrite64" => {
                self.bytes(1).map_or(0, |data| data.len().try_into().unwrap_or(i64::MAX))
            }
            "writev" | "openat" => i64::MAX,
            _ => 0,
        }
    }

    pub(crate) fn malformed(&self) -> io::Error {
        invalid(format!("call {} at line {} is not understood", self.name, self.begin + 1))
    }
}

pub(crate) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads a trace, in the order in which calls began.
pub(crate) fn parse(text: &str) -> io::Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    // By thread: the call that another thread's line interrupted.
    let mut unfinished: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = || invalid(format!("line {} of the trace is not understood", at + 1));
        let (thread, rest) = line.split_once(' ').ok_or_else(wrong)?;
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let call = unfinished.remove(thread).ok_or_else(wrong)?;
            let (_, tail) = resumed.split_once(" resumed>").ok_or_else(wrong)?;
            let (_, result) = tail.rsplit_once(" = ").ok_or_else(wrong)?;
            let returned = returned(result).ok_or_else(wrong)?;
            (calls[call].returned, calls[call].end) = (returned, end(returned, at));
            continue;
        }
        let (name, rest) = rest.split_once('(').ok_or_else(wrong)?;
        let (arguments, result) = match rest.strip_suffix(" <unfinished ...>") {
            Some(arguments) => (arguments, None),
            None => {
                let (call, result) = rest.rsplit_once(" = ").ok_or_else(wrong)?;
                let arguments = call.trim_end().strip_suffix(')').ok_or_else(wrong)?;
                (arguments, Some(returned(result).ok_or_else(wrong)?))
            }
        };
        if result.is_none() {
            unfinished.insert(thread, calls.len());
        }
        let returned = result.unwrap_or(Returned::Never);
        calls.push(Call {
            name: name.to_owned(),
            arguments: split(arguments).ok_or_else(wrong)?,
            returned,
            begin: at,
            end: end(returned, at),
        });
    }
    Ok(calls)
}

/// Where a call ended whose result is told at `at`.
fn end(returned: Returned, at: usize) -> usize {
    match returned {
        Returned::Value(_) | Returned::Failed => at,
        Returned::Never => usize::MAX,
    }
}

fn returned(text: &str) -> Option<Returned> {
    let word = text.split_whitespace().next()?;
    if word == "?" {
        return Some(Returned::Never);
    }
    // Flags are told in hexadecimal.
    let value: i64 = match word.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => word.parse().ok()?,
    };
    Some(if value < 0 { Returned::Failed } else { Returned::Value(value) })
}

fn split(mut text: &str) -> Option<Vec<Argument>> {
    let mut arguments = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if text.is_empty() {
            return Some(arguments);
        }
        if let Some(quoted) = text.strip_prefix('"') {
            let (escaped, rest) = quoted.split_once('"')?;
            // A text that strace cut off is not what was written.
            if rest.starts_with("...") {
                return None;
            }
            arguments.push(Argument::Text(unescape(escaped)?));
            text = rest;
            continue;
        }
        let mut depth = 0_usize;
        let end = text.find(|letter| {
            match letter {
                '[' | '{' | '(' => depth += 1,
                ']' | '}' | ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        });
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        arguments.push(Argument::Other(word.trim().to_owned()));
        text = rest;
    }
}

/// `\x2f\x74` as bytes.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| (digit as char).to_digit(16);
    let escapes = text.as_bytes().chunks(4);
    let byte = |escape: &[u8]| match escape {
        [b'\\', b'x', high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    escapes.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_calls_are_joined() {
        let text = "7 pwrite64(9, \"\\x61\\x62\", 2, 4096 <unfinished ...>\n\
                    8 fdatasync(4)                      = 0\n\
                    7 <... pwrite64 resumed>)           = 2\n\
                    8 fcntl(4, F_GETFD) = 0x1 (flags FD_CLOEXEC)\n\
                    8 fsync(4) = -1 EIO (Input/output error) (INJECTED)\n\
                    8 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
                    8 fdatasync(5 <unfinished ...>\n\
                    8 +++ exited with 0 +++\n";
        let calls = parse(text).unwrap();
        let told: Vec<_> = calls
            .iter()
            .map(|call| (call.name.as_str(), call.returned, call.begin, call.end))
            .collect();
        assert_eq!(
            told,
            [
                ("pwrite64", Returned::Value(2), 0, 2),
                ("fdatasync", Returned::Value(0), 1, 1),
                ("fcntl", Returned::Value(1), 3, 3),
                ("fsync", Returned::Failed, 4, 4),
                ("fdatasync", Returned::Never, 6, usize::MAX),
            ]
        );
        assert_eq!(calls[0].bytes(1).unwrap(), b"ab");
        assert_eq!(calls[0].number(3).unwrap(), 4096);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in ["7 write(1, \"\\x61\"..., 2) = 2", "nonsense", "7 <... fsync resumed>) = 0"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
