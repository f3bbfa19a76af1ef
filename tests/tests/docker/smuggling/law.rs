//! What must be true of each sequence, and of the log of nginx as a whole.

use std::collections::BTreeSet;

use super::Said;
use super::client::{Fence, Heard};
use super::corpus::{Becomes, SMUGGLED};
use super::nginx::{Log, Seen};
use crate::edged::CLIENT;

/// What is wrong with a sequence.
pub(super) fn faults(said: &Said, log: &Log) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |is_so: bool, what: String| {
        if !is_so {
            faults.push(format!("{} ({}): {what}", said.name, said.word));
        }
    };
    let heard = &said.heard;
    expect(is_as_allowed(said.becomes, heard), format!("{heard:?} instead of {:?}", said.becomes));

    let innocent = [format!("<GET /innocent HTTP/1.1> <{}>", said.word)];
    let own = &said.innocent;
    expect(
        own.answers == innocent && own.refusals.is_empty(),
        format!("then another client: {own:?}"),
    );

    // The fence of HTTP/2 is on a stream of its own, which may end before or after that of the case.
    let is_case = |seen: &&Seen| seen.request.contains(&said.word);
    let is_fence = |seen: &&Seen| seen.request.contains("/fence ");
    let of_case = log.seen.iter().filter(is_case).filter(|seen| !is_fence(seen));
    let (whole, partial): (Vec<&Seen>, Vec<&Seen>) = of_case.partition(|seen| seen.status == 200);
    let answered: Vec<String> = whole.iter().map(|seen| format!("<{}> <>", seen.request)).collect();
    expect(
        answered == heard.answers,
        format!("nginx has answered {answered:?}, heard is {heard:?}"),
    );
    let partial_max = match said.becomes {
        Becomes::Broken | Becomes::Unfinished => 1,
        Becomes::Forwarded(_)
        | Becomes::ThenRefused(_)
        | Becomes::ThenClosed(_)
        | Becomes::Refused
        | Becomes::Declined => 0,
    };
    expect(partial.len() <= partial_max, format!("nginx has begun {partial:?}"));
    let fences = log.seen.iter().filter(is_case).filter(is_fence).count();
    let fences_max = if heard.fence == Fence::Unanswered { 0 } else { 1 };
    expect(fences <= fences_max, format!("nginx has seen {fences} fences"));
    faults
}

fn is_as_allowed(becomes: Becomes, heard: &Heard) -> bool {
    let fence = |wanted| heard.fence == wanted || heard.fence == Fence::Apart;
    let (answers, refusals) = (heard.answers.len(), heard.refusals.len());
    let is_so = match becomes {
        Becomes::Forwarded(count) => answers == count && refusals == 0 && fence(Fence::Answered),
        Becomes::ThenRefused(count) => {
            answers == count && refusals == 1 && fence(Fence::Unanswered)
        }
        Becomes::ThenClosed(count) => answers == count && refusals == 0 && fence(Fence::Unanswered),
        Becomes::Refused | Becomes::Broken => {
            answers == 0 && refusals > 0 && fence(Fence::Unanswered)
        }
        Becomes::Declined => answers == 0 && refusals == 1 && fence(Fence::Answered),
        Becomes::Unfinished => answers == 0 && fence(Fence::Unanswered),
    };
    is_so && !heard.is_late
}

/// nginx has seen nothing that nobody said, and the log can prove it: requests of different clients came over the same
/// connections. Says how much there was.
pub(super) fn is_whole(said: &[Said], log: &Log) -> String {
    let words: BTreeSet<&str> = said.iter().map(|said| &*said.word).collect();
    for seen in &log.seen {
        let is_known =
            words.contains(&*seen.id) || words.iter().any(|word| seen.request.contains(word));
        assert!(is_known, "nobody has said {seen:?}");
        assert!(!seen.request.contains("smuggled"), "{seen:?}");
        assert_eq!(seen.forwarded_for, CLIENT, "{seen:?}");
        let host = seen.host.to_ascii_lowercase();
        let host = host.strip_suffix(":80").unwrap_or(&host);
        assert_eq!(host.strip_suffix('.').unwrap_or(host), "shop.example.com", "{seen:?}");
        let is_body = seen.body.strip_prefix("hello").unwrap_or(&seen.body) == SMUGGLED;
        assert!(is_body || !seen.body.contains("smuggled"), "{seen:?}");
    }
    let connection_of = |is_it: &dyn Fn(&Seen) -> bool| {
        log.seen.iter().find(|seen| is_it(seen)).map(|seen| seen.connection)
    };
    let forwarded = said.iter().filter(|said| !said.heard.answers.is_empty());
    let (mut shared, mut apart) = (0, 0);
    for said in forwarded {
        let own = connection_of(&|seen| seen.request.contains(&said.word));
        let other = connection_of(&|seen| seen.id == said.word);
        *(if own == other { &mut shared } else { &mut apart }) += 1;
    }
    let connections = log.seen.iter().map(|seen| seen.connection).collect::<BTreeSet<_>>().len();
    assert!(shared > apart, "connections to nginx are shared, or this proves nothing");
    format!(
        "{} sequences; {} requests over {connections} connections to nginx; {shared} clients came after a sequence on its \
         connection, {apart} on another one",
        said.len(),
        log.seen.len()
    )
}
