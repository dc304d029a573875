//! A machine: cores, and a link that sends messages in sequence.

use super::spec::Cluster;
use crate::cores::Cores;
use isomer_sim::world::World;
use std::cell::Cell;
use std::rc::Rc;

/// See the [module documentation](self).
pub(super) struct Machine {
    world: Rc<World>,
    pub(super) cores: Rc<Cores>,
    latency_ns: u64,
    bandwidth_mbit: u64,
    wire_free_at: Cell<u64>,
    /// The bytes sent so far.
    pub(super) sent: Cell<u64>,
}

impl Machine {
    pub(super) fn new(world: &Rc<World>, cluster: &Cluster) -> Machine {
        Machine {
            world: world.clone(),
            cores: Cores::new(world.clone(), cluster.cores),
            latency_ns: cluster.latency_us * 1000,
            bandwidth_mbit: cluster.bandwidth_mbit.max(1),
            wire_free_at: Cell::new(0),
            sent: Cell::new(0),
        }
    }

    /// Sends a message of `bytes` bytes, and calls `there` when it has arrived.
    pub(super) fn send(&self, bytes: u64, there: impl FnOnce() + 'static) {
        let now = self.world.now().0;
        let gone_at = self.wire_free_at.get().max(now) + bytes * 8_000 / self.bandwidth_mbit;
        self.wire_free_at.set(gone_at);
        self.sent.set(self.sent.get() + bytes);
        self.world.after(gone_at - now + self.latency_ns, there);
    }
}
