//! What `jacod edge` gives up before it listens: it parses what anybody sends.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::Path;

use anyhow::Context;
use nix::sched::{CloneFlags, setns};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, User, initgroups, setgid, setuid};
use rustix::thread::set_no_new_privs;

/// The user of the edge where none is named: the first of these that the system has.
const USERS: [&str; 2] = ["jaco-edge", "nobody"];

/// Descriptors that an edge may need: two for each connection.
const DESCRIPTORS: u64 = 65_536;

/// Makes the folder and goes there: what is done in it later needs no rights to those above it. Others may pass it, as the
/// router has no right to go where it may not; its sockets ask who connects.
pub(crate) fn enter_folder(dir: &Path, owner: Option<&User>) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o711).create(dir);
    made.with_context(|| format!("cannot create {}", dir.display()))?;
    if let Some(user) = owner {
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        let owned = chown(dir, Some(uid), Some(gid));
        let owned = owned.and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o711)));
        owned.with_context(|| format!("cannot give {} to {}", dir.display(), user.name))?;
    }
    std::env::set_current_dir(dir).with_context(|| format!("cannot enter {}", dir.display()))
}

/// The user of this name; one that is meant for edges where none is named.
pub(crate) fn user(name: Option<&str>) -> anyhow::Result<User> {
    let names = name.map_or_else(|| USERS.to_vec(), |name| vec![name]);
    for name in &names {
        let found = User::from_name(name).with_context(|| format!("cannot look up user {name}"))?;
        if let Some(user) = found {
            return Ok(user);
        }
    }
    anyhow::bail!("there is no user {}: name one with `edge.user`", names.join(" or "))
}

/// Moves this process, which has one thread, into a network namespace.
pub(crate) fn enter_namespace(path: &Path) -> anyhow::Result<()> {
    let entered = || {
        let file = File::open(path)?;
        setns(file, CloneFlags::CLONE_NEWNET)?;
        std::io::Result::Ok(())
    };
    entered().with_context(|| format!("cannot enter the router's namespace {}", path.display()))
}

/// Allows as many descriptors as there may be connections, or as many as this process may have.
pub(crate) fn raise_descriptors() -> anyhow::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of files")?;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, most.max(DESCRIPTORS));
    raised
        .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, most.min(DESCRIPTORS), most))
        .context("cannot raise the limit of files")
}

/// Becomes a user without rights. It cannot be undone: capabilities go with the user, and no program that is started from
/// here gets any.
pub(crate) fn become_user(user: &User) -> anyhow::Result<()> {
    let become_it = || {
        let name = CString::new(user.name.as_str()).map_err(std::io::Error::other)?;
        initgroups(&name, user.gid)?;
        setgid(user.gid)?;
        setuid(user.uid)?;
        set_no_new_privs(true)?;
        std::io::Result::Ok(())
    };
    become_it().with_context(|| format!("cannot become user {}", user.name))?;
    anyhow::ensure!(
        setuid(nix::unistd::Uid::from_raw(0)).is_err() && setgid(Gid::from_raw(0)).is_err(),
        "user {} can become root again",
        user.name
    );
    Ok(())
}
