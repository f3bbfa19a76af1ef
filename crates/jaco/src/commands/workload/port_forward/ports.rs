//! A pair of ports as it is written. Pure.

use std::str::FromStr;

/// A port of this machine, and one of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    /// 0 for a free one.
    pub(super) local: u16,
    pub(super) container: u16,
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is not [LOCAL:]PORT with ports from 1 to 65535");
        let port = |text: &str| text.parse().ok().filter(|port| *port > 0).ok_or_else(expected);
        match text.split_once(':') {
            None => Ok(Self { local: port(text)?, container: port(text)? }),
            Some(("", container)) => Ok(Self { local: 0, container: port(container)? }),
            Some((local, container)) => {
                Ok(Self { local: port(local)?, container: port(container)? })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let read = |text: &str| text.parse::<Ports>().map(|it| (it.local, it.container));
        assert_eq!(read("80"), Ok((80, 80)));
        assert_eq!(read("8080:80"), Ok((8080, 80)));
        assert_eq!(read(":80"), Ok((0, 80)));
        for wrong in ["", "0", "0:80", "80:", "a", "70000", "1:2:3", "-1", "80/udp"] {
            assert!(read(wrong).unwrap_err().contains("LOCAL"), "{wrong}");
        }
    }
}
