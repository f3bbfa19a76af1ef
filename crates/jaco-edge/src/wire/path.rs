//! Paths of requests: one form for everything that servers take for the same path, so that no spelling of a path
//! goes around the route that protects it.

use std::borrow::Cow;

/// A path in the form in which routes are looked up, and in that in which it is forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalPath<'a> {
    /// For the lookup: without escapes that are not needed, without `.` and `..`, without empty segments.
    pub key: Cow<'a, str>,
    /// For the instance: as it came in, if it has no segment `.` or `..` and no escape that is not needed, else
    /// without them. Empty segments stay.
    pub forwarded: Cow<'a, str>,
}

impl NormalPath<'_> {
    /// What is left of the forwarded path after the prefix of a route, which has to match; at least `/`.
    pub fn after(&self, prefix: &str) -> Cow<'_, str> {
        // The prefix has no empty segments. If the path has some, what is forwarded has none either: there is no
        // telling to which part they belong.
        let rest = self.forwarded.strip_prefix(prefix).or_else(|| self.key.strip_prefix(prefix));
        match rest {
            Some(rest) if rest.starts_with('/') => Cow::Borrowed(rest),
            Some(rest) => Cow::Owned(format!("/{rest}")),
            None => Cow::Borrowed(&self.key),
        }
    }
}

/// What some servers take for a slash. A path with both kinds has three readings, and each may be the one of another route.
const SEPARATORS: [&[&str]; 3] =
    [&["%2f", "%2F"], &["\\", "%5c", "%5C"], &["%2f", "%2F", "\\", "%5c", "%5C"]];

impl NormalPath<'_> {
    /// What servers look up that take escaped slashes for slashes, or backslashes of either form, or both. What all read the same
    /// is not among it.
    pub fn other_readings(&self) -> impl Iterator<Item = String> {
        SEPARATORS.iter().filter_map(|separators| {
            let read = separators
                .iter()
                .fold(self.key.to_string(), |read, separator| read.replace(separator, "/"));
            (read != *self.key).then(|| without_empty_segments(&simplified(&read)))
        })
    }
}

/// Whether all servers can read a path: each `%` begins the escape of a character that is not NUL.
pub fn is_readable(path: &str) -> bool {
    path.split('%').skip(1).all(|escape| {
        let digits = escape.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit) && digits != b"00")
    })
}

/// The forms of a path, which begins with `/` and has no query.
pub fn normalize_path(path: &str) -> NormalPath<'_> {
    let is_plain = !path.contains("/.") && !path.contains('%');
    let forwarded = if is_plain { Cow::Borrowed(path) } else { simplified(path) };
    let key = if forwarded.contains("//") {
        Cow::Owned(without_empty_segments(&forwarded))
    } else {
        forwarded.clone()
    };
    NormalPath { key, forwarded }
}

/// Undoes escapes of characters that never need one, and then resolves `.` and `..`.
fn simplified(path: &str) -> Cow<'_, str> {
    let unescaped = unescaped(path);
    let is_dots = |segment: &str| segment == "." || segment == "..";
    if !unescaped.split('/').any(is_dots) {
        return unescaped;
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for segment in unescaped.split('/').skip(1) {
        is_folder = is_dots(segment);
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let mut simple = String::with_capacity(unescaped.len());
    for segment in &kept {
        simple.push('/');
        simple.push_str(segment);
    }
    if is_folder || simple.is_empty() {
        simple.push('/');
    }
    Cow::Owned(simple)
}

/// RFC 3986, 6.2.2.2: letters, digits, `-`, `.`, `_` and `~` mean the same with and without escape.
fn unescaped(path: &str) -> Cow<'_, str> {
    let mut plain = String::new();
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        let character = escape.get(1..3).and_then(|digits| {
            let digits_only = digits.bytes().all(|b| b.is_ascii_hexdigit());
            digits_only.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
        });
        plain.push_str(before);
        match character.filter(|b| b.is_ascii_alphanumeric() || b"-._~".contains(b)) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &escape[3..];
            }
            None => {
                plain.push('%');
                rest = &escape[1..];
            }
        }
    }
    plain.push_str(rest);
    if plain.len() == path.len() { Cow::Borrowed(path) } else { Cow::Owned(plain) }
}

