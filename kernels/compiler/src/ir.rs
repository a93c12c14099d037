//! Kernel IR: SSA values in structured control flow.
//!
//! A function is a tree of regions. Values have an element type, a count and a uniformity (the same in all lanes of
//! a wave, or not); where a value lives follows from these and the target. Not here: construction (`build`), text
//! (`print`), lowering (`pass`).

mod alu;
mod build;
mod control;
mod eval;
mod expr;
mod pipeline;
mod print;

pub use alu::{ALU, Alu, AluRow};
pub use build::Builder;
pub use control::Counted;
pub use expr::{Expr, Location, global, lds};

use alloc::string::String;
use alloc::vec::Vec;

/// A value of a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Value(pub(crate) u32);

impl Value {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Elem {
    /// Truth value; per lane, or one for the wave.
    Bool,
    /// 32-bit integer; operations say whether it is signed.
    Int,
    /// f32.
    Float,
    /// Two f16.
    HalfPair,
    /// 64-bit integer or address.
    Wide,
    /// 16x16 matrix, spread over the lanes of a wave.
    Fragment(Fragment),
}

/// Matrix fragments and their lane layouts (wave of 32).
///
/// gfx11: A and B hold row (column) `lane % 16`, all 16 k in 8 registers, lanes 16-31 a copy. gfx12: lanes 0-15 hold
/// k 0-3 and 8-11, lanes 16-31 the rest, in 4 registers. Accumulators hold column `lane % 16`; rows `2 * register +
/// lane / 16` on gfx11, `register + 8 * (lane / 16)` on gfx12.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fragment {
    /// A or B of f16.
    Half,
    /// A or B of 8-bit integers: half the registers of f16.
    Byte,
    /// Accumulator of f32.
    FloatAcc,
    /// Accumulator of i32.
    IntAcc,
}

/// Type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// Element type.
    pub elem: Elem,
    /// Elements, 1 to 4; 1 for fragments.
    pub count: u8,
    /// The same in all lanes.
    pub uniform: bool,
}

impl Type {
    /// A type with one element.
    pub const fn of(elem: Elem, uniform: bool) -> Self {
        Self { elem, count: 1, uniform }
    }
}

/// Axis of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Axis {
    /// First.
    X,
    /// Second.
    Y,
    /// Third.
    Z,
}

/// Memory space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// Device memory.
    Global,
    /// Local data share of the workgroup.
    Lds,
}

/// Width of a load or store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Width {
    /// Zero-extended byte.
    U8,
    /// Sign-extended byte.
    I8,
    /// Zero-extended 16 bits.
    U16,
    /// One to four dwords.
    Dwords(u8),
}

impl Width {
    /// Registers.
    pub fn dwords(self) -> u8 {
        match self {
            Self::Dwords(count) => count,
            _ => 1,
        }
    }

    /// Bytes in memory.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 => 2,
            Self::Dwords(count) => 4 * u32::from(count),
        }
    }
}

/// Address: uniform base plus per-lane byte offset plus constant. In LDS there is no base.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// Memory space.
    pub space: Space,
    /// Uniform 64-bit base, in global memory.
    pub base: Option<Value>,
    /// Byte offset, 32 bits unsigned.
    pub offset: Option<Value>,
    /// Constant byte offset.
    pub constant: i32,
}

/// Coherence scope of atomics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Workgroup.
    Workgroup,
    /// Device.
    Device,
}

/// Atomic operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicOp {
    /// Integer addition.
    AddInt,
    /// f32 addition.
    AddFloat,
    /// Unsigned maximum.
    MaxUnsigned,
}

/// Half of an ordering between waves. A release makes earlier accesses of the wave visible to whoever acquires later;
/// an acquire makes what others released visible to later vector loads. Scalar loads are not ordered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fence {
    /// Before the access that signals other waves.
    Release,
    /// After the access that learns of others.
    Acquire,
}

/// Operations on conditions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Logic {
    /// Both.
    And,
    /// Either.
    Or,
    /// Not the one.
    Not,
}

