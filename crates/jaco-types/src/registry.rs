//! Image registries, by the one name that each has here.

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use crate::id::{InvalidName, is_hostname};

/// The registry of images that name none.
const DEFAULT: &str = "docker.io";

/// Other names of [`DEFAULT`]: the one of Docker's own files, and the host that answers.
const DEFAULT_ALIASES: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];

/// The longest host name with the longest port.
const BYTES_MAX: usize = 259;

const RULE: &str =
    "use the host as images name it, with its port if they do: ghcr.io, localhost:5000";
const PATH_RULE: &str =
    "leave out what follows the host: credentials are for all of a registry's images";
const SHORT_RULE: &str =
    "no image can name it: images take a host without '.' and port for a folder of docker.io";

/// A registry, in the one spelling of its name: lower case, without scheme, with its port where images
/// name one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryName(Arc<str>);

impl RegistryName {
    /// Takes a name in its one spelling, as [`RegistryName::as_str`] gives it.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let name = Self::parse(text)?;
        if name.as_str() == text { Ok(name) } else { Err(invalid(text, RULE)) }
    }

    /// Reads a name as users write it: in capitals, with `https://` before it and `/` behind it, or by
    /// another name of `docker.io`.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let schemes = ["https://", "http://"];
        let host = schemes.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
        let host = host.strip_suffix('/').unwrap_or(host);
        if host.contains(['/', '?', '#']) {
            return Err(invalid(text, PATH_RULE));
        }
        let host = host.to_ascii_lowercase();
        let (name, port) = split(&host).ok_or_else(|| invalid(text, RULE))?;
        if !is_valid(name, port) || host.len() > BYTES_MAX {
            return Err(invalid(text, RULE));
        }
        if port.is_none() && !is_told_from_folders(name) {
            return Err(invalid(text, SHORT_RULE));
        }
        let host = if DEFAULT_ALIASES.contains(&&*host) { DEFAULT } else { &host };
        Ok(Self(host.into()))
    }

    /// The registry that an image comes from, as engines read its name; none where no registry can be
    /// called what it says.
    #[must_use]
    pub fn of_image(image: &str) -> Option<Self> {
        let own = image.split_once('/').map(|(first, _)| first).filter(|first| names_a_host(first));
        Self::parse(own.unwrap_or(DEFAULT)).ok()
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the first part of an image's name is a registry and no folder of the default one. Folders
/// have no capitals, so what has them is a host for engines.
fn names_a_host(first: &str) -> bool {
    first.contains(':')
        || is_told_from_folders(first)
        || first.bytes().any(|b| b.is_ascii_uppercase())
}

fn is_told_from_folders(host: &str) -> bool {
    host == "localhost" || host.contains('.') || host.starts_with('[')
}

/// The host, and the port where there is one; `None` where the brackets of an address are wrong.
fn split(host: &str) -> Option<(&str, Option<&str>)> {
    if host.starts_with('[') {
        let (address, rest) = host.split_at(host.find(']')? + 1);
        return match rest {
            "" => Some((address, None)),
            port => Some((address, Some(port.strip_prefix(':')?))),
        };
    }
    Some(host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))))
}

fn is_valid(name: &str, port: Option<&str>) -> bool {
    let is_port = |port: &str| {
        let number = port.parse::<u16>().ok().filter(|number| *number > 0);
        // A zero or a sign before it would be a second spelling.
        number.is_some_and(|number| number.to_string() == port)
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_host = match address {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => is_hostname(name),
    };
    is_host && port.is_none_or(is_port)
}

fn invalid(text: &str, rule: &'static str) -> InvalidName {
    InvalidName { kind: "registry", text: text.chars().take(80).collect(), rule }
}

impl fmt::Display for RegistryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RegistryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, &'static str> {
        let parsed = RegistryName::parse(text);
        parsed.map(|name| name.to_string()).map_err(|invalid| invalid.rule)
    }

    /// R-CLI-6: however users write a registry, it has one name.
    #[test]
    fn a_registry_has_one_name() {
        for (text, name) in [
            ("ghcr.io", "ghcr.io"),
            ("https://GHCR.io/", "ghcr.io"),
            ("http://registry.example.com:5000", "registry.example.com:5000"),
            ("localhost", "localhost"),
            ("registry:5000", "registry:5000"),
            ("127.0.0.1:5000", "127.0.0.1:5000"),
            ("[::1]:5000", "[::1]:5000"),
            ("docker.io", "docker.io"),
            ("index.docker.io", "docker.io"),
            ("registry-1.docker.io", "docker.io"),
            ("hub.docker.com", "hub.docker.com"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(name), "{text}");
            assert_eq!(RegistryName::new(name).unwrap().as_str(), name);
        }
        assert!(RegistryName::new("GHCR.io").is_err(), "what is stored has one spelling");
        assert!(RegistryName::new("index.docker.io").is_err(), "and so has docker.io");
    }

    /// R-CLI-6: what no image can name is refused, with a rule that says what to write.
    #[test]
    fn what_is_no_registry_is_refused() {
        for path in ["ghcr.io/team", "https://index.docker.io/v1/", "ghcr.io?a=b", "ghcr.io//"] {
            assert_eq!(parsed(path), Err(PATH_RULE), "{path}");
        }
        for short in ["ghcr", "team"] {
            assert_eq!(parsed(short), Err(SHORT_RULE), "{short}");
        }
        for wrong in [
            "",
            "me@ghcr.io",
            "ghcr.io:",
            "ghcr.io:0",
            "ghcr.io:05000",
            "ghcr.io:+5000",
            "ghcr.io:65536",
            "-a.io",
            "a..io",
            "a b.io",
            "[::1",
            "[::1]5000",
            "[ghcr.io]",
            "ghcr.io\n",
        ] {
            assert_eq!(parsed(wrong), Err(RULE), "{wrong}");
        }
        assert_eq!(parsed(&format!("{}.io", "a.".repeat(200))), Err(RULE));
    }

    /// R-CLI-6: a password goes to no registry but the one that the engine will ask.
    #[test]
    fn an_image_has_the_registry_that_engines_ask() {
        let of = |image: &str| RegistryName::of_image(image).map(|name| name.to_string());
        let hex = "0a".repeat(32);
        for (image, registry) in [
            ("nginx", "docker.io"),
            ("nginx:1.27", "docker.io"),
            (&format!("nginx@sha256:{hex}"), "docker.io"),
            ("team/web:1", "docker.io"),
            ("index.docker.io/team/web", "docker.io"),
            ("docker.io/library/nginx", "docker.io"),
            ("ghcr.io/team/web:1", "ghcr.io"),
            ("GHCR.io/team/web:1", "ghcr.io"),
            ("localhost/web", "localhost"),
            ("localhost:5000/web", "localhost:5000"),
            ("registry:5000/team/web", "registry:5000"),
            (&format!("127.0.0.1:5000/web@sha256:{hex}"), "127.0.0.1:5000"),
            ("[::1]:5000/web", "[::1]:5000"),
        ] {
            assert_eq!(of(image).as_deref(), Some(registry), "{image}");
        }
        // An engine takes both for hosts, so they are nothing of docker.io's.
        for nobody in ["Team/web", "ghcr.io:http/web"] {
            assert_eq!(of(nobody), None, "{nobody}");
        }
    }
}
