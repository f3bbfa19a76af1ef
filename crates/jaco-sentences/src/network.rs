//! What is wrong with the way of packets from one router to another.

use jaco_proto::v1::ExaminedWay;

use crate::attention::Severity;

/// What the tunnel adds to a packet over IPv4, in bytes.
const OVERHEAD: u32 = 60;

/// What it adds at most.
const OVERHEAD_MAX: u32 = 80;

/// What is wrong with a way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// How bad it is.
    pub severity: Severity,
    /// The name of the check that found it.
    pub check: &'static str,
    /// The problem.
    pub message: String,
    /// The advice.
    pub help: String,
}

/// What is wrong with a way on which packets have this MTU, in bytes; none if all of them arrive whole.
#[must_use]
pub fn trouble(way: &ExaminedWay, mtu: u32) -> Option<Trouble> {
    let ExaminedWay { from, to, port, .. } = way;
    let failing =
        |check, message, help| Some(Trouble { severity: Severity::Failing, check, message, help });
    if !way.arrives {
        let (message, directions) = match way.one_direction {
            true => (format!("{to} hears nothing of the router of {from}"), ""),
            false => (format!("{to} does not answer the router of {from}"), ", and back"),
        };
        let help = format!("let UDP port {port} pass from {from} to {to}{directions}");
        failing("tunnel", message, help)
    } else if !way.arrives_full {
        let message =
            format!("small packets arrive, those of {mtu} bytes do not: connections hang");
        let help = format!(
            "let the links from {from} to {to} take packets of {} bytes, or let what is between them report what it takes",
            mtu + OVERHEAD_MAX
        );
        failing("mtu", message, help)
    } else if way.path_mtu > 0 && way.path_mtu < mtu + OVERHEAD {
        let message = format!(
            "the link takes {} bytes, so each packet of {mtu} bytes is sent in two: slower, and lost where fragments are \
             dropped",
            way.path_mtu
        );
        let help =
            format!("let the links between the two take packets of {} bytes", mtu + OVERHEAD_MAX);
        Some(Trouble { severity: Severity::Warning, check: "mtu", message, help })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: a way on which something is lost is told by what is lost, and one that takes all packets is not.
    #[test]
    fn ways_are_told_by_what_is_lost() {
        let sound = ExaminedWay {
            from: "n1".to_owned(),
            to: "n2".to_owned(),
            arrives: true,
            arrives_full: true,
            path_mtu: 1500,
            ..ExaminedWay::default()
        };
        assert_eq!(trouble(&sound, 1400), None);
        let of = |way: ExaminedWay| trouble(&way, 1400).map(|it| (it.severity, it.check));
        let silent = ExaminedWay { arrives: false, arrives_full: false, ..sound.clone() };
        assert_eq!(of(silent), Some((Severity::Failing, "tunnel")));
        let short = ExaminedWay { arrives_full: false, ..sound.clone() };
        assert_eq!(of(short), Some((Severity::Failing, "mtu")));
        let split = ExaminedWay { path_mtu: 1450, ..sound };
        assert_eq!(of(split), Some((Severity::Warning, "mtu")));
    }
}
