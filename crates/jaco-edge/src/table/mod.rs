//! From the host and path of a request to what is known for it.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use jaco_types::RouteKey;
use jaco_types::route::{RouteDomain, RoutePath};

/// Something for each route: found by an exact domain before a wildcard, and by a longer path before a shorter.
///
/// A copy shares what is the same, so that one route of ten thousand changes at the price of few.
#[derive(Debug, Clone)]
pub(crate) struct Table<T> {
    /// The hosts in parts of a similar size, by their hash: a change copies one of them.
    parts: Vec<Arc<Hosts<T>>>,
    hasher: RandomState,
    wildcards: usize,
}

/// By host, its paths in order.
type Hosts<T> = HashMap<Name, Arc<Vec<(RoutePath, T)>>>;

/// Of 10,000 hosts a part has 39, so that a change copies about as many references as there are parts to refer to.
const PARTS: usize = 256;

/// A domain that can be looked up by its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Name(RouteDomain);

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let empty = Arc::default();
        Self { parts: vec![empty; PARTS], hasher: RandomState::new(), wildcards: 0 }
    }
}

impl<T: Clone> Table<T> {
    /// Sets what is known for a route.
    pub(crate) fn insert(&mut self, key: &RouteKey, value: T) {
        let part = self.part(key.domain.as_str());
        let paths = match Arc::make_mut(&mut self.parts[part]).entry(Name(key.domain.clone())) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.wildcards += usize::from(key.domain.is_wildcard());
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
        let part = self.part(key.domain.as_str());
        let hosts = Arc::make_mut(&mut self.parts[part]);
        let Entry::Occupied(mut entry) = hosts.entry(Name(key.domain.clone())) else { return };
        let paths = Arc::make_mut(entry.get_mut());
        paths.retain(|(path, _)| *path != key.path);
        if paths.is_empty() {
            self.wildcards -= usize::from(key.domain.is_wildcard());
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
        let paths = self.host(key.domain.as_str())?;
        let at = paths.binary_search_by(|(path, _)| path.cmp(&key.path)).ok()?;
        Some(&paths[at].1)
    }

    /// All that is known for a host: by its own domain, and then by the wildcard that it is below.
    pub(crate) fn of_host(&self, host: &str) -> impl Iterator<Item = (&RoutePath, &T)> {
        let own = self.paths(host).into_iter().flatten();
        let wildcard = self.wildcard_paths(host).into_iter().flatten();
        own.chain(wildcard).map(|(path, value)| (path, value))
    }

    fn paths(&self, host: &str) -> Option<&Vec<(RoutePath, T)>> {
        self.host(host).filter(|_| !host.starts_with('*'))
    }

    fn wildcard_paths(&self, host: &str) -> Option<&Vec<(RoutePath, T)>> {
        let (label, base) = host.split_once('.').filter(|_| self.wildcards > 0)?;
        if label.is_empty() || label == "*" {
            return None;
        }
        self.host(&format!("*.{base}"))
    }

    /// What is known under exactly this name.
    fn host(&self, name: &str) -> Option<&Vec<(RoutePath, T)>> {
        self.parts[self.part(name)].get(name).map(|paths| &**paths)
    }

    /// Where a name is or would be.
    fn part(&self, name: &str) -> usize {
        let below = PARTS as u64;
        usize::try_from(self.hasher.hash_one(name) % below).expect("below the number of parts")
    }
}

/// The value of the longest path that a path begins with: its ends are tried from the right.
fn longest<'a, T>(paths: &'a [(RoutePath, T)], path: &str) -> Option<&'a T> {
    let find = |prefix: &str| {
        let found = paths.binary_search_by(|(path, _)| path.prefix().cmp(prefix)).ok()?;
        Some(&paths[found].1)
    };
    if paths.len() == 1 {
        let (prefix, value) = &paths[0];
        return prefix.matches(path).then_some(value);
    }
    let mut end = path.len();
    loop {
        if let Some(value) = find(&path[..end]) {
            return Some(value);
        }
        end = path[..end].rfind('/')?;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(domain: &str, path: &str) -> RouteKey {
        RouteKey { domain: domain.parse().unwrap(), path: path.parse().unwrap() }
    }

    fn keys() -> impl Strategy<Value = RouteKey> {
        let domain = "(\\*\\.)?(a\\.|b\\.)?(x|y)";
        let path = "(/(a|b|ab)){0,3}/?";
        (domain, path).prop_map(|(domain, path)| key(&domain, &path))
    }

    fn is_for(domain: &RouteDomain, host: &str) -> bool {
        match domain.as_str().strip_prefix("*.") {
            None => domain.as_str() == host,
            Some(base) => host
                .split_once('.')
                .is_some_and(|(label, rest)| !label.is_empty() && label != "*" && rest == base),
        }
    }

    /// All routes that match, and of them the one with the exact domain and the longest path.
    fn naive<'a>(routes: &'a BTreeMap<RouteKey, u32>, host: &str, path: &str) -> Option<&'a u32> {
        let matches = |key: &&RouteKey| is_for(&key.domain, host) && key.path.matches(path);
        let rank = |key: &RouteKey| (!key.domain.is_wildcard(), key.path.prefix().len());
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
                hosts.iter().filter(|domain| domain.is_wildcard()).count()
            });
        }
    }

    #[test]
    fn domains_are_exact_or_one_label_below() {
        let mut table = Table::default();
        table.insert(&key("a.example", "/"), 1);
        assert_eq!(
            (table.find("a.example", "/"), table.find("b.a.example", "/")),
            (Some(&1), None)
        );
        table.insert(&key("*.example", "/"), 2);
        assert_eq!(
            (table.find("a.example", "/"), table.find("b.example", "/")),
            (Some(&1), Some(&2))
        );
        for host in ["example", "b.a.example", ".example", "*.example"] {
            assert_eq!(table.find(host, "/"), None, "{host}");
        }
    }

    #[test]
    fn paths_are_prefixes_by_segment() {
        for others in [&["/other"][..], &[]] {
            let mut table = Table::default();
            others.iter().for_each(|path| table.insert(&key("x", path), 2));
            table.insert(&key("x", "/api/"), 1);
            for path in ["/api", "/api/", "/api/x"] {
                assert_eq!(table.find("x", path), Some(&1), "{path}");
            }
            assert_eq!((table.find("x", "/apis"), table.find("x", "/")), (None, None));
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
