//! Known answers: each kernel that a plan needs once, on made-up activations, against the host's definition.
//!
//! A kernel whose answer differs is not used: its operations run on the host. What was found is told, never hidden.
//! Weights are the model's own, so the shapes are those that will run.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use doorbell_core::plan::{Element, Epilogue, Head, HeadResult, Op, Plan, TensorId};

/// A kernel, or several of one operation, that computed something else than the host.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongKernel {
    /// The operation.
    pub op: &'static str,
    /// Its kernels.
    pub kernels: Vec<String>,
    /// Mean square of the difference relative to what was expected.
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

/// What earlier runs have found about kernels on this device.
pub trait KernelCheckCache {
    /// How far the kernels with this key were off; `None` if they were never checked. The key is made of their code.
    fn get(&self, key: u64) -> Option<f64>;

    /// Notes how far they were off.
    fn insert(&mut self, key: u64, error: f64);
}

/// Nothing is known, and nothing kept.
impl KernelCheckCache for () {
    fn get(&self, _: u64) -> Option<f64> {
        None
    }

    fn insert(&mut self, _: u64, _: f64) {}
}

/// A key of some bytes behind another one (FNV-1a of 64 bits).
pub(crate) fn key(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |key, &byte| (key ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The key of nothing.
pub(crate) const NO_KEY: u64 = 0xcbf2_9ce4_8422_2325;

/// More than activations of eight bits explain.
pub(crate) const TOLERANCE: f64 = 1e-3;

/// A fixed sequence of numbers from -1 to 1 without pattern.
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

    /// A tensor's cells: numbers, or indexes below `limit` that differ within a row.
    pub(crate) fn fill(&mut self, plan: &Plan<'_>, id: TensorId, rows: usize, limit: u32) -> Vec<u32> {
        let tensor = plan.tensor(id);
        let cells = 0..rows * tensor.width as usize;
        match tensor.element {
            Element::F32 => cells.map(|_| self.next().to_bits()).collect(),
            Element::U32 => cells.map(|cell| cell as u32 % limit.max(1)).collect(),
        }
    }
}

/// Tensors that an operation writes.
pub(crate) fn outputs(op: &Op) -> Vec<TensorId> {
    match op {
        Op::Embed { out, .. } | Op::Select { out, .. } => alloc::vec![*out],
        Op::Project(project) => {
            let parts = project.parts.iter().filter_map(|part| match part.epilogue {
                Epilogue::Store { out } | Epilogue::Gate { out, .. } | Epilogue::Query { out, .. } => {
                    Some(out)
                }
                Epilogue::Add { to } | Epilogue::AddGated { to, .. } => Some(to),
                Epilogue::Key { .. } | Epilogue::Value { .. } => None,
            });
            parts.collect()
        }
        Op::Attend(attend) => alloc::vec![attend.out],
        Op::Route(route) => alloc::vec![route.ids, route.weights],
        Op::Experts(experts) => alloc::vec![experts.to],
        Op::NormAdd { to, .. } => alloc::vec![*to],
        Op::Head(_) => Vec::new(),
    }
}

/// Mean square of the difference relative to what was expected; indexes that differ count as wholly wrong.
pub(crate) fn difference(element: Element, found: &[u32], expected: &[u32]) -> f64 {
    if element == Element::U32 {
        return if found == expected { 0.0 } else { 1.0 };
    }
    let pairs =
        || found.iter().zip(expected).map(|(&a, &b)| [a, b].map(|bits| f64::from(f32::from_bits(bits))));
    let square = |x: f64| x * x;
    let error: f64 = pairs().map(|[a, b]| square(a - b)).sum();
    let size: f64 = pairs().map(|[_, b]| square(b)).sum();
    // Not a number is wrong, too; all zeros are right.
    match (error == 0.0, error / size) {
        (true, _) => 0.0,
        (_, ratio) if ratio.is_finite() => ratio,
        _ => f64::INFINITY,
    }
}

/// 4-byte words of a step's result that the head writes for so many rows.
pub(crate) fn result_words(op: &Op, plan: &Plan<'_>, rows: usize) -> usize {
    let Op::Head(head) = op else { return 0 };
    let width = match head.result {
        HeadResult::Logits => head.matrix.rows,
        HeadResult::ArgMax => 1,
        HeadResult::Hidden => plan.tensor(head.input).width,
    };
    rows * width as usize
}

/// Whether an operation picks tokens.
pub(crate) fn picks(op: &Op) -> bool {
    matches!(op, Op::Head(head) if head.result == HeadResult::ArgMax)
}

/// The operation that tells how good the answers of another one are: itself, or the logits of what picks tokens, since
/// either of two that are nearly as large may be picked.
pub(crate) fn weighed(op: &Op) -> Op {
    match op {
        Op::Head(head) if picks(op) => Op::Head(Head { result: HeadResult::Logits, ..*head }),
        _ => op.clone(),
    }
}

/// Mean square of what the logits of picked tokens are below the largest of their rows, relative to those; infinite for a
/// token that there is not.
pub(crate) fn missed(picked: &[u32], logits: &[f32]) -> f64 {
    let width = logits.len().checked_div(picked.len()).unwrap_or(0).max(1);
    let (mut error, mut size) = (0.0, 0.0);
    for (&token, row) in picked.iter().zip(logits.chunks_exact(width)) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let Some(&found) = row.get(token as usize) else { return f64::INFINITY };
        let [found, largest] = [found, largest].map(f64::from);
        error += (largest - found) * (largest - found);
        size += largest * largest;
    }
    match (error == 0.0, error / size) {
        (true, _) => 0.0,
        (_, ratio) if ratio.is_finite() => ratio,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_tokens_are_judged_by_their_logits() {
        let logits = [1.0, 4.0, 3.0, -2.0, -1.0, -8.0];
        assert_eq!(missed(&[1, 1], &logits), 0.0);
        assert_eq!(missed(&[2, 1], &logits), 1.0 / 17.0);
        assert_eq!(missed(&[1, 3], &logits), f64::INFINITY);
        assert_eq!(missed(&[1, 0], &logits), 1.0 / 17.0);
        assert_eq!(missed(&[0], &[0.0, f32::NAN]), 0.0);
        assert_eq!(missed(&[1], &[0.0, f32::NAN]), f64::INFINITY);
    }
}
