//! Retries, refusals and lost connections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jaco_client::scripted::{Answer, Feed, Running, Script, Then, listen};
use jaco_client::{Client, ClientError, Target, fresh_request_id};
use jaco_proto::v1;
use jaco_types::code::ExitCode;
use jaco_types::{ErrorCode, Rejection};

/// Refuses the first applies, then accepts; remembers the ids.
struct Election {
    refusals: Mutex<Vec<ErrorCode>>,
    seen: Mutex<Vec<String>>,
}

impl Election {
    fn with(mut refusals: Vec<ErrorCode>) -> Arc<Self> {
        refusals.reverse();
        Arc::new(Self { refusals: Mutex::new(refusals), seen: Mutex::default() })
    }
}

impl Script for Election {
    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        self.seen.lock().unwrap().push(request.request_id);
        match self.refusals.lock().unwrap().pop() {
            Some(code) => Err(Rejection::new(code, "so it is").with("node", "n2")),
            None => Ok(v1::ApplyResponse { revision: 7, ..Default::default() }),
        }
    }
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("jaco.sock")
    }

    fn listen(&self, script: Arc<dyn Script>) -> Running {
        listen(&self.socket(), script)
    }

    fn client(&self) -> Client {
        Client::new(Target::socket(self.socket()))
    }
}

fn request() -> v1::ApplyRequest {
    v1::ApplyRequest { request_id: fresh_request_id(), ..Default::default() }
}

/// R-CLI-9: who waits longer than a second for an answer is told once for what, and nobody else is.
#[tokio::test]
async fn a_long_wait_is_told_once() {
    let told = async |refusals: usize| {
        let place = Place::new();
        let _daemon = place.listen(Election::with(vec![ErrorCode::QuorumLost; refusals]));
        let (client, told) = (place.client(), Arc::new(Mutex::new(Vec::new())));
        let kept = Arc::clone(&told);
        client.on_long_wait(move |why| kept.lock().unwrap().push(why.code()));
        client.apply(request()).await.unwrap();
        // Another call of the same client.
        client.apply(request()).await.unwrap();
        std::mem::take(&mut *told.lock().unwrap())
    };
    // Refused for 50, 100, 200, 400 and 800 ms.
    assert_eq!(told(5).await, [ErrorCode::QuorumLost]);
    assert_eq!(told(2).await, []);
    let place = Place::new();
    let _daemon = place.listen(Election::with(vec![ErrorCode::QuorumLost; 5]));
    let client = place.client();
    client.on_long_wait(|why| panic!("told of {why} beside a progress"));
    client.shows_progress();
    client.apply(request()).await.unwrap();
}

/// R-CLI-9: a change of leader is waited out, under one request id.
#[tokio::test]
async fn a_change_of_leader_is_waited_out() {
    let place = Place::new();
    let script = Election::with(vec![ErrorCode::NoLeader, ErrorCode::Unavailable]);
    let _daemon = place.listen(Arc::clone(&script) as Arc<dyn Script>);
    let request = request();
    let answer = place.client().apply(request.clone()).await.unwrap();
    assert_eq!(answer.revision, 7);
    assert_eq!(*script.seen.lock().unwrap(), vec![request.request_id; 3]);
}

/// A refusal is final and arrives with its facts.
#[tokio::test]
async fn a_refusal_is_final() {
    let place = Place::new();
    let script = Election::with(vec![ErrorCode::UnknownHost]);
    let _daemon = place.listen(Arc::clone(&script) as Arc<dyn Script>);
    let error = place.client().apply(request()).await.unwrap_err();
    let expected = Rejection::new(ErrorCode::UnknownHost, "so it is").with("node", "n2");
    assert_eq!(error.rejection(), Some(&expected));
    assert_eq!(error.exit_code(), ExitCode::Rejected);
    assert_eq!(script.seen.lock().unwrap().len(), 1);
}

/// Nobody is waited for who never was there.
#[tokio::test]
async fn an_absent_daemon_is_known_at_once() {
    let place = Place::new();
    let begun = Instant::now();
    let error = place.client().apply(request()).await.unwrap_err();
    assert!(matches!(error, ClientError::NoConnection { .. }), "{error:?}");
    assert_eq!(error.exit_code(), ExitCode::Unreachable);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// A daemon that restarts between two calls is found again.
#[tokio::test]
async fn a_restarted_daemon_is_found_again() {
    let place = Place::new();
    let client = place.client();
    let daemon = place.listen(Election::with(Vec::new()));
    client.apply(request()).await.unwrap();
    drop(daemon);
    std::fs::remove_file(place.socket()).unwrap();
    let (asked, socket) = (client.clone(), place.socket());
    let call = tokio::spawn(async move { asked.apply(request()).await });
    // It comes back while the call is looking for it.
    tokio::task::yield_now().await;
    let _daemon = listen(&socket, Election::with(Vec::new()));
    assert_eq!(call.await.unwrap().unwrap().revision, 7);
}

struct Leaderless;

impl Script for Leaderless {
    fn apply(&self, _: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        Err(Rejection::new(ErrorCode::NoLeader, "nobody leads"))
    }
}

/// R-CLI-10: the deadline of a client ends its calls and their retries.
#[tokio::test]
async fn calls_end_at_the_deadline_of_the_client() {
    let place = Place::new();
    let _daemon = place.listen(Arc::new(Leaderless));
    let begun = std::time::Instant::now();
    let limit = std::time::Duration::from_secs(1);
    let client = place.client().until(Some(tokio::time::Instant::now() + limit));
    for _ in 0..3 {
        let refused = client.apply(request()).await.unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Unreachable, "{refused}");
    }
    // Without a deadline each of them tries for ten seconds.
    assert!(begun.elapsed() < 3 * limit, "{:?}", begun.elapsed());
}

