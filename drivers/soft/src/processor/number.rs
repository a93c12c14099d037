//! Number handling that scalar, vector and atomic instructions share: comparisons, minima, conversions, bit counts.
//!
//! Not here: rounding (`float.rs`).

use core::cmp::Ordering;

use super::float::{is_signalling32, round32};
use super::mode::{Mode, Round};

/// True if an order is one that the comparison accepts; `None` is unordered.
pub(crate) type Accepts = fn(Option<Ordering>) -> bool;

/// Float comparisons in the order of their opcodes: f, lt, eq, le, gt, lg, ge, o, u, nge, nlg, ngt, nle, neq, nlt, t.
pub(crate) static ACCEPTS: [Accepts; 16] = [
    |_| false,
    |order| order == Some(Ordering::Less),
    |order| order == Some(Ordering::Equal),
    |order| matches!(order, Some(Ordering::Less | Ordering::Equal)),
    |order| order == Some(Ordering::Greater),
    |order| matches!(order, Some(Ordering::Less | Ordering::Greater)),
    |order| matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    |order| order.is_some(),
    |order| order.is_none(),
    |order| !matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    |order| !matches!(order, Some(Ordering::Less | Ordering::Greater)),
    |order| order != Some(Ordering::Greater),
    |order| !matches!(order, Some(Ordering::Less | Ordering::Equal)),
    |order| order != Some(Ordering::Equal),
    |order| order != Some(Ordering::Less),
    |_| true,
];

/// Properties of a float type that minima depend on.
pub(crate) trait Real: Copy + PartialOrd + PartialEq {
    /// NaN of any kind.
    fn nan(self) -> bool;
    /// Signalling NaN.
    fn signalling(self) -> bool;
    /// The quiet NaN with the same payload.
    fn quiet(self) -> Self;
    /// Sign bit.
    fn negative(self) -> bool;
}

impl Real for f32 {
    fn nan(self) -> bool {
        self.is_nan()
    }
    fn signalling(self) -> bool {
        is_signalling32(self)
    }
    fn quiet(self) -> Self {
        Self::from_bits(self.to_bits() | 0x40_0000)
    }
    fn negative(self) -> bool {
        self.is_sign_negative()
    }
}

impl Real for f64 {
    fn nan(self) -> bool {
        self.is_nan()
    }
    fn signalling(self) -> bool {
        self.is_nan() && self.to_bits() & (1 << 51) == 0
    }
    fn quiet(self) -> Self {
        Self::from_bits(self.to_bits() | 1 << 51)
    }
    fn negative(self) -> bool {
        self.is_sign_negative()
    }
}

/// True if `a` orders before `b`, minus zero before plus zero.
fn before<T: Real>(a: T, b: T) -> bool {
    a < b || (a == b && a.negative() && !b.negative())
}

/// gfx11 minimum or maximum.
pub(crate) fn legacy<T: Real>(a: T, b: T, max: bool, mode: Mode) -> T {
    if mode.ieee() && a.signalling() {
        a.quiet()
    } else if mode.ieee() && b.signalling() {
        b.quiet()
    } else if a.nan() {
        b
    } else if b.nan() || before(a, b) != max {
        a
    } else {
        b
    }
}

/// gfx12 minimumNumber or maximumNumber.
pub(crate) fn number<T: Real>(a: T, b: T, max: bool) -> T {
    match (a.nan(), b.nan()) {
        (true, true) => a.quiet(),
        (true, false) => b,
        (false, true) => a,
        _ if before(a, b) != max => a,
        _ => b,
    }
}

/// IEEE 754-2019 minimum or maximum: NaN wins.
pub(crate) fn propagating<T: Real>(a: T, b: T, max: bool) -> T {
    if a.signalling() {
        a.quiet()
    } else if b.signalling() {
        b.quiet()
    } else if a.nan() || (!b.nan() && before(a, b) != max) {
        a
    } else {
        b
    }
}

/// Truncation to i32, saturating; NaN gives 0.
pub(crate) fn to_i32(value: f32) -> u32 {
    (value as i32).cast_unsigned()
}

/// Truncation to u32, saturating; NaN gives 0.
pub(crate) fn to_u32(value: f32) -> u32 {
    value as u32
}

/// An integer to single in the MODE's direction; at most 32 bits, so f64 holds it exactly.
pub(crate) fn from_int(value: f64, round: Round) -> u32 {
    round32(value, round).to_bits()
}

/// Leading sign bits beyond the first; all equal gives -1.
pub(crate) fn cls(value: u32) -> u32 {
    let folded = if value.cast_signed() < 0 { !value } else { value };
    if folded == 0 { u32::MAX } else { folded.leading_zeros() }
}

/// Leading zeros, -1 for zero.
pub(crate) fn clz(value: u32) -> u32 {
    if value == 0 { u32::MAX } else { value.leading_zeros() }
}

/// Trailing zeros, -1 for zero.
pub(crate) fn ctz(value: u32) -> u32 {
    if value == 0 { u32::MAX } else { value.trailing_zeros() }
}
