//! `y = x * W^T` on WMMA: a workgroup makes 128 rows of 64 outputs, or 64 rows of 64 outputs of two matrices, or half
//! as many rows; each of eight waves makes two blocks of sixteen rows, or one, of 32 outputs, or of 16 of both.
//!
//! Sums run over columns in order, whatever the grid: a row's result does not depend on the other rows.

use super::path::MatrixPath;
use super::stage::{StagedRows, WeightStage};
use super::tile::{OutputBlock, TileLds, TileProduct, WaveRows};
use crate::builder_ext::BuilderExt;
use crate::gemv::epilogue::{Output, epilogue};
use crate::gemv::spec::{MatrixSpec, OutputMode, PartArguments, PartSpec};
use crate::glu::GluSpec;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::{Generation, Target};

/// A product of many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gemm {
    /// The matrix instructions.
    pub path: MatrixPath,
    /// The matrix.
    pub matrix: MatrixSpec,
    /// The second matrix where products are gated.
    pub up: Option<(MatrixSpec, GluSpec)>,
    /// Columns, a multiple of 32.
    pub cols: u32,
    /// Outputs.
    pub outs: u32,
    /// The store of the product; never [`OutputMode::Cap`].
    pub output: OutputMode,
    /// Blocks of sixteen rows of a wave: 1 or 2.
    pub blocks: u32,
}

/// Most rows of a workgroup; activations are padded to a multiple.
pub(crate) const TILE_ROWS: u32 = 128;
/// Outputs of a workgroup, of each matrix.
const TILE_OUTS: u32 = 64;
const WORKGROUP: u32 = 256;

/// A wave's part of the tile.
struct WaveTile {
    /// Lane modulo 16.
    within: Value,
    /// Lane divided by 16.
    half: Value,
    /// First row of the wave in the tile, uniform.
    rows: Value,
    /// First output of the wave in one matrix's part of the tile.
    outs: Value,
    gfx12: bool,
}

impl Kernel for Gemm {
    fn name(&self) -> String {
        let path = self.path.name();
        let rows = self.tile_rows();
        let mut name = format!("gemm{path}_{rows}_{}x{}_{}", self.outs, self.cols, self.matrix.name());
        if let Some((up, glu)) = self.up {
            let _ = write!(name, "_{}_{}", glu.name(), up.name());
        }
        name.push_str(&self.output.name());
        name
    }

    /// Arguments: `x` (of `ActivationsF16` or `ActivationsI8`, rows padded to 128), `out` (f32 `[rows, outs]`), `rows`,
    /// per matrix its weights, scale and bias where there are any, and the second tensor of an output that has one.
    fn function(&self, target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (x, out) = (k.buffer("x"), k.buffer("out"));
        let rows = k.scalar("rows", Elem::Int);
        let first = self.matrix.arguments(&mut k, "weights");
        let up = self.up.map(|(up, _)| up.arguments(&mut k, "up"));
        let second = self.output.has_second().then(|| k.buffer("second"));
        let matrices = if self.up.is_some() { 2 } else { 1 };
        let lds = TileLds::new(&mut k, self.path, self.tile_rows(), matrices * TILE_OUTS);
        let wave = self.wave_tile(&mut k, target.generation() == Generation::Gfx12);
        let stages = self.stages(&mut k, first.base, up.as_ref().map(|own| own.base), lds);
        let sums = self.multiply(&mut k, x, &wave, &stages, lds);
        let part = PartArguments { matrix: first, up, out, second, head: None };
        self.finish(&mut k, &wave, &sums, &part, rows);
        Ok(k.finish())
    }
}

impl Gemm {
    /// Rows of a workgroup.
    fn tile_rows(&self) -> u32 {
        self.blocks * self.block_distance()
    }

    /// Rows from one of a wave's blocks to the next; other waves make those between.
    fn block_distance(&self) -> u32 {
        if self.up.is_some() { 32 } else { 64 }
    }

    /// Blocks of a wave for a number of rows.
    pub(crate) fn blocks(gated: bool, rows: u32) -> u32 {
        if rows <= if gated { 32 } else { 64 } { 1 } else { 2 }
    }

