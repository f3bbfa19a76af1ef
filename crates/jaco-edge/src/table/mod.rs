//! From the host and path of a request to what is known for it.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use jaco_dataplane::edge::{Domain, PathPrefix, RouteKey};

/// Something for each route: found by an exact domain before a wildcard, and by a longer path before a shorter.
///
/// A copy shares all hosts that are the same, so that one route of ten thousand changes at the price of one.
#[derive(Debug, Clone)]
pub(crate) struct Table<T> {
    hosts: HashMap<Name, Arc<Vec<(PathPrefix, T)>>>,
    wildcards: usize,
}

/// A domain that can be looked up by its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Name(Domain);

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { hosts: HashMap::new(), wildcards: 0 }
    }
}

impl<T: Clone> Table<T> {
    /// Sets what is known for a route.
    pub(crate) fn insert(&mut self, key: &RouteKey, value: T) {
        let paths = match self.hosts.entry(Name(key.domain.clone())) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.wildcards += usize::from(key.domain.wildcard_base().is_some());
                entry.insert(Arc::new(Vec::with_capacity(1)))
            }
        };
        let paths = Arc::make_mut(paths);
        match paths.binary_search_by(|(path, _)| path.cmp(&key.path)) {
            Ok(at) => paths[at].1 = value,
            Err(at) => paths.insert(at, (key.path.clone(), value)),
        }
    }

    /// Removes a route.
    pub(crate) fn remove(&mut self, key: &RouteKey) {
        let Entry::Occupied(mut entry) = self.hosts.entry(Name(key.domain.clone())) else { return };
        let paths = Arc::make_mut(entry.get_mut());
        paths.retain(|(path, _)| *path != key.path);
        if paths.is_empty() {
            self.wildcards -= usize::from(key.domain.wildcard_base().is_some());
            entry.remove();
        }
    }
}

impl<T> Table<T> {
    /// What is known for a host, in lower case and without port, and a path without empty segments.
    pub(crate) fn find(&self, host: &str, path: &str) -> Option<&T> {
        self.paths(host)
            .and_then(|paths| longest(paths, path))
            .or_else(|| longest(self.wildcard_paths(host)?, path))
    }

    /// What is known for a route.
    pub(crate) fn get(&self, key: &RouteKey) -> Option<&T> {
        let paths = self.hosts.get(key.domain.as_str())?;
        let at = paths.binary_search_by(|(path, _)| path.cmp(&key.path)).ok()?;
        Some(&paths[at].1)
    }

    /// All that is known for a host: by its own domain, and then by the wildcard that it is below.
    pub(crate) fn of_host(&self, host: &str) -> impl Iterator<Item = (&PathPrefix, &T)> {
        let own = self.paths(host).into_iter().flatten();
        let wildcard = self.wildcard_paths(host).into_iter().flatten();
        own.chain(wildcard).map(|(path, value)| (path, value))
    }

    fn paths(&self, host: &str) -> Option<&Vec<(PathPrefix, T)>> {
        self.hosts.get(host).map(|paths| &**paths).filter(|_| !host.starts_with('*'))
    }

    fn wildcard_paths(&self, host: &str) -> Option<&Vec<(PathPrefix, T)>> {
        let (label, base) = host.split_once('.').filter(|_| self.wildcards > 0)?;
        if label.is_empty() || label == "*" {
            return None;
        }
        self.hosts.get(format!("*.{base}").as_str()).map(|paths| &**paths)
    }
}

/// The value of the longest path that a path begins with: its ends are tried from the right.
fn longest<'a, T>(paths: &'a [(PathPrefix, T)], path: &str) -> Option<&'a T> {
    let find = |prefix: &str| {
        let found = paths.binary_search_by(|(path, _)| path.as_str().cmp(prefix)).ok()?;
        Some(&paths[found].1)
    };
    if paths.len() == 1 {
        let (prefix, value) = &paths[0];
        return prefix.matches(path).then_some(value);
    }
    let mut end = path.len();
    while end > 0 {
        if let Some(value) = find(&path[..end]) {
            return Some(value);
        }
        end = path[..end].rfind('/')?;
    }
    find("/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(domain: &str, path: &str) -> RouteKey {
        RouteKey { domain: Domain::new(domain).unwrap(), path: PathPrefix::new(path).unwrap() }
    }

    fn keys() -> impl Strategy<Value = RouteKey> {
        let domain = "(\\*\\.)?(a\\.|b\\.)?(x|y)";
        let path = "(/(a|b|ab)){0,3}/?";
        let rooted = |path: String| if path.is_empty() { "/".to_owned() } else { path };
        (domain, path).prop_map(move |(domain, path)| key(&domain, &rooted(path)))
    }

    /// All routes that match, and of them the one with the exact domain and the longest path.
    fn naive<'a>(routes: &'a BTreeMap<RouteKey, u32>, host: &str, path: &str) -> Option<&'a u32> {
        let matches = |key: &&RouteKey| key.domain.matches(host) && key.path.matches(path);
        let rank = |key: &RouteKey| (key.domain.wildcard_base().is_none(), key.path.as_str().len());
        let best = routes.keys().filter(matches).max_by_key(|key| rank(key))?;
        routes.get(best)
    }

    proptest! {
        /// Law: the table finds what reading all routes finds, after any history of changes; and a copy stays as it is.
        #[test]
        fn the_table_is_the_list(
            changes in prop::collection::vec((keys(), prop::option::weighted(0.7, 0_u32..9)), 0..40),
            asked in prop::collection::vec(("(a\\.|b\\.|c\\.){0,2}(x|y|z)", "/((a|b|ab)/?){0,4}"), 1..20),
        ) {
            let (mut table, mut routes) = (Table::default(), BTreeMap::new());
            let mut former = (table.clone(), routes.clone());
            for (number, (key, value)) in changes.iter().enumerate() {
                if number == changes.len() / 2 {
                    former = (table.clone(), routes.clone());
                }
                match value {
                    Some(value) => {
                        table.insert(key, *value);
                        routes.insert(key.clone(), *value);
                    }
                    None => {
                        table.remove(key);
                        routes.remove(key);
                    }
                }
            }
            for (host, path) in &asked {
                prop_assert_eq!(table.find(host, path), naive(&routes, host, path), "{} {}", host, path);
                prop_assert_eq!(former.0.find(host, path), naive(&former.1, host, path));
            }
            for key in changes.iter().map(|change| &change.0) {
                prop_assert_eq!(table.get(key), routes.get(key));
            }
            prop_assert_eq!(table.wildcards, {
                let hosts: std::collections::BTreeSet<_> = routes.keys().map(|key| &key.domain).collect();
                hosts.iter().filter(|domain| domain.wildcard_base().is_some()).count()
            });
        }
    }

    #[test]
    fn a_wildcard_is_asked_where_the_own_domain_has_no_such_path() {
        let mut table = Table::default();
        table.insert(&key("a.x", "/api"), 1);
        table.insert(&key("*.x", "/"), 2);
        assert_eq!(table.find("a.x", "/api/1"), Some(&1));
        assert_eq!(table.find("a.x", "/apis"), Some(&2));
        assert_eq!(table.find("x", "/"), None);
        assert_eq!(table.find("*.x", "/"), None);
        assert_eq!(table.of_host("a.x").count(), 2);
    }
}
