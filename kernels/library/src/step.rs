//! Device addresses of everything that a batch refers to. The driver fills them in; kernels' arguments come from them.

use doorbell_core::backend::KvType;
use doorbell_core::model::Model;
use doorbell_core::plan::{GroupId, Plan, RopeId, Rows, TensorId, VectorId, WeightId};

/// Keys and values of one group, each laid out by [`crate::KvLayout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvPool {
    /// Device address of the keys.
    pub keys: u64,
    /// Device address of the values.
    pub values: u64,
}

/// Device addresses of a step's inputs, all little-endian u32 but for the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// `[rows]`: token ids.
    pub tokens: u64,
    /// `[rows]`: positions, in tokens.
    pub positions: u64,
    /// `[groups, rows]`: start of the row's page table in `pages`, in entries.
    pub tables: u64,
    /// Page tables: page ids, in order of position.
    pub pages: u64,
    /// `[outputs]`: rows whose result is wanted.
    pub outputs: u64,
    /// `[outputs]`: positions of those rows.
    pub output_positions: u64,
    /// `[groups, outputs]`: starts of those rows' page tables in `pages`, in entries.
    pub output_tables: u64,
    /// Runs of the batch, the rows of one sequence each: their number, then `[runs, 3]` first row, rows, and recurrent
    /// state.
    pub runs: u64,
    /// `[outputs, vocabulary]` f32, or `[outputs]` u32.
    pub result: u64,
    /// `[outputs, RING]`, by position modulo [`crate::RING`]: the tokens that steps feed to the next one, if they do.
    /// The batch has one row per sequence then, and all rows are outputs.
    pub ring: Option<u64>,
}

/// Everything to which the launches of one step refer.
#[derive(Clone, Copy, Debug)]
pub struct Step<'s, 'a> {
    /// The model.
    pub model: &'s Model<'a>,
    /// The plan that runs.
    pub plan: &'s Plan<'s>,
    /// Rows of the batch, at least 1.
    pub rows: u32,
    /// Output rows of the batch.
    pub outputs: u32,
    /// True if every row is a sequence of its own. False says nothing.
    pub single: bool,
    /// Positions that the longest sequence of the batch has after this step; page tables cover them.
    pub positions: u32,
    /// Device address of the plan's arena: 4-byte cells.
    pub arena: u64,
    /// Device address of [`crate::scratch_bytes`] for the library's own use between launches. Zeroed when it is
    /// allocated; counters in it are left at zero by every kernel.
    pub scratch: u64,
    /// Device addresses, by [`WeightId`]: the bytes as in the file.
    pub weights: &'s [u64],
    /// Device addresses, by [`VectorId`]: f32.
    pub vectors: &'s [u64],
    /// Device addresses, by [`RopeId`]: laid out by [`crate::RopeTable`].
    pub ropes: &'s [u64],
    /// By [`GroupId`].
    pub pools: &'s [KvPool],
    /// Device address of the recurrent states, `[states, layers, floats]` f32 as of `StateShape`; nothing where the
    /// model has none.
    pub states: u64,
    /// Element type of the pools.
    pub kv: KvType,
    /// Inputs and result.
    pub inputs: Inputs,
}

/// Device addresses for the rows of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAddresses {
    /// Positions.
    pub positions: u64,
    /// Starts of page tables.
    pub tables: u64,
}

impl Step<'_, '_> {
    /// Device address of an activation tensor.
    pub fn tensor(&self, id: TensorId) -> u64 {
        self.arena + 4 * self.plan.tensor(id).offset as u64
    }

    /// Rows that a tensor has in this batch.
    pub fn rows_of(&self, id: TensorId) -> u32 {
        match self.plan.tensor(id).rows {
            Rows::Batch => self.rows,
            Rows::Outputs => self.outputs,
        }
    }

    /// Device addresses of positions and page-table starts for the rows of a tensor, in a group.
    pub fn row_addresses(&self, id: TensorId, group: GroupId) -> RowAddresses {
        let (positions, tables, rows) = match self.plan.tensor(id).rows {
            Rows::Batch => (self.inputs.positions, self.inputs.tables, self.rows),
            Rows::Outputs => (self.inputs.output_positions, self.inputs.output_tables, self.outputs),
        };
        RowAddresses { positions, tables: tables + 4 * u64::from(rows) * group.index() as u64 }
    }

    /// Device address of a matrix or stack.
    pub fn weight(&self, id: WeightId) -> u64 {
        self.weights[id.index()]
    }

    /// Device address of a vector.
    pub fn vector(&self, id: VectorId) -> u64 {
        self.vectors[id.index()]
    }

    /// Device address of a rotary table.
    pub fn rope(&self, id: RopeId) -> u64 {
        self.ropes[id.index()]
    }

    /// Keys and values of a group.
    pub fn pool(&self, id: GroupId) -> KvPool {
        self.pools[id.index()]
    }
}
