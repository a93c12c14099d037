//! Clients, as far as they can be told apart, and their shares of the engine's queue.
//!
//! A key is a client if the server has keys; otherwise an address is one. All programs of this machine come from one
//! address: there each connection is a client.

use crate::error::{Failure, FailureKind};
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A client, as far as clients are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientId {
    /// Index of the key that it sent.
    Key(usize),
    /// Its address.
    Address(IpAddr),
    /// One connection of this machine.
    Connection(SocketAddr),
    /// Its connection has no address any more.
    Unknown,
}

impl ClientId {
    /// The client at the other end of a connection, who sent the key of this index, if the server has keys.
    pub(crate) fn new(key: Option<usize>, peer: Option<SocketAddr>) -> Self {
        match (key, peer) {
            (Some(key), _) => Self::Key(key),
            (None, Some(peer)) if peer.ip().to_canonical().is_loopback() => Self::Connection(peer),
            (None, Some(peer)) => Self::Address(network(peer.ip())),
            (None, None) => Self::Unknown,
        }
    }
}

/// The address that stands for a client. One host may have a whole IPv6 network of 64 bits.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

/// Counts of something that each client has, with a limit for each.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    limit: u32,
    counts: Mutex<HashMap<K, u32>>,
}

/// A part of a client's share; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share<K: core::hash::Hash + Eq> {
    of: Arc<Shares<K>>,
    client: K,
    count: u32,
}

impl<K: core::hash::Hash + Eq + Copy> Shares<K> {
    pub(crate) fn new(limit: u32) -> Arc<Self> {
        Arc::new(Self { limit, counts: Mutex::default() })
    }

    /// The limit for each client.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes a part of a client's share; `None` if the rest is smaller.
    pub(crate) fn take(self: &Arc<Self>, client: K, count: u32) -> Option<Share<K>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = counts.get(&client).copied().unwrap_or(0);
        let sum = taken.checked_add(count).filter(|&sum| sum <= self.limit)?;
        counts.insert(client, sum);
        Some(Share { of: Arc::clone(self), client, count })
    }
}

impl<K: core::hash::Hash + Eq> Drop for Share<K> {
    fn drop(&mut self) {
        let mut counts = self.of.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.client) {
            *count = count.saturating_sub(self.count);
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

/// The refusal of a client that has used up its share of the queue.
pub(crate) fn no_share(limit: u32) -> Failure {
    let message = format_args!("one client may have {limit} answers at once; try again when one has ended");
    Failure::new(FailureKind::Busy, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_a_key_an_address_or_a_connection() {
        let at = |text: &str| ClientId::new(None, Some(text.parse().unwrap()));
        assert_eq!(at("192.0.2.1:5"), at("192.0.2.1:6"));
        assert_eq!(at("192.0.2.1:5"), at("[::ffff:192.0.2.1]:6"));
        assert_ne!(at("192.0.2.1:5"), at("192.0.2.2:5"));
        assert_eq!(at("[2001:db8::1]:5"), at("[2001:db8::2:0:0:1]:6"));
        assert_ne!(at("[2001:db8::1]:5"), at("[2001:db8:0:1::1]:5"));
        assert_ne!(at("127.0.0.1:5"), at("127.0.0.1:6"));
        assert_ne!(at("[::1]:5"), at("[::1]:6"));
        let peer = Some("192.0.2.1:5".parse().unwrap());
        assert_eq!(ClientId::new(Some(1), peer), ClientId::new(Some(1), None));
    }

    #[test]
    fn shares_are_limited_and_given_back() {
        let shares = Shares::new(4);
        let first = shares.take(1, 3).unwrap();
        assert!(shares.take(1, 2).is_none());
        let _second = shares.take(1, 1).unwrap();
        assert!(shares.take(1, 1).is_none());
        assert!(shares.take(2, 4).is_some());
        drop(first);
        assert!(shares.take(1, 3).is_some());
        assert!(shares.take(1, u32::MAX).is_none());
        assert!(shares.counts.lock().unwrap().len() <= 1);
    }
}
