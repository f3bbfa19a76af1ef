//! Network namespaces that outlive their process: each is bound to a file.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::NetError;

/// What `statfs` says of a file that a namespace is bound to.
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// A network namespace, open.
#[derive(Debug)]
pub struct Namespace {
    path: PathBuf,
    file: File,
}

impl Namespace {
    /// Opens the namespace that is bound to `path`; makes and binds one if there is none.
    ///
    /// Needs CAP_SYS_ADMIN. The binding is seen by processes that share the mount namespace.
    ///
    /// # Errors
    /// If it cannot be made, bound or opened.
    pub fn ensure(path: &Path) -> Result<Self, NetError> {
        let failed = |source| NetError::Namespace { path: path.to_owned(), source };
        if !is_bound(path) {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(failed)?;
            }
            File::create(path).map_err(failed)?;
            // A thread of its own, as the namespace of a thread is for its whole life.
            let bind = || {
                unshare(CloneFlags::CLONE_NEWNET)?;
                rustix::mount::mount_bind("/proc/thread-self/ns/net", path)?;
                io::Result::Ok(())
            };
            in_thread(bind).map_err(failed)?;
        }
        let file = File::open(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// The file that it is bound to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `task` in the namespace, on a thread that ends with it. What it opens and starts stays in there.
    ///
    /// # Errors
    /// If the namespace cannot be entered, which needs CAP_SYS_ADMIN.
    pub fn run<R: Send>(&self, task: impl FnOnce() -> R + Send) -> Result<R, NetError> {
        let entered = in_thread(|| {
            self.enter()?;
            io::Result::Ok(task())
        });
        entered.map_err(|source| NetError::Namespace { path: self.path.clone(), source })
    }

    /// Moves the calling thread into the namespace, for good.
    ///
    /// # Errors
    /// If the caller lacks CAP_SYS_ADMIN.
    pub fn enter(&self) -> io::Result<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)?;
        Ok(())
    }

    /// Unbinds the namespace. It ends once nothing uses it any more.
    ///
    /// # Errors
    /// If the file cannot be unmounted or removed.
    pub fn unbind(self) -> Result<(), NetError> {
        let Self { path, file } = self;
        drop(file);
        let unbound = rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH)
            .map_err(io::Error::from)
            .and_then(|()| fs::remove_file(&path));
        unbound.map_err(|source| NetError::Namespace { path, source })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn is_bound(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type == NSFS_MAGIC)
}

fn in_thread<R: Send>(task: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("namespace".to_owned());
        let thread = thread.spawn_scoped(scope, task).expect("the system has a thread left");
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