struct Feeds(Then);

impl Script for Feeds {
    fn watch(
        &self,
        request: v1::StatusRequest,
        _: Option<&str>,
    ) -> Answer<Feed<v1::StatusResponse>> {
        let status = |raft_index| v1::StatusResponse {
            raft_index,
            leader: request.deployment.clone(),
            ..Default::default()
        };
        Ok(Feed { items: vec![status(1), status(2)], then: self.0.clone() })
    }
}

async fn read_all(then: Then) -> (Vec<u64>, Result<Option<v1::StatusResponse>, ClientError>) {
    let place = Place::new();
    let _daemon = place.listen(Arc::new(Feeds(then)));
    let mut answers = place.client().watch(v1::StatusRequest::default()).await.unwrap();
    let mut indices = Vec::new();
    loop {
        match answers.next().await {
            Ok(Some(status)) => indices.push(status.raft_index),
            end => return (indices, end),
        }
    }
}

#[tokio::test]
async fn a_stream_ends_as_the_daemon_ends_it() {
    let (indices, end) = read_all(Then::End).await;
    assert_eq!(indices, [1, 2]);
    assert!(matches!(end, Ok(None)));
    let refusal = Rejection::new(ErrorCode::QuorumLost, "too few");
    let (indices, end) = read_all(Then::Refuse(refusal)).await;
    assert_eq!(indices, [1, 2]);
    assert_eq!(end.unwrap_err().code(), ErrorCode::QuorumLost);
}

/// A daemon with a status of three parts.
struct InParts(Then);

impl InParts {
    fn parts() -> Vec<v1::StatusResponse> {
        let part = |number: usize, more| v1::StatusResponse {
            replicas: vec![v1::ReplicaInfo { id: number.to_string(), ..Default::default() }],
            more,
            ..Default::default()
        };
        let first = v1::StatusResponse { raft_index: 7, ..part(1, true) };
        let deployment = v1::DeploymentInfo { name: "shop".to_owned(), ..Default::default() };
        let second = v1::StatusResponse { deployments: vec![deployment], ..part(2, true) };
        vec![first, second, part(3, false)]
    }
}

impl Script for InParts {
    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let end = match &self.0 {
            Then::Refuse(_) => 1,
            Then::End | Then::Open => 3,
        };
        Ok(Feed { items: Self::parts()[..end].to_vec(), then: self.0.clone() })
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let again = v1::StatusResponse { raft_index: 8, ..Default::default() };
        let items = [Self::parts(), vec![again], Self::parts()[..2].to_vec()].concat();
        Ok(Feed { items, then: self.0.clone() })
    }
}

fn shown(status: &v1::StatusResponse) -> (u64, Vec<&str>, usize, bool) {
    let replicas = status.replicas.iter().map(|replica| replica.id.as_str()).collect();
    (status.raft_index, replicas, status.deployments.len(), status.more)
}

/// R-CLI-10: a status that comes in parts is shown as a whole, and never without some of them.
#[tokio::test]
async fn parts_of_a_status_are_joined() {
    let place = Place::new();
    let _daemon = place.listen(Arc::new(InParts(Then::End)));
    let client = place.client();
    let status = client.read_status(v1::StatusRequest::default()).await.unwrap();
    assert_eq!(shown(&status), (7, vec!["1", "2", "3"], 1, false));

    let mut statuses = client.watch_status(v1::StatusRequest::default()).await.unwrap();
    let first = statuses.next().await.unwrap().unwrap();
    assert_eq!(shown(&first), (7, vec!["1", "2", "3"], 1, false));
    let second = statuses.next().await.unwrap().unwrap();
    assert_eq!(shown(&second), (8, Vec::new(), 0, false));
    let cut = statuses.next().await.unwrap_err();
    assert_eq!(cut.code(), ErrorCode::Unavailable, "{cut}");
}

/// R-CLI-10: a refusal in the middle of a status is one, not the half of it.
#[tokio::test]
async fn half_a_status_is_none() {
    let place = Place::new();
    let refusal = Rejection::new(ErrorCode::CertificateInvalid, "why");
    let _daemon = place.listen(Arc::new(InParts(Then::Refuse(refusal))));
    let refused = place.client().read_status(v1::StatusRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CertificateInvalid);
}

/// Has a deployment for the first question after its logs, and no longer.
struct Deleted(Mutex<u32>);

impl Script for Deleted {
    fn logs(&self, _: v1::LogsRequest, _: Option<&str>) -> Answer<Feed<v1::LogLine>> {
        let mut asked = self.0.lock().unwrap();
        *asked += 1;
        match *asked {
            1 => Ok(Feed::of(Vec::new())),
            _ => Err(Rejection::new(ErrorCode::DeploymentNotFound, "there is no deployment shop")),
        }
    }
}

/// R-CLI-6: what was followed and is deleted ends the lines, also if there was none; what was never there is an error.
#[tokio::test]
async fn followed_lines_end_with_what_they_are_of() {
    let place = Place::new();
    let _daemon = place.listen(Arc::new(Deleted(Mutex::new(0))));
    let request = v1::LogsRequest { follow: true, ..Default::default() };
    let client = place.client();
    assert!(client.log_lines(request.clone()).next().await.unwrap().is_none());
    let refused = client.log_lines(request).next().await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::DeploymentNotFound);
}
