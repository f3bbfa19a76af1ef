//! Credentials of image registries: kept, replaced, taken away, and bounded (R-CLI-6).

use jaco_state::command::{RegistryRemove, RegistryStore};
use jaco_state::invariants::violations;
use jaco_state::registries::{PASSWORD_BYTES_MAX, REGISTRIES_MAX, SealedPassword};
use jaco_state::{Command, Outcome};
use jaco_types::{ErrorCode, Identity, Millis, RegistryName, RegistryUsername};

use crate::history::History;

pub(crate) fn store(registry: &str, sealed: &[u8]) -> Command {
    RegistryStore::new(
        name(registry),
        RegistryUsername::new("robot").unwrap(),
        SealedPassword(sealed.into()),
    )
    .into()
}

pub(crate) fn remove(registry: &str) -> Command {
    RegistryRemove::new(name(registry)).into()
}

fn name(registry: &str) -> RegistryName {
    RegistryName::new(registry).unwrap()
}

/// R-CLI-6: there is one login per registry, the newest; who stored it when is kept, and the audit log
/// says who the cluster is, never by what password.
#[test]
fn the_newest_credentials_are_kept() {
    let mut history = History::founded();
    assert_eq!(history.apply(store("ghcr.io", b"first")), Outcome::Done);
    assert_eq!(history.last_event(), "registry_stored registry=ghcr.io username=robot");
    history.now = history.now.after(Millis(5000));
    assert_eq!(history.apply(store("ghcr.io", b"second")), Outcome::Done);
    let login = history.state.registries.get(&name("ghcr.io")).unwrap().clone();
    assert_eq!(login.password, SealedPassword((*b"second").into()));
    assert_eq!((login.stored_at, login.by), (history.now, Identity::Local { uid: 0 }));
    history.apply(store("quay.io:443", b"other"));
    assert_eq!(history.state.registries.len(), 2);
    assert_eq!(history.apply(remove("ghcr.io")), Outcome::Done);
    assert_eq!(history.last_event(), "registry_removed registry=ghcr.io username=robot");
    assert_eq!(history.state.registries.keys().collect::<Vec<_>>(), [&name("quay.io:443")]);
    let shown = format!("{:?}", history.state);
    assert!(!shown.contains("other") && !shown.contains("second"), "{shown}");
}

/// R-CLI-6: a removal of what is not there is done already, and leaves nothing.
#[test]
fn a_second_removal_does_nothing() {
    let mut history = History::founded();
    history.apply(store("ghcr.io", b"sealed"));
    history.apply(remove("ghcr.io"));
    let once = history.state.audit.clone();
    assert_eq!(history.apply(remove("ghcr.io")), Outcome::Done);
    assert_eq!(history.state.audit, once);
}

/// ST-17: there are bounds, and what is beyond them is refused by name and changes nothing.
#[test]
fn credentials_are_bounded() {
    let mut history = History::founded();
    let large = vec![7; PASSWORD_BYTES_MAX + 257];
    for unfit in [&[][..], &large] {
        assert_eq!(history.refused(store("ghcr.io", unfit)), ErrorCode::TooLarge);
    }
    assert!(history.state.registries.is_empty());
    for number in 0..REGISTRIES_MAX {
        assert_eq!(history.apply(store(&format!("r{number}.io"), b"sealed")), Outcome::Done);
    }
    assert_eq!(history.refused(store("ghcr.io", b"sealed")), ErrorCode::TooLarge);
    assert!(history.last_event().contains("log out of one"), "{}", history.last_event());
    assert_eq!(history.apply(store("r7.io", b"another")), Outcome::Done, "it has its place");
    assert_eq!(violations(&history.state), vec![]);
    history.apply(remove("r7.io"));
    assert_eq!(history.apply(store("ghcr.io", b"sealed")), Outcome::Done);
    assert_eq!(violations(&history.state), vec![]);
}
