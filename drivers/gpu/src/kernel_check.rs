//! Kernels checked against known answers: how answers are compared, and what such a check reports and remembers.
//!
//! Each kernel of a plan runs once on made-up activations, and the reference interpreter beside it. A kernel whose
//! result differs is not used: its operations run on the CPU, and the user is told. Weights are the model's own, so the
//! shapes are those that will run. Not here: running the kernels (`backend/kernel_check`, `backend/pm4_check`).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use doorbell_core::plan::{Element, Head, HeadResult, Op, Plan, TensorId};
use doorbell_kfd::fault::Fault;

use crate::operands::chooses_tokens;

/// The kernels of one operation, whose result differed from the reference.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WrongKernel {
    /// The operation.
    pub op: &'static str,
    /// Its kernels.
    pub kernels: Vec<String>,
    /// Mean square of the difference relative to the expected result.
    pub error: f64,
}

impl fmt::Display for WrongKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs on the CPU: ", self.op)?;
        for (index, kernel) in self.kernels.iter().enumerate() {
            write!(f, "{}{kernel}", if index > 0 { ", " } else { "" })?;
        }
        write!(f, " computed something else (error {:.1e})", self.error)
    }
}

/// Why steps are AQL packets although PM4 lists were wanted.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Pm4CheckFailure {
    /// The result of a list differs from that of packets.
    Differs,
    /// The device failed with a list.
    Failed(Box<Fault>),
    /// An earlier run found one of these.
    Known,
}

impl fmt::Display for Pm4CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dispatches are submitted as AQL packets, which take longer: ")?;
        match self {
            Self::Differs => f.write_str("a PM4 list computed something else"),
            Self::Failed(fault) => write!(f, "a PM4 list failed: {fault}"),
            Self::Known => f.write_str("PM4 lists have failed on this device before"),
        }
    }
}

/// Results of checks by earlier runs on this device.
pub trait KernelCheckCache {
    /// Error of the kernels with this key, which is made of their code; `None` if they were never checked.
    fn get(&self, key: u64) -> Option<f64>;

    /// Stores the error of kernels.
    fn insert(&mut self, key: u64, error: f64);
}

/// Remembers nothing.
impl KernelCheckCache for () {
    fn get(&self, _: u64) -> Option<f64> {
        None
    }

    fn insert(&mut self, _: u64, _: f64) {}
}

/// Continues a key with more bytes (FNV-1a of 64 bits).
pub(crate) fn key(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |key, &byte| (key ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The key of no bytes.
pub(crate) const NO_KEY: u64 = 0xcbf2_9ce4_8422_2325;

/// Largest error of a right kernel: more than 8-bit activations explain.
pub(crate) const TOLERANCE: f64 = 1e-3;

/// A fixed pseudo-random sequence of numbers from -1 to 1.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Fills floats with numbers.
    pub(crate) fn numbers(&mut self, floats: &mut [f32]) {
        floats.iter_mut().for_each(|float| *float = self.next());
    }

    /// Cells for a tensor: numbers, or indexes below `limit` that differ within a row.
    pub(crate) fn fill(&mut self, plan: &Plan<'_>, id: TensorId, rows: usize, limit: u32) -> Vec<u32> {
        let tensor = plan.tensor(id);
        let cells = 0..rows * tensor.width as usize;
        match tensor.element {
            Element::F32 => cells.map(|_| self.next().to_bits()).collect(),
            Element::U32 => cells.map(|cell| cell as u32 % limit.max(1)).collect(),
        }
    }
}

/// Mean square of the difference relative to the expected values; 1 for indexes that differ.
pub(crate) fn difference(element: Element, found: &[u32], expected: &[u32]) -> f64 {
    if element == Element::U32 {
        return if found == expected { 0.0 } else { 1.0 };
    }
    let pairs =
        || found.iter().zip(expected).map(|(&a, &b)| [a, b].map(|bits| f64::from(f32::from_bits(bits))));
    let square = |x: f64| x * x;
    let error: f64 = pairs().map(|[a, b]| square(a - b)).sum();
    let size: f64 = pairs().map(|[_, b]| square(b)).sum();
    relative(error, size)
}

/// A ratio of sums of squares. NaN counts as infinite; no error at all is 0 even if all values are zero.
fn relative(error: f64, size: f64) -> f64 {
    match (error == 0.0, error / size) {
        (true, _) => 0.0,
        (_, ratio) if ratio.is_finite() => ratio,
        _ => f64::INFINITY,
    }
}

/// The operation whose result on the reference judges another one: itself, or for one that chooses tokens its logits,
/// since either of two nearly equal logits may be chosen.
pub(crate) fn judging_op(op: &Op) -> Op {
    match op {
        Op::Head(head) if chooses_tokens(op) => Op::Head(Head { result: HeadResult::Logits, ..*head }),
        _ => op.clone(),
    }
}

/// Mean square of the distance of chosen tokens' logits from the largest of their rows, relative to the largest;
/// infinite for a token outside the vocabulary.
pub(crate) fn token_error(tokens: &[u32], logits: &[f32]) -> f64 {
    let width = logits.len().checked_div(tokens.len()).unwrap_or(0).max(1);
    let (mut error, mut size) = (0.0, 0.0);
    for (&token, row) in tokens.iter().zip(logits.chunks_exact(width)) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let Some(&found) = row.get(token as usize) else { return f64::INFINITY };
        let [found, largest] = [found, largest].map(f64::from);
        error += (largest - found) * (largest - found);
        size += largest * largest;
    }
    relative(error, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_tokens_are_judged_by_their_logits() {
        let logits = [1.0, 4.0, 3.0, -2.0, -1.0, -8.0];
        assert_eq!(token_error(&[1, 1], &logits), 0.0);
        assert_eq!(token_error(&[2, 1], &logits), 1.0 / 17.0);
        assert_eq!(token_error(&[1, 3], &logits), f64::INFINITY);
        assert_eq!(token_error(&[1, 0], &logits), 1.0 / 17.0);
        assert_eq!(token_error(&[0], &[0.0, f32::NAN]), 0.0);
        assert_eq!(token_error(&[1], &[0.0, f32::NAN]), f64::INFINITY);
    }
}
