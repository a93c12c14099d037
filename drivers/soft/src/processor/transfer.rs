//! The transfer of a memory instruction: the bytes that one lane moves, by the name of the instruction.
//!
//! Not here: addresses.

use doorbell_isa::{Format, Row};

use super::atomic::{ATOMICS, Alu};

/// One lane's part in a memory instruction.
#[derive(Clone, Copy)]
pub(crate) enum Transfer {
    /// Dwords to consecutive registers.
    Load(u8),
    /// A byte or halfword, extended to a dword.
    LoadSmall {
        /// Bytes: 1 or 2.
        bytes: u8,
        /// Sign-extended.
        signed: bool,
    },
    /// A byte or halfword, extended to 16 bits, into one half of a register.
    LoadHalf {
        /// Bytes: 1 or 2.
        bytes: u8,
        /// Sign-extended.
        signed: bool,
        /// Into the high half.
        high: bool,
    },
    /// Dwords from consecutive registers.
    Store(u8),
    /// A byte or halfword of a register.
    StoreSmall {
        /// Bytes: 1 or 2.
        bytes: u8,
        /// From the high half.
        high: bool,
    },
    /// Read, compute, write back.
    Atomic {
        /// Bytes: 4 or 8.
        bytes: u8,
        /// New value.
        alu: Alu,
    },
    /// Two loads of this many dwords each.
    LoadPair(u8),
    /// Two stores of this many dwords each.
    StorePair(u8),
    /// Two exchanges of this many dwords each.
    ExchangePair(u8),
    /// Load with a transpose of 8 by 8 elements of this many bits among every eight lanes.
    LoadTransposed(u8),
}

impl Transfer {
    /// Bytes that one lane touches at one address.
    pub(crate) fn bytes(self) -> usize {
        usize::from(match self {
            Self::Load(words) | Self::Store(words) => words * 4,
            Self::LoadPair(words) | Self::StorePair(words) | Self::ExchangePair(words) => words * 4,
            Self::LoadSmall { bytes, .. } | Self::LoadHalf { bytes, .. } | Self::StoreSmall { bytes, .. } => {
                bytes
            }
            Self::Atomic { bytes, .. } => bytes,
            Self::LoadTransposed(bits) => bits,
        })
    }

    /// True if memory is written.
    pub(crate) fn writes(self) -> bool {
        matches!(
            self,
            Self::Store(_)
                | Self::StoreSmall { .. }
                | Self::Atomic { .. }
                | Self::StorePair(_)
                | Self::ExchangePair(_)
        )
    }

    /// True if memory is read.
    pub(crate) fn reads(self) -> bool {
        !matches!(self, Self::Store(_) | Self::StoreSmall { .. } | Self::StorePair(_))
    }
}

