//! When a certificate that the cluster ordered is renewed: it follows from domain and certificate alone, so that every
//! leader finds the same, and every node can say it.

use jaco_types::route::RouteDomain;
use jaco_types::{Millis, RenewalWindow, Timestamp};
use sha2::{Digest, Sha256};

use crate::acme::IssuedCertificate;

/// How long a certificate is kept at least.
const KEPT_AT_LEAST: Millis = Millis::from_secs(24 * 60 * 60);

/// When the certificate of a domain is renewed: at a point of the window in which its authority wants that, else
/// after two thirds of its life.
///
/// The point follows from the domain, so that the certificates of a cluster are spread over the window. A window
/// puts it off beyond nine tenths of the life in no case: an authority's mistake is not to take services down. Nor is
/// a certificate renewed within a day of its issue (a third of its life, if that is less), whatever the clock or the
/// authority says: a mistake of either is not to use up what the authority allows.
#[must_use]
pub fn renew_at(domain: &RouteDomain, issued: &IssuedCertificate) -> Timestamp {
    let life = issued.not_after.since(issued.not_before);
    let wanted = match issued.window {
        None => issued.not_before.after(part(life, 2, 3)),
        Some(window) => point(domain, window).min(issued.not_before.after(part(life, 9, 10))),
    };
    wanted.max(issued.issued_at.after(part(life, 1, 3).min(KEPT_AT_LEAST)))
}

fn part(life: Millis, numerator: u64, denominator: u64) -> Millis {
    Millis(life.0 / denominator * numerator)
}

fn point(domain: &RouteDomain, window: RenewalWindow) -> Timestamp {
    let hash = Sha256::digest(domain.as_str().as_bytes());
    let share = hash.iter().take(4).fold(0, |share, byte| share << 8 | u64::from(*byte));
    // Seconds, so that no product overflows: a window has less than 2^32 of them.
    let secs = window.end().since(window.start()).0.min(u64::from(u32::MAX) * 1000) / 1000;
    window.start().after(Millis::from_secs((secs * share) >> 32))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::edge::SealedKey;

    fn issued(window: Option<RenewalWindow>) -> IssuedCertificate {
        IssuedCertificate {
            directory: "".into(),
            chain: "".into(),
            key: SealedKey([1].into()),
            fingerprint: [1; 32],
            not_before: Timestamp(1_000_000),
            not_after: Timestamp(1_000_000 + 90_000),
            issued_at: Timestamp(0),
            window,
        }
    }

    fn domain(text: &str) -> RouteDomain {
        RouteDomain::new(text).unwrap()
    }

    #[test]
    fn two_thirds_of_the_life_are_used_without_a_window() {
        assert_eq!(renew_at(&domain("a.example"), &issued(None)), Timestamp(1_060_000));
    }

    #[test]
    fn a_window_in_the_past_is_due_at_once() {
        let window = RenewalWindow::new(Timestamp(40_000), Timestamp(50_000)).unwrap();
        let at = renew_at(&domain("a.example"), &issued(Some(window)));
        assert!((40_000..50_000).contains(&at.0), "{at:?}");
    }

    /// By a clock that is months ahead every certificate is due when it comes.
    #[test]
    fn no_certificate_is_renewed_right_after_its_issue() {
        let late = IssuedCertificate { issued_at: Timestamp(5_000_000), ..issued(None) };
        assert_eq!(renew_at(&domain("a.example"), &late), Timestamp(5_030_000));
    }

    #[test]
    fn a_window_after_the_end_does_not_let_a_certificate_expire() {
        let window = RenewalWindow::new(Timestamp(9_000_000), Timestamp(9_100_000)).unwrap();
        assert_eq!(renew_at(&domain("a.example"), &issued(Some(window))), Timestamp(1_081_000));
    }

    #[test]
    fn domains_are_spread_over_the_window() {
        let window = RenewalWindow::new(Timestamp(0), Timestamp(1_000_000)).unwrap();
        let point = |number: u32| super::point(&domain(&format!("d{number}.example")), window).0;
        let tenths: std::collections::BTreeSet<u64> =
            (0..200).map(|number| point(number) / 100_000).collect();
        assert_eq!(tenths.len(), 10, "each tenth of the window has some of 200 domains");
    }

    proptest! {
        /// Law: the point is in the window, whatever its length.
        #[test]
        fn the_point_is_in_the_window(name in "[a-z]{1,20}", start: u32, length in 1_u64..) {
            let start = Timestamp(start.into());
            let window = RenewalWindow::new(start, start.after(Millis(length))).unwrap();
            let at = point(&domain(&format!("{name}.example")), window);
            prop_assert!(window.start() <= at && at < window.end());
        }
    }
}
