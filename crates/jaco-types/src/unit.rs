//! Quantities with their unit in the type: integers only, so that replicated state is exact.

use std::fmt;

/// CPU in thousandths of a core. Where a manifest speaks of MHz, 1000 MHz are one core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliCores(pub u64);

/// An amount of memory or storage in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl fmt::Display for MilliCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}m", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            n if n >= 1 << 30 => (1 << 30, "GiB"),
            n if n >= 1 << 20 => (1 << 20, "MiB"),
            n if n >= 1 << 10 => (1 << 10, "KiB"),
            _ => (1, "B"),
        };
        let tenths = (self.0 % unit).saturating_mul(10) / unit;
        match tenths {
            0 => write!(f, "{} {name}", self.0 / unit),
            _ => write!(f, "{}.{tenths} {name}", self.0 / unit),
        }
    }
}

/// An amount of what a node has and a replica takes. Zero means "none asked for".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    /// Processor time.
    pub cpu: MilliCores,
    /// Memory.
    pub memory: Bytes,
}

impl Resources {
    /// The sum, saturating: a sum beyond the range fits nowhere either way.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            cpu: MilliCores(self.cpu.0.saturating_add(other.cpu.0)),
            memory: Bytes(self.memory.0.saturating_add(other.memory.0)),
        }
    }

    /// What remains after taking `other`, not below zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            cpu: MilliCores(self.cpu.0.saturating_sub(other.cpu.0)),
            memory: Bytes(self.memory.0.saturating_sub(other.memory.0)),
        }
    }

    /// Whether both amounts fit into `capacity`.
    #[must_use]
    pub const fn fits(self, capacity: Self) -> bool {
        self.cpu.0 <= capacity.cpu.0 && self.memory.0 <= capacity.memory.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        let show = |n: u64| Bytes(n).to_string();
        assert_eq!([show(0), show(1536), show(3 << 30)], ["0 B", "1.5 KiB", "3 GiB"]);
    }
}