/// Loads and stores by name without prefix.
static PLAIN: &[(&str, Transfer)] = &[
    ("load_b32", Transfer::Load(1)),
    ("load_b64", Transfer::Load(2)),
    ("load_b96", Transfer::Load(3)),
    ("load_b128", Transfer::Load(4)),
    ("load_b256", Transfer::Load(8)),
    ("load_b512", Transfer::Load(16)),
    ("load_u8", Transfer::LoadSmall { bytes: 1, signed: false }),
    ("load_i8", Transfer::LoadSmall { bytes: 1, signed: true }),
    ("load_u16", Transfer::LoadSmall { bytes: 2, signed: false }),
    ("load_i16", Transfer::LoadSmall { bytes: 2, signed: true }),
    ("load_d16_u8", Transfer::LoadHalf { bytes: 1, signed: false, high: false }),
    ("load_d16_i8", Transfer::LoadHalf { bytes: 1, signed: true, high: false }),
    ("load_d16_b16", Transfer::LoadHalf { bytes: 2, signed: false, high: false }),
    ("load_d16_hi_u8", Transfer::LoadHalf { bytes: 1, signed: false, high: true }),
    ("load_d16_hi_i8", Transfer::LoadHalf { bytes: 1, signed: true, high: true }),
    ("load_d16_hi_b16", Transfer::LoadHalf { bytes: 2, signed: false, high: true }),
    ("load_u8_d16", Transfer::LoadHalf { bytes: 1, signed: false, high: false }),
    ("load_i8_d16", Transfer::LoadHalf { bytes: 1, signed: true, high: false }),
    ("load_u16_d16", Transfer::LoadHalf { bytes: 2, signed: false, high: false }),
    ("load_u8_d16_hi", Transfer::LoadHalf { bytes: 1, signed: false, high: true }),
    ("load_i8_d16_hi", Transfer::LoadHalf { bytes: 1, signed: true, high: true }),
    ("load_u16_d16_hi", Transfer::LoadHalf { bytes: 2, signed: false, high: true }),
    ("load_tr_b64", Transfer::LoadTransposed(8)),
    ("load_tr_b128", Transfer::LoadTransposed(16)),
    ("load_2addr_b32", Transfer::LoadPair(1)),
    ("load_2addr_b64", Transfer::LoadPair(2)),
    ("load_2addr_stride64_b32", Transfer::LoadPair(1)),
    ("load_2addr_stride64_b64", Transfer::LoadPair(2)),
    ("store_b8", Transfer::StoreSmall { bytes: 1, high: false }),
    ("store_b16", Transfer::StoreSmall { bytes: 2, high: false }),
    ("store_d16_hi_b8", Transfer::StoreSmall { bytes: 1, high: true }),
    ("store_d16_hi_b16", Transfer::StoreSmall { bytes: 2, high: true }),
    ("store_b8_d16_hi", Transfer::StoreSmall { bytes: 1, high: true }),
    ("store_b16_d16_hi", Transfer::StoreSmall { bytes: 2, high: true }),
    ("store_b32", Transfer::Store(1)),
    ("store_b64", Transfer::Store(2)),
    ("store_b96", Transfer::Store(3)),
    ("store_b128", Transfer::Store(4)),
    ("store_2addr_b32", Transfer::StorePair(1)),
    ("store_2addr_b64", Transfer::StorePair(2)),
    ("store_2addr_stride64_b32", Transfer::StorePair(1)),
    ("store_2addr_stride64_b64", Transfer::StorePair(2)),
    ("storexchg_2addr_rtn_b32", Transfer::ExchangePair(1)),
    ("storexchg_2addr_rtn_b64", Transfer::ExchangePair(2)),
    ("storexchg_2addr_stride64_rtn_b32", Transfer::ExchangePair(1)),
    ("storexchg_2addr_stride64_rtn_b64", Transfer::ExchangePair(2)),
];

/// The transfer of a row.
pub(crate) fn transfer_of(row: &Row) -> Option<Transfer> {
    let prefix = match row.format {
        Format::Ds => "ds_",
        Format::Global => "global_",
        Format::Flat => "flat_",
        Format::Scratch => "scratch_",
        Format::Mubuf => "buffer_",
        Format::Smem => {
            let name = row.name.strip_prefix("s_buffer_").or_else(|| row.name.strip_prefix("s_"))?;
            return plain(name);
        }
        _ => return None,
    };
    let name = row.name.strip_prefix(prefix)?;
    let name = name.strip_prefix("atomic_").unwrap_or(name);
    plain(name).or_else(|| atomic(name))
}

fn plain(name: &str) -> Option<Transfer> {
    PLAIN.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// Atomics; the LDS names carry `_rtn` in the middle.
fn atomic(name: &str) -> Option<Transfer> {
    let matches = |known: &str| match name.split_once("_rtn") {
        Some((head, tail)) => known.strip_prefix(head) == Some(tail),
        None => known == name,
    };
    let (_, bytes, alu) = ATOMICS.iter().find(|entry| matches(entry.0))?;
    Some(Transfer::Atomic { bytes: *bytes, alu: *alu })
}
