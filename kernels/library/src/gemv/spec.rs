//! Projections: norm, several matrices over the same rows, and the epilogues of their products, in one dispatch.
//!
//! Here are the parts of such a kernel and its arguments; `kernel` has its code. Not here: head norms, rotation and the
//! KV cache (`rope`), which read what is stored here.

use super::activations::{Forms, WAVES};
use crate::formats::spec::FormatSpec;
use crate::glu::GluSpec;
use crate::moe::route::Routing;
use crate::rope::spec::{HeadArguments, HeadPart};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Value};
use doorbell_core::model::Model;
use doorbell_core::plan::Matrix;
use doorbell_core::quant::Type;

/// One matrix of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatrixSpec {
    /// Type of the weights.
    pub ty: Type,
    /// True if products have a factor.
    pub scale: bool,
    /// True if a bias is added to them.
    pub bias: bool,
}

/// The store of a part's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OutputMode {
    /// `out = y`
    Store,
    /// `out += y`
    Add,
    /// `out += sigmoid(gate) * y`
    AddGated,
    /// `out = glu(y, by)`
    GateBy {
        /// The non-linearity.
        glu: GluSpec,
        /// Elements of a row of `by`.
        stride: u32,
    },
    /// Heads go to `out`, the output gate that follows each of them to another tensor.
    Split {
        /// Elements of a head.
        dim: u32,
    },
    /// `out = cap(scale * y)`; bits of the floats, a cap of 0 is none.
    Cap {
        /// Factor.
        scale: u32,
        /// `c * tanh(y / c)`
        cap: u32,
    },
}

impl OutputMode {
    /// True if there is a second tensor: a gate `[rows, 1]`, factors `by`, or the gates of heads.
    pub(crate) fn has_second(self) -> bool {
        matches!(self, Self::AddGated | Self::GateBy { .. } | Self::Split { .. })
    }

    /// The part of kernels' names for it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Store => String::new(),
            Self::Add => String::from("_add"),
            Self::AddGated => String::from("_gated"),
            Self::GateBy { glu, stride } => format!("_{}_by{stride}", glu.name()),
            Self::Split { dim } => format!("_split{dim}"),
            Self::Cap { scale, cap } => format!("_cap{scale:x}_{cap:x}"),
        }
    }
}

/// One part of a projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartSpec {
    /// Output rows.
    pub rows: u32,
    /// The matrix.
    pub matrix: MatrixSpec,
    /// The second matrix of a gated part.
    pub up: Option<(MatrixSpec, GluSpec)>,
    /// The store of the result.
    pub output: OutputMode,
    /// Work on whole heads afterwards, by the workgroup that completes a head; at most 8 rows then.
    pub head: Option<HeadPart>,
}

/// A projection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Projection {
    /// Elements of an input row.
    pub cols: u32,
    /// Rows of the batch per workgroup: a power of two up to 8.
    pub batch: u32,
    /// Output rows per wave.
    pub outputs: u32,
    /// True if rows are normalized.
    pub norm: bool,
    /// The parts.
    pub parts: Vec<PartSpec>,
    /// Expert choice from the only part, by the last workgroup; at most 8 rows then.
    pub then: Option<Routing>,
}

/// Arguments of one matrix.
pub(crate) struct MatrixArguments {
    pub(crate) base: Value,
    pub(crate) scale: Option<Value>,
    pub(crate) bias: Option<Value>,
}

/// Arguments of one part.
pub(crate) struct PartArguments {
    pub(crate) matrix: MatrixArguments,
    pub(crate) up: Option<MatrixArguments>,
    pub(crate) out: Value,
    /// The second tensor of an output that has one.
    pub(crate) second: Option<Value>,
    pub(crate) head: Option<HeadArguments>,
}

impl MatrixSpec {
    /// The spec of a matrix.
    pub(crate) fn new(model: &Model<'_>, matrix: &Matrix) -> Self {
        let ty = model.weight(matrix.weight).ty;
        Self { ty, scale: matrix.scale.is_some(), bias: matrix.bias.is_some() }
    }

    pub(crate) fn name(self) -> String {
        format!("{}{}{}", self.ty, if self.scale { "s" } else { "" }, if self.bias { "b" } else { "" })
    }

    pub(crate) fn arguments(self, k: &mut Builder, name: &str) -> MatrixArguments {
        let base = k.buffer(name);
        let scale = self.scale.then(|| k.buffer(&format!("{name}_scale")));
        let bias = self.bias.then(|| k.buffer(&format!("{name}_bias")));
        MatrixArguments { base, scale, bias }
    }
}

/// The forms of activations that matrices need.
pub(crate) fn forms(matrices: &[MatrixSpec]) -> Forms {
    let any = |coded| matrices.iter().any(|matrix| FormatSpec::of(matrix.ty).is_coded() == coded);
    Forms { coded: any(true), plain: any(false) }
}

impl PartSpec {
    /// The matrices: one, or two of a gated part.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = MatrixSpec> {
        core::iter::once(self.matrix).chain(self.up.map(|(up, _)| up))
    }

    pub(crate) fn arguments(&self, k: &mut Builder) -> PartArguments {
        let matrix = self.matrix.arguments(k, "weight");
        let up = self.up.map(|(up, _)| up.arguments(k, "up"));
        let out = k.buffer("out");
        let second = self.output.has_second().then(|| k.buffer("second"));
        let head = self.head.map(|head| head.arguments(k, WAVES));
        PartArguments { matrix, up, out, second, head }
    }
}

impl Projection {
    /// Workgroups of a part.
    pub(crate) fn groups(&self, part: &PartSpec) -> u32 {
        part.rows.div_ceil(WAVES * self.outputs)
    }
}
