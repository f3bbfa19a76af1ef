//! How many connections there are, in all and by source, so that nobody takes the place of all others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

/// Counts something by source, up to a bound for each and for all.
#[derive(Debug)]
pub(crate) struct Caps {
    total_max: usize,
    per_source_max: usize,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    total: usize,
    by_source: HashMap<Source, usize>,
}

/// Who something is charged to: an IPv4 address, or the /64 network that one IPv6 subscriber gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Source(IpAddr);

/// A place under the bounds; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    caps: Arc<Caps>,
    source: Source,
}

impl Caps {
    pub(crate) fn new(total_max: usize, per_source_max: usize) -> Arc<Self> {
        Arc::new(Self { total_max, per_source_max, counted: Mutex::default() })
    }

    /// A place for `source`. `None`: there is none.
    pub(crate) fn enter(self: &Arc<Self>, source: IpAddr) -> Option<Permit> {
        let source = Source::from(source);
        let mut counted = self.lock();
        let of_source = counted.by_source.get(&source).copied().unwrap_or(0);
        if counted.total >= self.total_max || of_source >= self.per_source_max {
            return None;
        }
        counted.total += 1;
        counted.by_source.insert(source, of_source + 1);
        Some(Permit { caps: Arc::clone(self), source })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.counted.lock().expect("nothing panics while it holds the lock")
    }
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counted = self.caps.lock();
        counted.total -= 1;
        match counted.by_source.get_mut(&self.source) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(counted.by_source.remove(&self.source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_by_source_and_in_all() {
        let caps = Caps::new(3, 2);
        let source = |text: &str| text.parse::<IpAddr>().unwrap();
        let enter = |text| caps.enter(source(text));
        let first = enter("192.0.2.1");
        let second = enter("::ffff:192.0.2.1");
        assert!(first.is_some() && second.is_some() && enter("192.0.2.1").is_none());
        let third = enter("2001:db8::1");
        assert!(third.is_some() && enter("198.51.100.1").is_none(), "full");
        drop(first);
        assert!(enter("192.0.2.1").is_some());
        drop((second, third));
        assert_eq!(caps.lock().by_source.len(), 0, "nothing is remembered of who is gone");
    }
}