fn without_empty_segments(path: &str) -> String {
    let mut short = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !short.ends_with('/') {
            short.push(character);
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_of_characters() {
        for fine in ["/", "/a%20b", "/%2F%c3%bc", "/a%250d", "/a%01"] {
            assert!(is_readable(fine), "{fine}");
        }
        for bad in ["/%", "/a%2", "/a%zz", "/%+1", "/a%00", "/%%41", "/%\u{fc}"] {
            assert!(!is_readable(bad), "{bad}");
        }
    }

    #[test]
    fn spellings_of_a_path_have_one_key() {
        for (given, key, forwarded) in [
            ("/", "/", "/"),
            ("/a/b", "/a/b", "/a/b"),
            ("/a/./b", "/a/b", "/a/b"),
            ("/a/../b", "/b", "/b"),
            ("/../../b", "/b", "/b"),
            ("/a/b/..", "/a/", "/a/"),
            ("/a/.", "/a/", "/a/"),
            ("/..", "/", "/"),
            ("/%61dmin", "/admin", "/admin"),
            ("/x/%2e%2E/admin", "/admin", "/admin"),
            ("/a%2Fb", "/a%2Fb", "/a%2Fb"),
            ("/a%2fb/%20", "/a%2fb/%20", "/a%2fb/%20"),
            ("/%252e%252e/a", "/%252e%252e/a", "/%252e%252e/a"),
            ("/100%", "/100%", "/100%"),
            ("/%zz%4", "/%zz%4", "/%zz%4"),
            ("/%+1", "/%+1", "/%+1"),
            ("//admin//x", "/admin/x", "//admin//x"),
            ("/.well-known/a", "/.well-known/a", "/.well-known/a"),
        ] {
            let path = normalize_path(given);
            assert_eq!((&*path.key, &*path.forwarded), (key, forwarded), "{given}");
        }
    }

    #[test]
    fn escaped_slashes_may_be_read_as_slashes() {
        for (given, read) in [
            ("/a/b", &[][..]),
            ("/a%20b", &[]),
            ("/admin%2fx", &["/admin/x", "/admin/x"]),
            ("/x/..%2Fadmin", &["/admin", "/admin"]),
            ("/x/%2e%2e%5cadmin", &["/admin", "/admin"]),
            ("/x\\..\\admin", &["/admin", "/admin"]),
            ("/%2f%2Fadmin", &["/admin", "/admin"]),
            ("/a%252fb", &[]),
            // Two kinds: with either alone it leads elsewhere than with both.
            ("/x/..%2fadmin/..%5cx", &["/admin/..%5cx", "/x/x", "/x"]),
        ] {
            let path = normalize_path(given);
            assert_eq!(path.other_readings().collect::<Vec<_>>(), read, "{given}");
        }
    }

    #[test]
    fn a_stripped_path_begins_with_a_slash() {
        for (given, prefix, expected) in [
            ("/api/x", "/api", "/x"),
            ("/api", "/api", "/"),
            ("/api/", "/api", "/"),
            ("//api//x", "/api", "/x"),
            ("/x//y", "", "/x//y"),
        ] {
            assert_eq!(normalize_path(given).after(prefix), expected, "{given}");
        }
    }

    proptest! {
        /// Law: normalizing twice is normalizing once; nothing is left that a server would resolve; the result is a path.
        #[test]
        fn a_normal_path_is_normal(path in "(/|\\.|%2[eE]|%61|%|a|%2F|%25){0,24}") {
            let path = format!("/{path}");
            let once = normalize_path(&path);
            let again = normalize_path(&once.key);
            // `%` and what follows an escape that was undone may form a new escape, which servers undo once more or not:
            // it is never one of a dot or a slash that changes the segments seen here.
            prop_assert!(once.key.starts_with('/') && once.forwarded.starts_with('/'));
            prop_assert!(!once.key.contains("//"));
            prop_assert!(once.key.split('/').all(|segment| segment != "." && segment != ".."));
            prop_assert!(once.forwarded.split('/').all(|segment| segment != "." && segment != ".."));
            if !once.key.contains('%') {
                prop_assert_eq!(&again.key, &once.key);
            }
        }
    }
}
