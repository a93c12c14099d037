//! Products of the rows that chose an expert: a workgroup makes a tile of them, with 128 rows of weights: 64 outputs of
//! gate and up, or 128 of down. Tiles of 128 rows take half of the outputs, so that both fit into LDS.
//!
//! `group_rows` sorts the rows by expert; `combine` adds the products of down. Not here: the stores (`grouped_output`).

use super::experts::ExpertMatrix;
use super::grouped_output::GroupedOutput;
use super::grouped_spec::{GroupedBuffers, GroupedGemm, TileJob};
use crate::builder_ext::BuilderExt;
use crate::gemm::stage::{StagedRows, WeightStage};
use crate::gemm::tile::{OutputBlock, TileLds, TileProduct, WaveRows, used_blocks};
use crate::gemv::spec::{MatrixArguments, PartArguments};
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width, global};
use doorbell_compiler::isa::{Generation, Target};

/// A tile of an expert, as `group_rows` writes it, and the number of its expert's tiles.
#[derive(Clone, Copy)]
struct ExpertTile {
    /// First sorted row of the expert.
    start: Value,
    /// Rows of the expert.
    count: Value,
    /// Number of the tile among the expert's.
    number: Value,
    /// Tiles of the expert.
    tiles: Value,
}

impl Kernel for GroupedGemm {
    fn name(&self) -> String {
        let up = self.up.map_or(String::new(), |(up, glu)| format!("_{}_{}", glu.name(), up.name()));
        let path = self.path.name();
        format!("grouped{path}_{}_{}_{}{up}", self.tile, self.cols, self.matrix.name())
    }

    /// Arguments: `x` (of `ActivationsF16` or `ActivationsI8`), `out` (f16 `[slots, outs]`; of gate and up for I8 f32),
    /// the tiles and the map of [`GroupRows`](super::group_rows::GroupRows), for down the routing weights (f32
    /// `[slots]`), per matrix its weights, scale and bias where there are any.
    fn function(&self, target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), self.items());
        let (x, out, tiles, map) = (k.buffer("x"), k.buffer("out"), k.buffer("tiles"), k.buffer("map"));
        let weights = self.up.is_none().then(|| k.buffer("weights"));
        let buffers = GroupedBuffers { x, map, weights };
        let first = self.matrix.factor.arguments(&mut k, "matrix");
        let second = self.up.map(|(up, _)| up.factor.arguments(&mut k, "up"));
        let lds = TileLds::new(&mut k, self.path, self.tile, 2 * self.half());
        let gfx12 = target.generation() == Generation::Gfx12;
        let tile = k.workgroup_id(Axis::Y);
        let entry = k.load_uniform(global(tiles, tile << 4), Width::Dwords(4), Elem::Int);
        let [expert, start, count, number] = [0, 1, 2, 3].map(|index| k.extract(entry, index));
        let tiles = k.eval((count + (self.tile - 1)) / self.tile);
        k.when(number.lt(tiles), |k| {
            let job = self.job(k, ExpertTile { start, count, number, tiles });
            let matrix = self.of_expert(k, self.matrix, &first, expert);
            let up = self.up.zip(second.as_ref()).map(|((up, _), own)| self.of_expert(k, up, own, expert));
            let part = PartArguments { matrix, up, out, second: None, head: None };
            self.tile(k, buffers, &job, &part, lds, gfx12);
        });
        Ok(k.finish())
    }
}

impl GroupedGemm {
    /// The job of a workgroup, by its place in the grid. Neighbors in the grid take the same outputs of all tiles of an
    /// expert, so that its weights come from memory once.
    fn job(&self, k: &mut Builder, own: ExpertTile) -> TileJob {
        let [across, _, _] = self.groups(1);
        let group = k.workgroup_id(Axis::X);
        let number = k.eval(own.number * across + group);
        // Exact below 2^20 workgroups of an expert.
        let half = k.float(0.5);
        let dividend = k.eval(number.u32_to_f32() + half);
        let ratio = k.eval(dividend * own.tiles.u32_to_f32().rcp());
        let quotient = k.eval(ratio.f32_to_u32().first_lane());
        let tile = k.eval(number - quotient * own.tiles);
        let ahead = k.eval(tile * self.tile);
        let (left, most) = (k.sub(own.count, ahead), k.int(self.tile));
        TileJob {
            first: k.add(own.start, ahead),
            count: k.min_u(left, most),
            out: k.eval(quotient * self.outs()),
        }
    }