/// Matrix operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatrixOp {
    /// f32 += f16 * f16.
    Half,
    /// i32 += i8 * i8; flags: A signed, B signed.
    Byte {
        /// A is signed.
        signed_a: bool,
        /// B is signed.
        signed_b: bool,
    },
}

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Bits of a 32-bit constant.
    Constant(u32),
    /// Kernel argument at a byte offset.
    Argument {
        /// Byte offset in the argument segment.
        offset: u32,
    },
    /// Workgroup number along an axis.
    WorkgroupId(Axis),
    /// Work item number along X.
    WorkitemId,
    /// Arithmetic.
    Alu(Alu, Vec<Value>),
    /// Second operand where the condition holds, else third.
    Select(Value, Value, Value),
    /// One element.
    Extract(Value, u8),
    /// Elements to one value.
    Pack(Vec<Value>),
    /// Reads memory. Uniform results come through the scalar cache and need memory that nothing in the same dispatch
    /// writes.
    Load(Address, Width),
    /// Writes memory.
    Store(Address, Width, Value),
    /// Atomic update; the result, if there is one, is the old content.
    Atomic(AtomicOp, Scope, Address, Value),
    /// Orders global memory accesses of this wave against those of others.
    Fence(Fence, Scope),
    /// Workgroup barrier that makes earlier accesses to LDS, and to global memory if asked, visible.
    Barrier {
        /// Global memory as well.
        global: bool,
    },
    /// The value of lane `lane xor mask`; mask below 32.
    LaneXor(Value, u8),
    /// The first active lane's value, uniform.
    FirstLane(Value),
    /// The value that the lane of a uniform number has, uniform.
    ReadLane(Value, Value),
    /// The value that the lane of a number has, a number per lane; inactive lanes give zero.
    LaneGather(Value, Value),
    /// Conditions combined.
    Logic(Logic, Vec<Value>),
    /// 64-bit sum of uniform values; the second may be a 32-bit unsigned one.
    WideAdd(Value, Value),
    /// 64-bit product of two uniform 32-bit unsigned values.
    WideMul(Value, Value),
    /// Integer dot product of four bytes each, added to the third value.
    Dot4 {
        /// The bytes of the first operand are signed.
        signed_a: bool,
        /// The bytes of the second operand are signed.
        signed_b: bool,
        /// Operands.
        values: [Value; 3],
    },
    /// Matrix multiply-add.
    Matrix(MatrixOp, [Value; 3]),
    /// Fragment of zeros.
    ZeroFragment,
}

/// A value that a loop carries from one trip to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The value inside the loop.
    pub inside: Value,
    /// Before the first trip.
    pub initial: Value,
    /// For the next trip.
    pub next: Value,
    /// After the last trip.
    pub result: Value,
}

/// A value merged from two branches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merged {
    /// From the first branch.
    pub then: Value,
    /// From the second branch.
    pub otherwise: Value,
    /// After both.
    pub result: Value,
}

/// A step of a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// An operation.
    Op(Option<Value>, Op),
    /// Two branches; uniform conditions jump, others mask lanes.
    If {
        /// The condition.
        condition: Value,
        /// Region of the lanes where it holds.
        then: Region,
        /// Region of the other lanes.
        otherwise: Region,
        /// Values of both.
        merged: Vec<Merged>,
    },
    /// A loop. Lanes leave it one by one if the condition for another trip varies.
    Loop {
        /// Condition for the first trip, computed before the loop; without one the body runs at least once.
        first: Option<Value>,
        /// Values from trip to trip.
        carried: Vec<Carried>,
        /// The body.
        body: Region,
        /// Condition for another trip, computed in the body.
        again: Value,
    },
}

/// Steps in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Region {
    /// The steps.
    pub nodes: Vec<Node>,
}

/// Use of an argument, for the metadata of the code object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    /// Address of a global buffer, 8 bytes.
    Buffer,
    /// 32-bit value.
    Scalar,
}

/// One kernel argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// Name.
    pub name: String,
    /// Use.
    pub kind: ArgumentKind,
    /// Byte offset.
    pub offset: u32,
}

/// A kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Name of the kernel symbol.
    pub name: String,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
    /// Type of every value.
    pub types: Vec<Type>,
    /// Code.
    pub body: Region,
    /// LDS bytes.
    pub lds_bytes: u32,
    /// Work items per workgroup (one dimension).
    pub workgroup: u32,
}

impl Function {
    /// Bytes of the argument segment.
    pub fn kernarg_bytes(&self) -> u32 {
        self.arguments.last().map_or(0, |last| match last.kind {
            ArgumentKind::Buffer => last.offset + 8,
            ArgumentKind::Scalar => last.offset + 4,
        })
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> Option<Type> {
        self.types.get(value.index()).copied()
    }
}
