//! Expressions over values: `k.read(x, row * stride + lane * 4)` instead of a call and a name for every operation.
//!
//! An expression is a tree that a [`Builder`](super::Builder) method turns into operations where it takes it: operands from left to
//! right, a constant right before the operation that uses it. What an operator stands for follows from the type of its
//! first operand: integers are unsigned, floats are f32, truth values have `&`, `|` and `!`, 64-bit addresses `+`.
//! Not here: the operations (`eval`).

use super::{Address, Alu, Elem, Space, Value};
use alloc::vec;
use alloc::vec::Vec;
use core::ops;

/// A value, a constant, or an operation on expressions.
#[derive(Clone, Debug)]
pub struct Expr(pub(super) Node);

#[derive(Clone, Debug)]
pub(super) enum Node {
    Value(Value),
    Int(u32),
    Float(f32),
    Op(Operator, Vec<Expr>),
}

/// The operation on the operands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    And,
    Or,
    Xor,
    Not,
    Neg,
    Shl,
    Shr,
    Min,
    Max,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    Select,
    Alu(Alu),
    Bits(Elem),
    Extract(u8),
    FirstLane,
    LaneXor(u8),
}

impl From<Value> for Expr {
    fn from(value: Value) -> Self {
        Self(Node::Value(value))
    }
}

impl From<&Value> for Expr {
    fn from(value: &Value) -> Self {
        Self(Node::Value(*value))
    }
}

impl From<u32> for Expr {
    fn from(value: u32) -> Self {
        Self(Node::Int(value))
    }
}

impl From<f32> for Expr {
    fn from(value: f32) -> Self {
        Self(Node::Float(value))
    }
}

fn op(operator: Operator, operands: Vec<Expr>) -> Expr {
    Expr(Node::Op(operator, operands))
}

macro_rules! operators {
    ($($trait:ident $method:ident)*) => {$(
        impl<T: Into<Expr>> ops::$trait<T> for Value {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                op(Operator::$trait, vec![self.into(), other.into()])
            }
        }

        impl<T: Into<Expr>> ops::$trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                op(Operator::$trait, vec![self, other.into()])
            }
        }
    )*};
}

operators! { Add add Sub sub Mul mul Div div Shl shl Shr shr }

macro_rules! bit_operators {
    ($($trait:ident $method:ident $operator:ident)*) => {$(
        impl<T: Into<Expr>> ops::$trait<T> for Value {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                op(Operator::$operator, vec![self.into(), other.into()])
            }
        }

        impl<T: Into<Expr>> ops::$trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                op(Operator::$operator, vec![self, other.into()])
            }
        }
    )*};
}

bit_operators! { BitAnd bitand And BitOr bitor Or BitXor bitxor Xor }

macro_rules! methods {
    ($type:ident) => {
        impl ops::Not for $type {
            type Output = Expr;
            fn not(self) -> Expr {
                op(Operator::Not, vec![self.into()])
            }
        }

        impl ops::Neg for $type {
            type Output = Expr;
            fn neg(self) -> Expr {
                op(Operator::Neg, vec![self.into()])
            }
        }

        impl $type {
            methods! { @binary
                /// The smaller one.
                min Min
                /// The larger one.
                max Max
                /// `self < other`.
                lt Lt
                /// `self <= other`.
                le Le
                /// `self > other`.
                gt Gt
                /// `self >= other`.
                ge Ge
                /// `self == other`.
                eq Eq
                /// `self != other`.
                ne Ne
            }

            methods! { @unary
                /// `2^self`.
                exp2 Alu(Alu::exp2)
                /// `1 / self`, to about one unit in the last place.
                rcp Alu(Alu::rcp)
                /// `1 / sqrt(self)`.
                rsq Alu(Alu::rsq)
                /// A signed integer as a float.
                i32_to_f32 Alu(Alu::cvt_f_i)
                /// An unsigned integer as a float.
                u32_to_f32 Alu(Alu::cvt_f_u)
                /// A float as an unsigned integer, rounded toward zero.
                f32_to_u32 Alu(Alu::cvt_u_f)
                /// The low half of a pair of f16 as a float.
                f16_to_f32 Alu(Alu::cvt_f_h)
                /// A float as f16 in the low half of a pair, rounded to nearest even.
                f32_to_f16 Alu(Alu::cvt_h_f)
                /// The same bits as an integer.
                as_int Bits(Elem::Int)
                /// The same bits as an f32.
                as_float Bits(Elem::Float)
                /// The same bits as two f16.
                as_halves Bits(Elem::HalfPair)
                /// The first active lane's value, uniform.
                first_lane FirstLane
            }

            /// The product with `other` of the low 24 bits of both.
            pub fn mul24(self, other: impl Into<Expr>) -> Expr {
                op(Operator::Alu(Alu::mul24), vec![self.into(), other.into()])
            }

            /// `self * factor + addend` with one rounding.
            pub fn mul_add(self, factor: impl Into<Expr>, addend: impl Into<Expr>) -> Expr {
                op(Operator::Alu(Alu::fma), vec![self.into(), factor.into(), addend.into()])
            }

            /// `then` where this condition holds, `otherwise` elsewhere; both are computed.
            pub fn select(self, then: impl Into<Expr>, otherwise: impl Into<Expr>) -> Expr {
                op(Operator::Select, vec![self.into(), then.into(), otherwise.into()])
            }

            /// Element `index` of a value of several.
            pub fn extract(self, index: u8) -> Expr {
                op(Operator::Extract(index), vec![self.into()])
            }

            /// The value of lane `lane xor mask`.
            pub fn lane_xor(self, mask: u8) -> Expr {
                op(Operator::LaneXor(mask), vec![self.into()])
            }
        }
    };
    (@binary $($(#[$doc:meta])* $name:ident $operator:ident)*) => {$(
        $(#[$doc])*
        pub fn $name(self, other: impl Into<Expr>) -> Expr {
            op(Operator::$operator, vec![self.into(), other.into()])
        }
    )*};
    (@unary $($(#[$doc:meta])* $name:ident $operator:ident $(($argument:expr))?)*) => {$(
        $(#[$doc])*
        pub fn $name(self) -> Expr {
            op(Operator::$operator $(($argument))?, vec![self.into()])
        }
    )*};
}

methods! { Value }
methods! { Expr }

/// An address whose offset is still an expression: what loads and stores take.
#[derive(Clone, Debug)]
pub struct Location {
    pub(super) space: Space,
    pub(super) base: Option<Value>,
    pub(super) offset: Option<Expr>,
    pub(super) constant: i32,
}

/// A location in a global buffer: a byte offset from its base.
pub fn global(base: Value, offset: impl Into<Expr>) -> Location {
    Location { space: Space::Global, base: Some(base), offset: Some(offset.into()), constant: 0 }
}

/// A location in LDS: a byte offset.
pub fn lds(offset: impl Into<Expr>) -> Location {
    Location { space: Space::Lds, base: None, offset: Some(offset.into()), constant: 0 }
}

impl Location {
    /// The location `bytes` further on.
    pub fn plus(self, bytes: u32) -> Self {
        Self { constant: self.constant.saturating_add_unsigned(bytes), ..self }
    }
}

impl Address {
    /// The address `bytes` further on.
    pub fn plus(self, bytes: u32) -> Self {
        Self { constant: self.constant.saturating_add_unsigned(bytes), ..self }
    }
}

impl From<Address> for Location {
    fn from(address: Address) -> Self {
        let Address { space, base, offset, constant } = address;
        Self { space, base, offset: offset.map(Expr::from), constant }
    }
}
