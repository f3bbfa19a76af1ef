//! Paths as texts: joined and cleaned without a file system.
//!
//! Forward slashes only, as in compose files; drive letters and remote addresses are left alone.

/// Removes `.` and `..` and doubled slashes.
#[must_use]
pub fn clean(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// `path` seen from `dir`.
#[must_use]
pub fn join(dir: &str, path: &str) -> String {
    if path.starts_with('/') { clean(path) } else { clean(&format!("{dir}/{path}")) }
}

/// Whether `path` is in `dir` or in a folder below it, by its text. Both are clean.
pub(crate) fn is_below(dir: &str, path: &str) -> bool {
    if dir == "." {
        return !path.starts_with('/') && path != ".." && !path.starts_with("../");
    }
    let rest = path.strip_prefix(dir.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The folder of `path`.
#[must_use]
pub fn parent(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((dir, _)) => dir.to_owned(),
        None => ".".to_owned(),
    }
}

/// The last part of `path`.
#[must_use]
pub fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or("")
}

/// Resolves a path as a service writes it: `~` is the home folder, if the caller knows it.
pub(crate) fn resolve(dir: &str, path: &str, home: Option<&str>) -> String {
    if is_windows(path) {
        return path.to_owned();
    }
    match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            clean(&format!("{home}{rest}"))
        }
        // Absolute paths stay as written: a slash at the end can mean something to the engine.
        _ if path.starts_with('/') => path.to_owned(),
        _ => join(dir, path),
    }
}

/// Whether a text is a Windows path, which Linux nodes leave alone.
pub(crate) fn is_windows(path: &str) -> bool {
    let bytes = path.as_bytes();
    path.starts_with("\\\\")
        || matches!(bytes, [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic())
}

/// Whether a build context or compose file is somewhere else than on disk.
pub(crate) fn is_remote(path: &str) -> bool {
    const REMOTE: [&str; 9] = [
        "http://",
        "https://",
        "git://",
        "git@",
        "ssh://",
        "github.com/",
        "oci://",
        "oci-layout://",
        "docker-image://",
    ];
    REMOTE.iter().any(|prefix| path.starts_with(prefix)) || path.starts_with("service:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_without_a_disk() {
        let cases = [
            ("/p", "./a", "/p/a"),
            ("/p", "../a", "/a"),
            ("/p", "/x//y/.", "/x/y"),
            ("/p/q", "../../../z", "/z"),
            (".", "a", "a"),
            ("/p", "", "/p"),
        ];
        for (dir, path, expected) in cases {
            assert_eq!(join(dir, path), expected);
        }
        assert_eq!(resolve("/p", "~/x", Some("/home/u")), "/home/u/x");
        assert_eq!(resolve("/p", "C:\\x", None), "C:\\x");
        for (dir, path, expected) in [
            ("/p", "/p/a", true),
            ("/p", "/pq/a", false),
            ("/p", "/p", false),
            ("/", "/a", true),
            (".", "a/b", true),
            (".", "../a", false),
            (".", "/etc/shadow", false),
            ("../p", "../p/a", true),
        ] {
            assert_eq!(is_below(dir, path), expected, "{dir} {path}");
        }
        assert_eq!(parent("/a/b"), "/a");
        assert_eq!(file_name("/a/b/"), "b");
    }
}
