//! The shape of a product of grouped rows: matrices, tile, and its division among the waves of a workgroup.

use crate::gemm::path::MatrixPath;
use crate::glu::GluSpec;
use crate::moe::experts::ExpertMatrix;
use doorbell_compiler::ir::Value;

/// A product of grouped rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupedGemm {
    /// The matrix instructions.
    pub path: MatrixPath,
    /// The matrices.
    pub matrix: ExpertMatrix,
    /// The second matrices, of gate and up: rows are then read from the batch and written in sorted order. Without, rows
    /// are read in sorted order, weighted, and written to their slots.
    pub up: Option<(ExpertMatrix, GluSpec)>,
    /// Columns, a multiple of 32.
    pub cols: u32,
    /// Most rows of a tile: 16, 32, 64 or 128. Blocks of sixteen that it does not fill are left out.
    pub tile: u32,
}

/// The rows and outputs of a workgroup, all uniform.
pub(crate) struct TileJob {
    /// Its first row among the sorted ones.
    pub(crate) first: Value,
    /// Its rows.
    pub(crate) count: Value,
    /// Its first output.
    pub(crate) out: Value,
}

/// Buffers of a launch.
#[derive(Clone, Copy)]
pub(crate) struct GroupedBuffers {
    pub(crate) x: Value,
    /// Rows, or slots, of the sorted slots.
    pub(crate) map: Value,
    /// Routing weights by slot, of down.
    pub(crate) weights: Option<Value>,
}

impl GroupedGemm {
    /// Outputs of a workgroup.
    pub(crate) fn outs(&self) -> u32 {
        if self.up.is_some() { self.half() } else { 2 * self.half() }
    }

    /// Half of the rows of weights of a workgroup: gate or up, or half of the outputs.
    pub(crate) fn half(&self) -> u32 {
        if self.tile > 64 { 32 } else { 64 }
    }

    /// Workgroups for a number of tiles.
    pub fn groups(&self, tiles: u32) -> [u32; 3] {
        [self.matrix.rows.div_ceil(self.outs()), tiles, 1]
    }

    /// Work items of a workgroup.
    pub(crate) fn items(&self) -> u32 {
        if self.tile >= 64 { 256 } else { 128 }
    }

    /// Rows from one of a wave's blocks to the next; waves that share outputs take those between.
    pub(crate) fn block_distance(&self) -> u32 {
        let across = self.items() / 32 * 16 / self.half();
        16 * across
    }

    /// Blocks of rows of a wave.
    pub(crate) fn blocks(&self) -> u32 {
        self.tile / self.block_distance()
    }
}