    /// Workgroups for a number of rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        [self.outs.div_ceil(TILE_OUTS), rows.div_ceil(self.tile_rows()), 1]
    }

    fn wave_tile(&self, k: &mut Builder, gfx12: bool) -> WaveTile {
        let lane = k.lane();
        let wave = k.wave();
        let within = k.eval(lane & 15);
        let half = k.eval(lane >> 4);
        let across = self.block_distance() / 16;
        let rows = k.eval((wave & (across - 1)) * 16);
        let outs = k.eval((wave / across) * if self.up.is_some() { 16 } else { 32 });
        WaveTile { within, half, rows, outs, gfx12 }
    }

    /// One per matrix.
    fn stages(&self, k: &mut Builder, base: Value, up: Option<Value>, lds: TileLds) -> Vec<WeightStage> {
        let tile = k.workgroup_id(Axis::X);
        let last = k.int(self.outs - 1);
        let first = k.eval(tile * TILE_OUTS);
        let mut matrices = alloc::vec![(self.matrix.ty, base)];
        matrices.extend(self.up.zip(up).map(|((up, _), base)| (up.ty, base)));
        let mut stages = Vec::new();
        for (number, (ty, base)) in (0u32..).zip(matrices) {
            let (cols, path, fold) = (self.cols, self.path, TILE_OUTS);
            let lds = lds.weight_rows(path, number * TILE_OUTS);
            stages.push(WeightStage::new(k, &StagedRows { ty, cols, path, base, first, last, fold, lds }));
        }
        stages
    }

    /// Sums `[row block][output block]`.
    fn multiply(
        &self,
        k: &mut Builder,
        x: Value,
        wave: &WaveTile,
        stages: &[WeightStage],
        lds: TileLds,
    ) -> Vec<Vec<Value>> {
        let path = self.path;
        let tile = k.workgroup_id(Axis::Y);
        let first = k.eval(tile * self.tile_rows());
        let row_bytes = TileProduct::row_bytes(path, self.cols);
        let copied: Vec<Value> = (0..TileProduct::rounds(path, WORKGROUP, self.tile_rows()))
            .map(|round| {
                let row = TileProduct::copied_row(k, path, WORKGROUP, round);
                k.eval((row + first) * row_bytes)
            })
            .collect();
        let row = k.add(wave.rows, wave.within);
        let column = k.add(wave.outs, wave.within);
        let own = self.matrix.ty;
        let columns = match self.up {
            Some((up, _)) => [(0, own), (TILE_OUTS, up.ty)],
            None => [(0, own), (16, own)],
        };
        let product = TileProduct {
            path,
            cols: self.cols,
            items: WORKGROUP,
            stages,
            x,
            copied: &copied,
            lds,
            rows: WaveRows {
                row,
                first_row: wave.rows,
                blocks: self.blocks,
                distance: self.block_distance(),
            },
            used: None,
            column,
            columns: &columns.map(|(first, ty)| OutputBlock { first, ty }),
            half: wave.half,
            gfx12: wave.gfx12,
        };
        product.sums(k)
    }

    fn finish(
        &self,
        k: &mut Builder,
        wave: &WaveTile,
        sums: &[Vec<Value>],
        part: &PartArguments,
        rows: Value,
    ) {
        let gated = self.up.is_some();
        let (tile_x, tile_y) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let first_out = k.eval(tile_x * TILE_OUTS + wave.outs + wave.within);
        let tile_row = k.eval(tile_y * self.tile_rows() + wave.rows);
        let own = if wave.gfx12 { k.eval(wave.half << 3) } else { wave.half };
        let first_row = k.add(tile_row, own);
        let limit = k.int(self.outs);
        let spec =
            PartSpec { rows: self.outs, matrix: self.matrix, up: self.up, output: self.output, head: None };
        let columns: &[u32] = if gated { &[0] } else { &[0, 1] };
        for (block, column) in (0..self.blocks).flat_map(|block| columns.iter().map(move |at| (block, *at))) {
            let out = k.eval(first_out + 16 * column);
            let inside = k.lt_u(out, limit);
            for register in 0..8 {
                let later = register * if wave.gfx12 { 1 } else { 2 };
                let row = k.eval(first_row + (self.block_distance() * block + later));
                let index = (2 * block + column) as usize;
                let value = sums[index][register as usize];
                let up = sums[if gated { index + 1 } else { index }][register as usize];
                k.when(row.lt(rows) & inside, |k| {
                    epilogue(k, &spec, part, [value, up], Output { row, column: out });
                });
            }
        }
    }
}