    /// The arguments of one expert's matrix.
    fn of_expert(
        &self,
        k: &mut Builder,
        matrix: ExpertMatrix,
        own: &MatrixArguments,
        expert: Value,
    ) -> MatrixArguments {
        let row_bytes = matrix.factor.ty.row_bytes(self.cols as usize).unwrap_or(0) as u32;
        let ahead = k.wide_mul(expert, row_bytes * matrix.stride);
        let base = k.wide_add(own.base, ahead);
        let scale = own.scale.map(|scale| {
            let ahead = if matrix.own_scale { k.eval(expert << 2) } else { k.int(0) };
            k.wide_add(scale, ahead)
        });
        let bias = own.bias.map(|bias| k.wide_add(bias, expert * (4 * matrix.rows)));
        MatrixArguments { base, scale, bias }
    }

    /// The weights of a workgroup, in pieces that its work items take at once.
    fn stages(&self, k: &mut Builder, job: &TileJob, part: &PartArguments, lds: TileLds) -> Vec<WeightStage> {
        let last = k.int(self.matrix.rows - 1);
        let half = self.half();
        let staged = WeightStage::rows(self.items());
        let up = self.up.zip(part.up.as_ref()).map(|((up, _), own)| (up.factor.ty, own.base));
        let mut stages = Vec::new();
        for ahead in (0..2 * half).step_by(staged as usize) {
            let (mut ty, mut base, mut row) = (self.matrix.factor.ty, part.matrix.base, ahead);
            if let Some((up_ty, up_base)) = up {
                row = ahead % half;
                if staged > half {
                    // One piece holds both: the waves of its second part take the second matrix.
                    let wave = k.wave();
                    let early = wave.lt(half / 8);
                    base = k.choose(early, |_| alloc::vec![base], |_| alloc::vec![up_base])[0];
                } else if ahead >= half {
                    (ty, base) = (up_ty, up_base);
                }
            }
            let fold = if up.is_some() { half.min(staged) } else { staged };
            let first = k.eval(job.out + row);
            stages.push(WeightStage::new(
                k,
                &StagedRows {
                    ty,
                    cols: self.cols,
                    path: self.path,
                    base,
                    first,
                    last,
                    fold,
                    lds: lds.weight_rows(self.path, ahead),
                },
            ));
        }
        stages
    }

    /// Byte offsets of the rows that a work item copies.
    fn copied(&self, k: &mut Builder, buffers: GroupedBuffers, job: &TileJob) -> Vec<Value> {
        let last = k.eval(job.count - 1);
        let row_bytes = TileProduct::row_bytes(self.path, self.cols);
        (0..TileProduct::rounds(self.path, self.items(), self.tile))
            .map(|round| {
                let row = TileProduct::copied_row(k, self.path, self.items(), round);
                let slot = k.eval(job.first + row.min(last));
                let from = if self.up.is_none() { slot } else { k.read_int(buffers.map, slot << 2) };
                k.eval(from * row_bytes)
            })
            .collect()
    }

    fn tile(
        &self,
        k: &mut Builder,
        buffers: GroupedBuffers,
        job: &TileJob,
        part: &PartArguments,
        lds: TileLds,
        gfx12: bool,
    ) {
        let (lane, wave) = (k.lane(), k.wave());
        let (within, half) = (k.eval(lane & 15), k.eval(lane >> 4));
        let across = self.half() / 16;
        let wave_out = k.eval((wave & (across - 1)) << 4);
        let first_row = k.eval((wave >> across.trailing_zeros()) * 16);
        let copied = self.copied(k, buffers, job);
        let row = k.add(first_row, within);
        let column = k.add(wave_out, within);
        let second = self.up.map_or(self.matrix, |(up, _)| up).factor.ty;
        let columns = [(0, self.matrix.factor.ty), (self.half(), second)];
        let columns = columns.map(|(first, ty)| OutputBlock { first, ty });
        let stages = self.stages(k, job, part, lds);
        let product = TileProduct {
            path: self.path,
            cols: self.cols,
            items: self.items(),
            stages: &stages,
            x: buffers.x,
            copied: &copied,
            lds,
            rows: WaveRows { row, first_row, blocks: self.blocks(), distance: self.block_distance() },
            used: Some(used_blocks(k, job.count, first_row, self.block_distance())),
            column,
            columns: &columns,
            half,
            gfx12,
        };
        let sums = product.sums(k);
        let out = k.add(job.out, column);
        let own = if gfx12 { k.eval(half << 3) } else { half };
        let row = k.add(first_row, own);
        let row_distance = if gfx12 { 1 } else { 2 };
        let output = GroupedOutput { buffers, job, part, row, out, second: self.half(), row_distance };
        self.write(k, &output, &sums);
    }
}
