//! The thread inside the router's namespace, and its handle.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use super::Kernel;
use crate::error::{NetError, refused};
use crate::namespace::Namespace;
use crate::netlink::Socket;

type Task = Box<dyn FnOnce(&mut Kernel) + Send>;

/// Runs tasks one after the other on a thread inside the router's namespace. The thread ends with its handle.
#[derive(Debug)]
pub(crate) struct Worker {
    tasks: mpsc::Sender<Task>,
}

impl Worker {
    /// Starts the thread. The calling thread is in the namespace of the container engine.
    pub(crate) async fn start(namespace: Arc<Namespace>) -> Result<Self, NetError> {
        let outside = Socket::route().map_err(refused("open a netlink socket"))?;
        let (tasks, inbox) = mpsc::channel::<Task>();
        let (started, ready) = oneshot::channel();
        let body = move || {
            let kernel = namespace
                .enter()
                .map_err(|source| NetError::Namespace { path: namespace.path().to_owned(), source })
                .and_then(|()| Kernel::new(namespace, outside));
            let (mut kernel, result) = match kernel {
                Ok(kernel) => (kernel, Ok(())),
                Err(error) => {
                    // Whoever waits for it may be gone.
                    drop(started.send(Err(error)));
                    return;
                }
            };
            if started.send(result).is_err() {
                return;
            }
            inbox.iter().for_each(|task| task(&mut kernel));
        };
        let thread = thread::Builder::new().name("router".to_owned()).spawn(body);
        thread.map_err(refused("start a thread"))?;
        ready.await.unwrap_or(Err(NetError::Ended))?;
        Ok(Self { tasks })
    }

    /// Runs a task on the thread.
    pub(crate) async fn call<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Kernel) -> Result<R, NetError> + Send + 'static,
    ) -> Result<R, NetError> {
        let (answer, result) = oneshot::channel();
        let task: Task = Box::new(move |kernel| drop(answer.send(task(kernel))));
        self.tasks.send(task).map_err(|_| NetError::Ended)?;
        result.await.unwrap_or(Err(NetError::Ended))
    }
}
