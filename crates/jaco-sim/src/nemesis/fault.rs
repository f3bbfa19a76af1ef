//! What breaks, and what operators do to nodes and replicas.

use std::collections::BTreeSet;

use jaco_store::cluster_time::CLOCKS_AGREE_WITHIN;
use jaco_types::ReplicaId;

use super::{JOB_IMAGES, Nemesis};

impl Nemesis {
    pub(super) fn partition(&mut self) -> Option<String> {
        let hosts = self.hosts();
        let alone = self.some_hosts();
        let others: Vec<String> = hosts.into_iter().filter(|host| !alone.contains(host)).collect();
        let is_split = !others.is_empty();
        is_split.then(|| format!("partition {} | {}", alone.join(" "), others.join(" ")))
    }

    pub(super) fn cut(&mut self) -> Option<String> {
        let hosts = self.hosts();
        let (from, to) = (self.pick_of(&hosts)?, self.pick_of(&hosts)?);
        (from != to).then(|| format!("cut {from} -> {to}"))
    }

    pub(super) fn registry(&mut self) -> Option<String> {
        let image = self.pick_of(&self.images.clone())?;
        let how = match self.rng.below(4) {
            0 => "hangs".to_owned(),
            1 => "fails \"no such image\"".to_owned(),
            2 => format!("takes {}s", self.rng.between(1, 40)),
            _ => "works".to_owned(),
        };
        Some(format!("pull {image} {how}"))
    }

    /// Another image is pushed under the same name.
    pub(super) fn tag(&mut self) -> Option<String> {
        let image = self.pick_of(&self.images.clone())?;
        Some(format!("pull {image} is {}", self.rng.pick(&["a", "b", "c"])))
    }

    /// The user disables something, or enables it again.
    pub(super) fn disable(&mut self) -> Option<String> {
        if self.rng.below(5) < 2 {
            return self.pick_of(&self.disabled.clone()).map(|scope| format!("enable {scope}"));
        }
        let slots = self.world().checker.reference().slots.values();
        let slots: Vec<(String, String)> =
            slots.map(|slot| (slot.service.to_string(), slot.id.to_string())).collect();
        let host = self.pick_of(&self.hosts())?;
        let scope = match self.rng.below(4) {
            0 => format!("node {host}"),
            _ if slots.is_empty() => return None,
            choice => {
                let (service, id) = self.rng.pick(&slots).clone();
                match choice {
                    1 => service,
                    2 => format!("{service} on {host}"),
                    _ => format!("{service} replica {id}"),
                }
            }
        };
        self.disabled.push(scope.clone());
        Some(format!("disable {scope}"))
    }

    pub(super) fn behaviour(&mut self) -> Option<String> {
        let image = self.pick_of(&self.images.clone())?;
        let length = self.rng.between(1, 15);
        let how = match self.rng.below(7) {
            0 => format!("exits 1 after {length}s"),
            1 => format!("exits 0 after {length}s"),
            2 => format!("healthy after {length}s"),
            3 => format!("unhealthy after {length}s"),
            4 => "refused \"no such device\"".to_owned(),
            5 => format!("stops in {length}s"),
            _ => "works".to_owned(),
        };
        if JOB_IMAGES.contains(&image.as_str()) && !how.contains("exits") {
            return None;
        }
        Some(format!("image {image} {how}"))
    }

    pub(super) fn harm(&mut self) -> Option<String> {
        let slots = self.world().checker.reference().slots.keys();
        let slots: Vec<String> = slots.map(ReplicaId::to_string).collect();
        let slot = self.pick_of(&slots)?;
        let how = *self.rng.pick(&["kill-container", "remove-container", "sicken", "cure"]);
        Some(format!("{how} {slot}"))
    }

    pub(super) fn engine(&mut self) -> Option<String> {
        let host = self.pick_of(&self.hosts())?;
        Some(format!("engine {host} {}", self.rng.pick(&["down", "up"])))
    }

    /// As a daemon that keeps time sets a clock, or an operator: clocks differ by as much as they may.
    pub(super) fn clock(&mut self) -> Option<String> {
        let host = self.pick_of(&self.hosts())?;
        let (sign, drawn) = (*self.rng.pick(&["+", "-"]), self.rng.between(1, 2_000));
        if drawn % 2 == 0 {
            return Some(format!("clock {host} {sign}{drawn}ms"));
        }
        let world = self.world();
        let now = world.machine(world.find(&host)?).clock_offset();
        let most = CLOCKS_AGREE_WITHIN.0 / 2;
        let off = i64::try_from(drawn * most / 2_000).expect("minutes");
        let by = if sign == "+" { off } else { -off } - now;
        let sign = if by < 0 { "-" } else { "+" };
        Some(format!("clock {host} {sign}{}ms", by.unsigned_abs()))
    }

    pub(super) fn join(&mut self) -> Option<String> {
        let machines = self.world().machines.iter().map(|machine| &machine.hostname);
        let next = machines.collect::<BTreeSet<_>>().len() + 1;
        (next <= self.style.nodes_max()).then(|| format!("join n{next}"))
    }

    pub(super) fn availability(&mut self) -> Option<String> {
        let host = self.pick_of(&self.hosts())?;
        Some(format!("{} {host}", self.rng.pick(&["cordon", "uncordon", "drain"])))
    }

    pub(super) fn drain_within(&mut self) -> Option<String> {
        let host = self.pick_of(&self.hosts())?;
        Some(format!("drain {host} within {}s", self.rng.between(1, 60)))
    }

    /// One node is hot, or busy, or idle.
    pub(super) fn load(&mut self) -> Option<String> {
        let host = self.pick_of(&self.hosts())?;
        Some(format!("load {host} {}", self.rng.pick(&["99", "95", "60", "20", "5"])))
    }
}
