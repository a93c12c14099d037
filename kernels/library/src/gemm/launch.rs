//! Launches of projections on matrix kernels, and the conditions for them.

use crate::gemm::activations_f16::ActivationsF16;
use crate::gemm::activations_i8::ActivationsI8;
use crate::gemm::kernel::{Gemm, TILE_ROWS};
use crate::gemm::path::{MatrixPath, PathChoice};
use crate::gemv::launch::{PartLaunch, matrix_values};
use crate::gemv::spec::{MatrixSpec, OutputMode};
use crate::kernel_spec::KernelSpec;
use crate::launch::{Cost, Launch};
use crate::step::Step;
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::plan::Norm;
use doorbell_core::quant::Type;

/// Rows that fill half of a tile's waves; fewer are not worth its padding.
pub(crate) const LEAST_ROWS: u32 = 32;

/// Bytes of activations for `rows` rows of `cols`, of either path.
pub(crate) fn scratch_bytes(rows: u32, cols: u32) -> u64 {
    if rows < LEAST_ROWS {
        return 0;
    }
    let row = ActivationsF16::row_bytes(cols).max(ActivationsI8::row_bytes(cols));
    u64::from(rows.next_multiple_of(TILE_ROWS)) * u64::from(row)
}

/// Rows to convert.
#[derive(Clone, Copy)]
pub(crate) struct Conversion {
    /// Address of the f32 rows.
    pub(crate) from: u64,
    /// Address of the activations.
    pub(crate) to: u64,
    pub(crate) rows: u32,
    pub(crate) cols: u32,
    pub(crate) norm: Option<Norm>,
}

/// The launch that converts f32 rows at `from` to activations at `to`.
pub(crate) fn activations(step: &Step<'_, '_>, path: MatrixPath, conversion: Conversion) -> Launch {
    let Conversion { from, to, rows, cols, norm } = conversion;
    let eps = norm.map(|norm| norm.eps.to_bits());
    let (spec, row) = match path {
        MatrixPath::F16 => (KernelSpec::from(ActivationsF16 { cols, norm: eps }), 2 * cols),
        MatrixPath::I8 => (ActivationsI8 { cols, norm: eps }.into(), ActivationsI8::row_bytes(cols)),
    };
    let mut arguments = alloc::vec![ArgumentValue::Buffer(from)];
    arguments.extend(norm.map(|norm| ArgumentValue::Buffer(step.vector(norm.weight))));
    arguments.push(ArgumentValue::Buffer(to));
    let rows_of = |bytes: u32| u64::from(rows) * u64::from(bytes);
    let cost = Cost { read: rows_of(4 * cols), written: rows_of(row), products: 0 };
    Launch { spec, groups: [rows, 1, 1], arguments, waits: true, cost }
}

/// The launches of parts over `rows` rows at `input`, with [`scratch_bytes`] at `scratch`; `None` if the kernels of
/// few rows are better.
pub(crate) fn project(
    step: &Step<'_, '_>,
    choice: PathChoice,
    [input, scratch]: [u64; 2],
    rows: u32,
    norm: Option<Norm>,
    parts: &[PartLaunch],
) -> Option<Vec<Launch>> {
    let cols = step.model.weight(parts.first()?.matrix.weight).cols as u32;
    let storable = |part: &PartLaunch| !matches!(part.output, OutputMode::Cap { .. });
    if rows < choice.least_rows() || !cols.is_multiple_of(32) || !parts.iter().all(storable) {
        return None;
    }
    let matrices = parts.iter().flat_map(|part| [Some(part.matrix), part.up.map(|(up, _)| up)]);
    let types: Vec<Type> = matrices.flatten().map(|matrix| step.model.weight(matrix.weight).ty).collect();
    let path = choice.path(&types);
    let first = activations(step, path, Conversion { from: input, to: scratch, rows, cols, norm });
    let read = first.cost.written;
    let products = parts.iter().enumerate().map(|(index, part)| {
        let spec = Gemm {
            path,
            matrix: MatrixSpec::new(step.model, &part.matrix),
            up: part.up.map(|(up, glu)| (MatrixSpec::new(step.model, &up), glu)),
            cols,
            outs: part.matrix.rows,
            output: part.output,
            blocks: Gemm::blocks(part.up.is_some(), rows),
        };
        let buffers = [scratch, part.out].map(ArgumentValue::Buffer);
        let mut arguments = buffers.to_vec();
        arguments.push(ArgumentValue::Scalar(rows));
        matrix_values(step, &part.matrix, &mut arguments);
        let mut cost = Cost { read, ..Cost::default() };
        for matrix in [Some(part.matrix), part.up.map(|(up, _)| up)].into_iter().flatten() {
            cost.read += step.model.weight(matrix.weight).row_bytes() as u64 * u64::from(matrix.rows);
            cost.products += u64::from(matrix.rows) * u64::from(cols) * u64::from(rows);
        }
        if let Some((up, _)) = &part.up {
            matrix_values(step, up, &mut arguments);
        }
        arguments.extend(part.second.map(ArgumentValue::Buffer));
        cost.written = 4 * u64::from(part.matrix.rows) * u64::from(rows);
        Launch { spec: spec.into(), groups: spec.groups(rows), arguments, waits: index == 0, cost }
    });
    Some(core::iter::once(first).chain(products).collect())
}
