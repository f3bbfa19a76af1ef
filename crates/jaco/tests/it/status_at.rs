//! `jaco status --at`

use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;

use crate::fixture::{Session, shop};

/// A node that knows what an index is, or an older one.
enum Shown {
    Then,
    NowOnly,
}

impl Script for Shown {
    fn overview(
        &self,
        request: v1::StatusRequest,
        _: Option<&str>,
    ) -> Answer<Feed<v1::StatusResponse>> {
        let mut status = shop("active", ["running", "running"]);
        match self {
            Self::Then => {
                assert_eq!(request.at_index, 12);
                status.raft_index = 12;
                let at_ms = 1_767_225_600_000;
                status.past = Some(v1::PastInfo { at_ms, kept_from: 3, kept_to: 40 });
            }
            Self::NowOnly => {}
        }
        Ok(Feed::of(vec![status]))
    }
}

/// R-CLI-4, R-OPS-1: the state as it was says of when it is, and in JSON which ones there are.
#[test]
fn status_shows_an_earlier_moment() {
    let session = Session::with(Shown::Then);
    let run = session.run("status --at 12");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let first = "as it was at index 12, 2026-01-01T00:00:00Z; n2 can show 3 to 40\n";
    assert!(run.out.starts_with(first), "{}", run.out);
    assert!(run.out.contains("shop-web-0"), "{}", run.out);
    let run = session.run("status --at 12 -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["raft_index"], 12);
    let past = serde_json::json!({ "at": "2026-01-01T00:00:00Z", "kept_from": 3, "kept_to": 40 });
    assert_eq!(json["past"], past);
}

/// R-CLI-8: a node that shows the present only is not taken for one that shows the past; and an index is a number from 1 on,
/// without a watch.
#[test]
fn the_present_is_not_taken_for_the_past() {
    let session = Session::with(Shown::NowOnly);
    let run = session.run("status --at 12");
    assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{}", run.err);
    assert!(run.err.contains("n2 runs a version that shows the state of now only"), "{}", run.err);
    for wrong in ["status --at 0", "status --at x", "status --at 12 -w"] {
        assert_eq!(session.run(wrong).code, Some(2), "{wrong}");
    }
}
