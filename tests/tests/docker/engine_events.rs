//! What an engine says of a cluster's containers while they stop.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jaco_testkit::eventually_within;

const PATIENCE: Duration = Duration::from_secs(180);

/// The engine's events about the end of a container.
#[derive(Debug)]
pub(crate) struct StopEvents {
    /// Signals with their times in milliseconds.
    pub(crate) signals: Vec<(u32, u64)>,
    /// Exit code and time.
    pub(crate) end: Option<(i64, u64)>,
}

/// The events of a cluster's containers, as the engine says them. It keeps no more than the last 256 of all
/// containers, so that they have to be followed.
pub(crate) struct EngineEvents {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl EngineEvents {
    pub(crate) fn follow(cluster: &str) -> Self {
        let filter = format!("label=jaco.cluster_id={cluster}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let mut child = Command::new("docker")
            .args(["events", "--filter", "type=container", "--filter", &filter])
            // What happens before it is connected is told too.
            .args(["--format", "{{json .}}", "--since", &now.as_secs().to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("docker starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                heard.lock().expect("not poisoned").push(line);
            }
        });
        Self { child, lines }
    }

    /// What was said of a container that has ended.
    pub(crate) async fn end_of(&self, id: &str) -> StopEvents {
        let heard = || {
            let heard = self.lines.lock().expect("not poisoned").clone();
            stop_events(&heard, id)
        };
        eventually_within(PATIENCE, "the engine says that a container ended", || async {
            let told = heard();
            if told.end.is_some() { Ok(()) } else { Err(format!("{id}: {told:?}")) }
        })
        .await;
        heard()
    }
}

impl Drop for EngineEvents {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn stop_events(lines: &[String], id: &str) -> StopEvents {
    let mut told = StopEvents { signals: Vec::new(), end: None };
    for line in lines {
        let event: serde_json::Value = serde_json::from_str(line).expect("an event");
        if event["Actor"]["ID"].as_str() != Some(id) {
            continue;
        }
        let at = event["timeNano"].as_u64().expect("a moment") / 1_000_000;
        let attribute = |name: &str| event["Actor"]["Attributes"][name].as_str().unwrap_or("");
        match event["Action"].as_str() {
            Some("kill") => told.signals.push((attribute("signal").parse().expect("one"), at)),
            Some("die") => told.end = Some((attribute("exitCode").parse().expect("one"), at)),
            _ => {}
        }
    }
    told
}
