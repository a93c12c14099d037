//! Weights of types that no kernel reads: which, into what, and the bytes on their way to the device.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use doorbell_core::model::{Model, Weight};
use doorbell_core::plan::{Op, WeightId};
use doorbell_core::quant::{self, Activation, Type};
use doorbell_kernels::isa::Target;
use doorbell_kernels::supports;
use doorbell_kfd::memory::{Bytes, Source};
use doorbell_kfd::sys::{Errno, Kernel, Window};
use half::f16;

use crate::operands::each_weight;

/// A weight that the device keeps in another type than the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Which.
    pub weight: WeightId,
    /// In the file.
    pub from: Type,
    /// On the device.
    pub to: Type,
}

/// All conversions of a load, for one printed line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversions {
    /// In the order of the weights.
    pub list: Vec<Conversion>,
    /// Bytes in the file.
    pub before: u64,
    /// Bytes on the device.
    pub after: u64,
}

impl fmt::Display for Conversions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.list.first() else { return f.write_str("no weights were converted") };
        write!(f, "{} weights were converted for the GPU, the first from ", self.list.len())?;
        write!(f, "{} to {}", first.from.name(), first.to.name())?;
        write!(f, ": {} MiB became {} MiB", self.before >> 20, self.after >> 20)
    }
}

/// Types that a weight may be converted to, the smallest first.
const TARGETS: [Type; 3] = [Type::Q8_0, Type::F16, Type::F32];

/// Changes the types in `model`, a copy, until every operation has kernels or no conversion helps.
///
/// An operation's weights are converted only if no operation at all has kernels for their type.
pub(crate) fn choose(model: &mut Model<'_>, ops: &[Op], target: Target) -> Conversions {
    let mut supported = Vec::new();
    for op in ops.iter().filter(|op| supports(op, model, target)) {
        each_weight(op, |id| supported.push(model.weight(id).ty));
    }
    let mut result = Conversions::default();
    for op in ops {
        if supports(op, model, target) {
            continue;
        }
        let mut strangers: Vec<(WeightId, Type)> = Vec::new();
        each_weight(op, |id| {
            let kind = model.weight(id).ty;
            if !supported.contains(&kind) && strangers.iter().all(|stranger| stranger.0 != id) {
                strangers.push((id, kind));
            }
        });
        let helped = TARGETS.into_iter().any(|to| {
            for &(id, _) in &strangers {
                let weight = &mut model.weights[id.index()];
                if to.row_bytes(weight.cols).is_some() {
                    weight.ty = to;
                }
            }
            supports(op, model, target)
        });
        for (weight, from) in strangers {
            if helped {
                let to = model.weight(weight).ty;
                result.list.push(Conversion { weight, from, to });
            } else {
                model.weights[weight.index()].ty = from;
            }
        }
    }
    result.sum(model);
    result
}

impl Conversions {
    /// Drops the conversions of weights that the device does not get.
    pub(crate) fn keep(&mut self, loaded: &[bool], kept: &Model<'_>) {
        self.list.retain(|conversion| loaded[conversion.weight.index()]);
        self.sum(kept);
    }

    fn sum(&mut self, kept: &Model<'_>) {
        let bytes = |weight: &Weight<'_>| weight.bytes();
        let weight = |conversion: &Conversion| *kept.weight(conversion.weight);
        self.after = self.list.iter().map(|conversion| bytes(&weight(conversion))).sum();
        let before = |conversion: &Conversion| Weight { ty: conversion.from, ..weight(conversion) };
        self.before = self.list.iter().map(|conversion| bytes(&before(conversion))).sum();
    }
}

/// A weight's bytes in the type that the device keeps.
pub(crate) enum Stored<'w> {
    /// As in the file.
    Same(Bytes<'w>),
    /// Converted row by row.
    Converted(Converted<'w>),
}

/// A weight that is converted as it is read.
pub(crate) struct Converted<'w> {
    weight: &'w Weight<'w>,
    to: Type,
    values: Vec<f32>,
    /// The last row that was converted, and its bytes.
    row: (Option<usize>, Vec<u8>),
}

impl<'w> Stored<'w> {
    /// `weight` of the file, to be kept as `to`.
    pub(crate) fn new(weight: &'w Weight<'w>, to: Type) -> Self {
        if weight.ty == to {
            return Self::Same(Bytes(weight.data));
        }
        let bytes = to.row_bytes(weight.cols).unwrap_or(0);
        let (values, row) = (alloc::vec![0.0; weight.cols], (None, alloc::vec![0; bytes]));
        Self::Converted(Converted { weight, to, values, row })
    }
}

impl Converted<'_> {
    /// The bytes of a row.
    fn row(&mut self, index: usize) -> &[u8] {
        if self.row.0 != Some(index) {
            let bytes = self.weight.row_bytes();
            // The binder has checked type and lengths, so that neither call can fail.
            let from = &self.weight.data[index * bytes..(index + 1) * bytes];
            let _ = quant::dequantize(self.weight.ty, from, &mut self.values);
            write_row(self.to, &self.values, &mut self.row.1);
            self.row.0 = Some(index);
        }
        &self.row.1
    }
}

/// One row in one of [`TARGETS`].
fn write_row(to: Type, values: &[f32], out: &mut [u8]) {
    match to {
        Type::F16 => {
            for (cell, &value) in out.as_chunks_mut().0.iter_mut().zip(values) {
                *cell = f16::from_f32(value).to_le_bytes();
            }
        }
        Type::Q8_0 => {
            let _ = Activation::Q8_0.quantize(values, out);
        }
        _ => {
            for (cell, &value) in out.as_chunks_mut().0.iter_mut().zip(values) {
                *cell = value.to_le_bytes();
            }
        }
    }
}

impl Source for Stored<'_> {
    fn read(
        &mut self,
        kernel: &dyn Kernel,
        position: u64,
        window: &Window,
        range: Range<usize>,
    ) -> Result<usize, Errno> {
        let converted = match self {
            Self::Same(bytes) => return bytes.read(kernel, position, window, range),
            Self::Converted(converted) => converted,
        };
        let position = usize::try_from(position).map_err(|_| Errno::EINVAL)?;
        let (bytes, rows) = (converted.row.1.len(), converted.weight.rows * converted.weight.stack);
        let (mut done, wanted) = (0, range.len());
        while done < wanted {
            let (row, within) = ((position + done) / bytes, (position + done) % bytes);
            if row >= rows {
                break;
            }
            let count = (wanted - done).min(bytes - within);
            window.write(range.start + done, &converted.row(row)[within..within + count]);
            done += count;
        }
        Ok(done)
    }
}
