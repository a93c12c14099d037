//! ConnectionSlots of connections: a limit for all, one for each address, and some that only probes get, so that a health check is
//! answered even if clients without a key hold every other slot.

use crate::clients::{Share, Shares, network};
use alloc::sync::Arc;
use core::net::IpAddr;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// ConnectionSlots that only probes get.
const PROBES: usize = 32;

/// The slots of a server.
pub(crate) struct ConnectionSlots {
    all: Arc<Semaphore>,
    probes: Arc<Semaphore>,
    /// ConnectionSlots of each address.
    addresses: Arc<Shares<IpAddr>>,
}

/// The slot of a connection; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    _address: Option<Share<IpAddr>>,
    for_probe: bool,
}

impl ConnectionSlots {
    /// ConnectionSlots for `count` connections, at least for a few. An address other than this machine's gets a quarter of them.
    pub(crate) fn new(count: usize) -> Self {
        let all = count.saturating_sub(PROBES).max(PROBES);
        let share = u32::try_from(all / 4).unwrap_or(u32::MAX);
        let semaphore = |slots: usize| Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)));
        Self { all: semaphore(all), probes: semaphore(PROBES), addresses: Shares::new(share) }
    }

    /// Takes a slot for a connection from an address; `None` if there is none.
    pub(crate) fn take(&self, address: Option<IpAddr>) -> Option<ConnectionSlot> {
        let slot = |semaphore: &Arc<Semaphore>| Arc::clone(semaphore).try_acquire_owned().ok();
        let other = address.filter(|address| !address.to_canonical().is_loopback());
        let share = other.map(|address| self.addresses.take(network(address), 1));
        if let (None | Some(Some(_)), Some(permit)) = (&share, slot(&self.all)) {
            return Some(ConnectionSlot { _permit: permit, _address: share.flatten(), for_probe: false });
        }
        Some(ConnectionSlot { _permit: slot(&self.probes)?, _address: share.flatten(), for_probe: true })
    }
}

impl ConnectionSlot {
    /// True if only a probe may have it.
    pub(crate) fn is_for_probe(&self) -> bool {
        self.for_probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_have_slots_that_no_other_connection_gets() {
        let slots = ConnectionSlots::new(100);
        let mut held: Vec<ConnectionSlot> = (0..68).map(|_| slots.take(None).unwrap()).collect();
        assert!(held.iter().all(|slot| !slot.is_for_probe()));
        held.extend((0..PROBES).map(|_| slots.take(None).unwrap()));
        assert_eq!(held.iter().filter(|slot| slot.is_for_probe()).count(), PROBES);
        assert!(slots.take(None).is_none());
        held.pop();
        assert!(slots.take(None).is_some_and(|slot| slot.is_for_probe()));
        held.clear();
        assert!(slots.take(None).is_some_and(|slot| !slot.is_for_probe()));
    }

    #[test]
    fn an_address_gets_a_quarter() {
        let slots = ConnectionSlots::new(100);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|address| Some(address.parse().unwrap()));
        let held: Vec<ConnectionSlot> = (0..17).map(|_| slots.take(one).unwrap()).collect();
        assert!(held.iter().all(|slot| !slot.is_for_probe()));
        assert!(slots.take(one).is_some_and(|slot| slot.is_for_probe()));
        assert!(slots.take(other).is_some_and(|slot| !slot.is_for_probe()));
        // all programs of this machine have one address
        let local = Some("127.0.0.1".parse().unwrap());
        let local: Vec<ConnectionSlot> = (0..40).map(|_| slots.take(local).unwrap()).collect();
        assert!(local.iter().all(|slot| !slot.is_for_probe()));
    }
}
