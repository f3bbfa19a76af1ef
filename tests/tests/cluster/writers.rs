//! Writes without a pause, of which none may fail.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use jaco_testkit::{Node, eventually, v1};
use tokio::task::JoinHandle;

/// Writes until it is stopped; every failure is kept.
pub(crate) struct Writers {
    stopped: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<Vec<String>>>,
}

impl Writers {
    pub(crate) fn new() -> Self {
        Self { stopped: Arc::default(), done: Arc::default(), tasks: Vec::new() }
    }

    /// One write after another.
    pub(crate) fn add<F, W>(&mut self, name: impl Into<String>, write: F)
    where
        F: Fn(u64) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), String>> + Send,
    {
        let (stopped, done) = (Arc::clone(&self.stopped), Arc::clone(&self.done));
        let name = name.into();
        self.tasks.push(tokio::spawn(async move {
            let mut failures = Vec::new();
            let mut number = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                number += 1;
                match write(number).await {
                    Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => failures.push(format!("{name} {number}: {error}")),
                }
            }
            failures
        }));
    }

    /// Labels of a node, through its socket, by one connection.
    pub(crate) fn labels(&mut self, node: &Node, label: String) {
        let (client, hostname) = (node.client(), node.name.clone());
        self.add(label.clone(), move |number| {
            let request = v1::SetLabelsRequest {
                hostname: hostname.clone(),
                set: [(label.clone(), number.to_string())].into(),
                ..Default::default()
            };
            let client = client.clone();
            async move {
                client.set_labels(request).await.map(drop).map_err(|error| error.to_string())
            }
        });
    }

    /// Waits until thirty more are done.
    pub(crate) async fn more(&self) {
        let goal = self.done.load(Ordering::Relaxed) + 30;
        eventually("writes go on", || async {
            let done = self.done.load(Ordering::Relaxed);
            if done >= goal { Ok(()) } else { Err(format!("{done} of {goal}")) }
        })
        .await;
    }

    /// How many writes were done, and what failed.
    pub(crate) async fn stop(self) -> (usize, Vec<String>) {
        self.stopped.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for task in self.tasks {
            failures.extend(task.await.expect("a writer does not panic"));
        }
        (self.done.load(Ordering::Relaxed), failures)
    }
}
