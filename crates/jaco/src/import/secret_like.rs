//! Which values look like secrets, by their names and their form. A guess: it may err in both directions, so that whoever imports
//! is asked to look through the file as well.

/// Words of names whose values are secrets.
const WORDS: [&str; 16] = [
    "ACCESSKEY",
    "APIKEY",
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
    "DSN",
    "KEY",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE",
    "PWD",
    "SALT",
    "SECRET",
    "TOKEN",
];

/// Endings of names of variables that hold a path or a name instead.
const POINTERS: [&str; 4] = ["FILE", "PATH", "DIR", "NAME"];

/// Whether the value of this variable looks like a secret.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    has_secret_form(value) || (!value.is_empty() && is_secret_name(name) && !is_switch(value))
}

/// Whether a text looks like a secret wherever it is: a URL with a password, or a private key.
pub(super) fn has_secret_form(text: &str) -> bool {
    if text.contains("PRIVATE KEY-----") {
        return true;
    }
    let authority = |(_, rest): (&str, &str)| {
        let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
    };
    text.split_once("://").is_some_and(authority)
}

/// Whether an argument of a command, such as `--requirepass=…` or `--password …`, names a secret.
pub(super) fn is_secret_argument(argument: &str, next: Option<&str>) -> bool {
    if has_secret_form(argument) {
        return true;
    }
    match argument.split_once('=') {
        Some((name, value)) => is_secret(name.trim_start_matches('-'), value),
        None if argument.starts_with('-') => next.is_some_and(|next| {
            !next.starts_with('-') && is_secret(argument.trim_start_matches('-'), next)
        }),
        None => false,
    }
}

fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let words: Vec<&str> = upper.split(['_', '-', '.', ' ']).collect();
    if words.last().is_some_and(|last| POINTERS.contains(last)) || upper == "PWD" {
        return false;
    }
    let runs_together = ["PASSWORD", "PASSWD", "SECRET", "APIKEY", "PASSPHRASE", "REQUIREPASS"];
    words.iter().any(|word| WORDS.contains(word))
        || runs_together.iter().any(|word| upper.contains(word))
}

/// Whether a value only switches something: nobody's secret.
fn is_switch(value: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "0", "1", "none"];
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-5: names and forms of secrets are found; paths of secrets, switches and plain settings are none.
    #[test]
    fn secrets_are_found_by_name_and_form() {
        for (name, value) in [
            ("POSTGRES_PASSWORD", "x"),
            ("MYSQL_ROOT_PASSWORD", "x"),
            ("API_KEY", "x"),
            ("db-pass", "x"),
            ("REDISPASSWORD", "x"),
            ("DATABASE_URL", "postgres://shop:x@db/shop"),
            ("CERT", "-----BEGIN EC PRIVATE KEY-----"),
            ("SENTRY_DSN", "https://x@sentry/1"),
        ] {
            assert!(is_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("POSTGRES_PASSWORD_FILE", "/run/secrets/db"),
            ("POSTGRES_PASSWORD", ""),
            ("ALLOW_EMPTY_PASSWORD", "yes"),
            ("PATH", "/usr/bin"),
            ("PWD", "/srv"),
            ("MONKEY", "a"),
            ("URL", "https://shop.example/a:b@c"),
            ("SECRET_NAME", "db"),
        ] {
            assert!(!is_secret(name, value), "{name}");
        }
        assert!(is_secret_argument("--requirepass", Some("x")));
        assert!(is_secret_argument("--password=x", None));
        assert!(is_secret_argument("redis://:x@mq/0", None));
        assert!(!is_secret_argument("--password-file", Some("/run/secrets/db")));
        assert!(!is_secret_argument("--requirepass", Some("--appendonly")));
        assert!(!is_secret_argument("serve", Some("x")));
    }
}
