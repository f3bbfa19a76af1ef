//! Which GPUs of a node are reserved for a replica. An engine that is asked for a number of them gives
//! everybody the same ones, so the plan names them, and no two instances have the same (PL-9).

use std::fmt;
use std::sync::Arc;

use jaco_types::{Gpu, GpuChoice, GpuDemand, Node};

use super::usage::Usage;

/// The GPUs that an instance has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Held<'a> {
    /// Those that the state says.
    Known(&'a [Arc<str>]),
    /// Those that this pass gives it, of its node's inventory.
    Granted(GpuSet),
}

/// Places in a node's inventory, a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GpuSet(u64);

/// Too few GPUs of a driver are free on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shortage {
    /// How many the node has.
    pub has: u32,
    /// How many of these are not reserved.
    pub free: u32,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.has {
            0 => f.write_str("it has none"),
            has => write!(f, "{} of {has} free", self.free),
        }
    }
}

impl GpuSet {
    /// All places that one node can have.
    const fn has(self, at: usize) -> bool {
        at < Gpu::PER_NODE_MAX && self.0 & (1 << at) != 0
    }
}

impl Held<'_> {
    /// No GPUs.
    pub(crate) const NONE: Self = Held::Granted(GpuSet(0));
}

impl<'a> Held<'a> {
    /// Their ids; `node` is the one that the instance is on.
    pub(crate) fn ids(self, node: &'a Node) -> impl Iterator<Item = &'a Arc<str>> {
        let (known, granted) = match self {
            Held::Known(ids) => (ids, GpuSet::default()),
            Held::Granted(set) => (&[][..], set),
        };
        // Most have none, and the member is far away in memory.
        let inventory = if granted == GpuSet::default() { &[][..] } else { &node.facts.gpus };
        let inventory = inventory.iter().enumerate();
        let granted = inventory.filter(move |(at, _)| granted.has(*at)).map(|(_, gpu)| &gpu.id);
        known.iter().chain(granted)
    }
}

/// The GPUs of `node` that a replica gets, where `usage` is what others have of it, and of which
/// `own` are its to take over: those of the instance that ends before it begins.
///
/// The lowest in the inventory that are free; so the choice is the same wherever it is made.
///
/// # Errors
/// If too few are free.
pub(crate) fn grant<'a>(
    node: &'a Node,
    usage: &Usage,
    demand: &GpuDemand,
    own: &[Held<'a>],
) -> Result<GpuSet, Shortage> {
    let inventory = node.facts.gpus.iter().enumerate().take(Gpu::PER_NODE_MAX);
    let of_driver: Vec<_> = inventory.filter(|(_, gpu)| gpu.driver == demand.driver).collect();
    let is_own = |id: &str| own.iter().any(|held| held.ids(node).any(|own| **own == *id));
    let is_free = |gpu: &Gpu| !usage.has_gpu(&gpu.id) || is_own(&gpu.id);
    let free: Vec<usize> =
        of_driver.iter().filter(|(_, gpu)| is_free(gpu)).map(|(at, _)| *at).collect();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let shortage = Shortage { has: count(of_driver.len()), free: count(free.len()) };
    let chosen: Option<Vec<usize>> = match &demand.choice {
        GpuChoice::All => (!free.is_empty() && free.len() == of_driver.len()).then(|| free.clone()),
        GpuChoice::Count(wanted) => {
            let wanted = usize::try_from(wanted.get()).unwrap_or(usize::MAX);
            free.get(..wanted).map(<[usize]>::to_vec)
        }
        GpuChoice::These(ids) => {
            ids.iter().map(|id| named(&of_driver, id).filter(|at| free.contains(at))).collect()
        }
    };
    let chosen = chosen.ok_or(shortage)?;
    Ok(GpuSet(chosen.into_iter().fold(0, |set, at| set | (1 << at))))
}

/// The place of the GPU that has this id, or else this number among those of its driver.
fn named(of_driver: &[(usize, &Gpu)], id: &str) -> Option<usize> {
    let by_id = of_driver.iter().find(|(_, gpu)| *gpu.id == *id);
    let by_number = || of_driver.get(id.parse::<usize>().ok()?);
    by_id.or_else(by_number).map(|(at, _)| *at)
}
