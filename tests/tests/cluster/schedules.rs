//! Scheduled jobs on real daemons (R-JOB-2). Daemons start with clocks that are ahead, so that a due time is seconds away.

use std::process::{Command, Output};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jaco_testkit::clock::faketime_library;
use jaco_testkit::{Cluster, Engine, Node, binary, eventually, eventually_within, stays, v1};

use crate::scenario::apply_request;

/// Applies jobs that end with this code after a moment, each with its schedule.
pub(crate) async fn apply(cluster: &Cluster, exit_code: u8, jobs: &[(&str, &str)]) {
    let labels = format!(
        r#""labels":{{"jaco.fake.exit_after_ms":"1000","jaco.fake.exit_code":"{exit_code}"}}"#
    );
    let service = |(name, _): &(&str, &str)| {
        let mode = r#""restart":"no","deploy":{"mode":"replicated-job"}"#;
        format!(r#""{name}":{{"image":"job:1",{mode},{labels}}}"#)
    };
    let services: Vec<String> = jobs.iter().map(service).collect();
    let entries = jobs.iter().filter(|(_, schedule)| !schedule.is_empty());
    let entries =
        entries.map(|(name, schedule)| format!("  - {{name: {name}, schedule: {schedule}}}\n"));
    let request = v1::ApplyRequest {
        compose_json: format!(r#"{{"name":"shop","services":{{{}}}}}"#, services.join(",")),
        overlay_yaml: format!("deployment: shop\nservices:\n{}", entries.collect::<String>()),
        ..apply_request("shop", "job:1", 1)
    };
    let request = match jobs.iter().all(|(_, schedule)| schedule.is_empty()) {
        true => v1::ApplyRequest { overlay_yaml: String::new(), ..request },
        false => request,
    };
    cluster.client().apply(request).await.expect("it is admitted");
}

async fn job(node: &Node, service: &str) -> Result<v1::JobInfo, String> {
    let asked = v1::JobsRequest { deployment: "shop".to_owned(), service: service.to_owned() };
    let answer = node.client().jobs(asked).await.map_err(|error| error.to_string())?;
    answer.jobs.into_iter().next().ok_or_else(|| "there is no such job".to_owned())
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    u64::try_from(now.as_millis()).expect("and not that late")
}

/// The next full minute of daemons whose clocks are ahead of ours.
#[derive(Clone, Copy)]
struct Minute {
    ahead_secs: u64,
    /// By the daemons' clocks.
    due_ms: u64,
}

impl Minute {
    /// One that is so far away by now, for clocks that are further ahead than before.
    fn in_secs(secs: u64, ahead_before: u64) -> Self {
        let there = now_ms() / 1000 + secs + ahead_before;
        let ahead_secs = ahead_before + 60 - there % 60;
        Self { ahead_secs, due_ms: (there + 60 - there % 60) * 1000 }
    }

    fn left(self) -> Duration {
        Duration::from_millis((self.due_ms - self.ahead_secs * 1000).saturating_sub(now_ms()))
    }
}

/// Starts a daemon whose clock is ahead by so many seconds.
fn start_ahead(node: &mut Node, secs: u64) {
    let mut command = Command::new(binary("jacod"));
    command.env("LD_PRELOAD", faketime_library()).env("FAKETIME", format!("+{secs}s"));
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    node.start_under(&mut command);
}

fn says(out: &Output) -> String {
    let (stdout, stderr) = (&out.stdout, &out.stderr);
    format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
}

/// When the leader dies, relative to a due time.
#[derive(Debug, Clone, Copy)]
enum Death {
    Before,
    /// The command is on its way, or just agreed on.
    At,
    After,
}

/// R-JOB-2: the leader dies before, at or after a due time: the run begins exactly once, under whichever leader, and all
/// nodes tell the same of it.
#[tokio::test(flavor = "multi_thread")]
async fn due_run_begins_once_whenever_the_leader_dies() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    apply(&cluster, 0, &[("report", r#"{cron: "* * * * *"}"#)]).await;
    let (mut ran, mut ahead) = (0, 0);
    for death in [Death::Before, Death::At, Death::After] {
        for node in &mut cluster.nodes {
            node.stop();
        }
        let minute = Minute::in_secs(20, ahead);
        ahead = minute.ahead_secs;
        for node in &mut cluster.nodes {
            start_ahead(node, minute.ahead_secs);
        }
        cluster.settled().await;
        let leader = cluster.leader().await;
        let follower = (leader + 1) % 3;
        // Minutes that went by with the clocks may have led to a run of their own.
        let before = job(&cluster.nodes[follower], "report").await.expect("it answers");
        let is_of_it = |run: &&v1::RunInfo| run.due_ms as u64 == minute.due_ms;
        assert_eq!(before.runs.iter().filter(is_of_it).count(), 0, "{death:?}: it came too early");
        let (early, late) = (Duration::from_millis(300), Duration::from_millis(400));
        tokio::time::sleep(match death {
            Death::Before => minute.left().saturating_sub(early),
            Death::At => minute.left() + Duration::from_millis(5),
            Death::After => minute.left() + late,
        })
        .await;
        cluster.nodes[leader].kill();
        let ended = eventually(&format!("{death:?}: the run ends"), || async {
            let known = job(&cluster.nodes[follower], "report").await?;
            let found = known.runs.iter().find(is_of_it).cloned();
            found.filter(|run| run.ended_at_ms > 0).ok_or(format!("{known:?}"))
        })
        .await;
        assert_eq!((ended.result.as_str(), ended.exit_code), ("succeeded", Some(0)), "{death:?}");
        start_ahead(&mut cluster.nodes[leader], minute.ahead_secs);
        cluster.settled().await;
        let known = job(&cluster.nodes[follower], "report").await.expect("it answers");
        assert_eq!(known.runs.iter().filter(is_of_it).count(), 1, "{death:?}: {known:?}");
        let numbers: Vec<u64> = known.runs.iter().map(|run| run.number).collect();
        let expected: Vec<u64> = (1..=numbers.len() as u64).rev().collect();
        assert_eq!(numbers, expected, "{death:?}: no run is doubled or left out");
        eventually("the others tell the same", || async {
            let other = job(&cluster.nodes[leader], "report").await?;
            if other.runs == known.runs { Ok(()) } else { Err(format!("{other:?}")) }
        })
        .await;
        ran = numbers.len();
    }
    assert!(ran >= 3);
    // One container for each run, as the audit log has it.
    let status = cluster.overview(0).await.expect("it answers");
    let replicas: Vec<_> = status.replicas.iter().map(|it| it.state.as_str()).collect();
    assert_eq!(replicas, ["completed"]);
}

/// R-JOB-2: what was due while all daemons were off is named, and only the newest run begins, if the deadline lets it. The clock
/// of a follower, hours ahead, begins nothing.
#[tokio::test(flavor = "multi_thread")]
async fn runs_that_were_due_without_a_leader_are_named() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let jobs = [
        ("report", r#"{cron: "*/30 * * * *"}"#),
        ("strict", r#"{cron: "0 0 * * *", deadline: 30s}"#),
    ];
    apply(&cluster, 0, &jobs).await;
    for node in &mut cluster.nodes {
        node.stop();
    }
    // Three days and some hours later, a minute after a half hour: nothing else is due meanwhile.
    let later = 3 * 86_400 + 6 * 3600;
    let later = later + 1800 - (now_ms() / 1000 + later) % 1800 + 60;
    for node in &mut cluster.nodes {
        start_ahead(node, later);
    }
    cluster.settled().await;
    let report = eventually("the newest run ends", || async {
        let known = job(&cluster.nodes[1], "report").await?;
        let is_over = known.runs.first().is_some_and(|run| run.ended_at_ms > 0);
        if is_over { Ok(known) } else { Err(format!("{known:?}")) }
    })
    .await;
    let missed = report.missed.last().expect("there were many");
    assert_eq!(missed.reason, "no_leader");
    assert!((150..165).contains(&missed.count), "three days of half hours: {missed:?}");
    assert!(missed.first_due_ms < missed.last_due_ms);
    assert!(missed.last_due_ms < report.runs.last().expect("it ran").due_ms);
    let strict = job(&cluster.nodes[2], "strict").await.expect("it answers");
    assert_eq!(strict.runs, [], "it is hours late");
    let reasons: Vec<_> = strict.missed.iter().map(|it| (it.reason.as_str(), it.count)).collect();
    // Whether there are three or four midnights depends on the time of day.
    assert_eq!(reasons[0], ("deadline", 1), "{reasons:?}");
    assert_eq!(reasons[1].0, "no_leader", "{reasons:?}");
    let refused = cluster.cli(0, &["get", "job", "shop/strict"]);
    assert!(says(&refused).contains("deadline") && says(&refused).contains("no_leader"));

    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    cluster.nodes[follower].stop();
    start_ahead(&mut cluster.nodes[follower], later + 2 * 86_400);
    cluster.settled().await;
    let still = cluster.leader().await;
    assert_eq!(still, leader, "its clock elects nobody");
    let told = |known: v1::JobInfo| (known.runs.len(), known.missed.len());
    let known = told(job(&cluster.nodes[follower], "strict").await.expect("it answers"));
    // Two midnights lie between the two clocks; the leader looks every second.
    stays(Duration::from_secs(4), "a follower's clock", &known, || async {
        Ok(told(job(&cluster.nodes[follower], "strict").await?))
    })
    .await;
}

/// R-JOB-2, R-CLI-7: a job is run by a user, who gets its exit code; it is refused while it runs, and for what is no job.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_run_by_users() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    apply(
        &cluster,
        3,
        &[("report", r#"{cron: "30 2 1 1 *", time_zone: Europe/Berlin}"#), ("once", "")],
    )
    .await;
    let listed = says(&cluster.cli(0, &["get", "jobs"]));
    assert!(
        listed.contains("30 2 1 1 * Europe/Berlin") && listed.contains("shop/once"),
        "{listed}"
    );
    let run = cluster.cli(0, &["run", "shop/report", "-o", "json"]);
    let text = says(&run);
    assert_eq!(run.status.code(), Some(3), "{text}");
    assert!(text.contains(r#""exit_code": 3"#) && text.contains(r#""result": "failed""#), "{text}");
    let detached = cluster.cli(0, &["run", "shop/report", "--detach"]);
    assert!(says(&detached).contains("run 2 of shop/report has begun"), "{}", says(&detached));
    let refused = cluster.cli(0, &["run", "shop/report"]);
    assert_eq!(refused.status.code(), Some(3), "{}", says(&refused));
    assert!(says(&refused).contains("run 2 of shop/report goes on"), "{}", says(&refused));
    for (name, why) in [("shop/none", "no service none"), ("blog/report", "no deployment blog")] {
        let refused = cluster.cli(0, &["run", name]);
        assert!(says(&refused).contains(why), "{}", says(&refused));
    }
    assert_eq!(cluster.cli(0, &["run", "shop"]).status.code(), Some(2));
    eventually_within(Duration::from_secs(60), "the second run ends", || async {
        let known = job(&cluster.nodes[0], "report").await?;
        match known.runs.first() {
            Some(run) if run.number == 2 && run.ended_at_ms > 0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let one = says(&cluster.cli(0, &["get", "job", "shop/report"]));
    assert!(one.contains("30 2 1 1 * Europe/Berlin, forbid; next run in "), "{one}");
    assert!(one.lines().any(|line| line.starts_with("2 ") && line.contains("failed")), "{one}");
    let status = says(&cluster.cli(0, &["status"]));
    assert!(status.contains("run 2 failed (exit code 3)"), "{status}");
    assert!(status.contains("next run in "), "{status}");
    let events = says(&cluster.cli(0, &["audit", "-o", "json"]));
    assert!(events.contains("job_run_begun") && events.contains("job_run_ended"), "{events}");
}
