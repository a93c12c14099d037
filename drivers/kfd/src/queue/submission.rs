//! Submissions of a queue and the packets that they consist of.

/// One submission of a queue, counted from 1. Submissions complete in order.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Submission(pub u64);

/// A range of packets of one submission, with the caller's mark.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRange {
    /// The submission.
    pub submission: Submission,
    /// The caller's label.
    pub label: u32,
    /// Index of its first packet since the queue began.
    pub first: u64,
    /// Number of its packets.
    pub count: u64,
}
