//! Expressions over values: `k.read(x, row * stride + lane * 4)` instead of a call and a name for every operation.
//!
//! An expression is a tree that a [`Builder`] method turns into operations where it takes it: operands from left to
//! right, a constant right before the operation that uses it. What an operator stands for follows from the type of its
//! first operand: integers are unsigned, floats are f32, truth values have `&`, `|` and `!`, 64-bit addresses `+`.
//! Not here: operations on several values at once (`build`).

use super::{Address, Alu, Builder, Elem, Space, Value};
use alloc::vec;
use alloc::vec::Vec;
use core::ops;

/// A value, a constant, or an operation on expressions.
#[derive(Clone, Debug)]
pub struct Expr(Node);

#[derive(Clone, Debug)]
enum Node {
    Value(Value),
    Int(u32),
    Float(f32),
    Op(Operator, Vec<Expr>),
}

/// The operation on the operands.
#[derive(Clone, Copy, Debug)]
enum Operator {
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
    space: Space,
    base: Option<Value>,
    offset: Option<Expr>,
    constant: i32,
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

impl Builder {
    /// Emits the operations of an expression.
    pub fn eval(&mut self, expr: impl Into<Expr>) -> Value {
        match expr.into().0 {
            Node::Value(value) => value,
            Node::Int(number) => self.int(number),
            Node::Float(number) => self.float(number),
            Node::Op(operator, mut operands) => match (operands.pop(), operands.pop(), operands.pop()) {
                (Some(only), None, _) => {
                    let a = self.eval(only);
                    self.unary(operator, a)
                }
                (Some(b), Some(a), None) => {
                    let a = self.eval(a);
                    self.binary(operator, a, b)
                }
                (Some(c), Some(b), Some(a)) => {
                    let [a, b, c] = [a, b, c].map(|operand| self.eval(operand));
                    match operator {
                        Operator::Alu(alu) => self.alu(alu, &[a, b, c]),
                        _ => self.select(a, b, c),
                    }
                }
                // No operator is without operands.
                (None, ..) => self.int(0),
            },
        }
    }

    /// The address of a location.
    pub fn address(&mut self, location: impl Into<Location>) -> Address {
        let Location { space, base, offset, constant } = location.into();
        Address { space, base, offset: offset.map(|offset| self.eval(offset)), constant }
    }

    fn unary(&mut self, operator: Operator, a: Value) -> Value {
        match operator {
            Operator::Not if self.ty(a).elem == Elem::Bool => self.negate(a),
            Operator::Not => self.not(a),
            Operator::Neg => self.fneg(a),
            Operator::Alu(alu) => self.alu(alu, &[a]),
            Operator::Bits(elem) => self.bits(a, elem),
            Operator::Extract(index) => self.extract(a, index),
            Operator::FirstLane => self.first_lane(a),
            Operator::LaneXor(mask) => self.lane_xor(a, mask),
            _ => a,
        }
    }

    /// An operation on two operands, the second of which may be a constant that makes it simpler.
    fn binary(&mut self, operator: Operator, a: Value, b: Expr) -> Value {
        let elem = self.ty(a).elem;
        match (operator, &b.0) {
            (Operator::Add | Operator::Shl | Operator::Shr, Node::Int(0)) => return a,
            (Operator::Mul, Node::Int(factor)) if factor.is_power_of_two() => {
                return self.binary(Operator::Shl, a, factor.trailing_zeros().into());
            }
            (Operator::Div, Node::Int(divisor)) if divisor.is_power_of_two() => {
                return self.binary(Operator::Shr, a, divisor.trailing_zeros().into());
            }
            (Operator::Div, Node::Int(divisor)) => {
                // Exact for numbers below 2^16.
                let inverse = self.int(u32::MAX / divisor + 1);
                return self.alu(Alu::mul_hi, &[a, inverse]);
            }
            _ => {}
        }
        let b = self.eval(b);
        match (operator, elem) {
            (Operator::And, Elem::Bool) => return self.both(a, b),
            (Operator::Or, Elem::Bool) => return self.either(a, b),
            (Operator::Add, Elem::Wide) => return self.wide_add(a, b),
            _ => {}
        }
        let [float, halves] = [Elem::Float, Elem::HalfPair].map(|other| elem == other);
        let alu = match operator {
            Operator::Add if float => Alu::fadd,
            Operator::Sub if float => Alu::fsub,
            Operator::Mul if float => Alu::fmul,
            Operator::Add if halves => Alu::pk_add,
            Operator::Mul if halves => Alu::pk_mul,
            Operator::Min if float => Alu::fmin,
            Operator::Max if float => Alu::fmax,
            Operator::Lt if float => Alu::flt,
            Operator::Le if float => Alu::fle,
            Operator::Gt if float => Alu::fgt,
            Operator::Ge if float => Alu::fge,
            Operator::Eq if float => Alu::feq,
            Operator::Ne if float => Alu::fne,
            Operator::Alu(alu) => alu,
            other => other.of_integers(),
        };
        self.alu(alu, &[a, b])
    }
}

impl Operator {
    /// The operation on two unsigned integers.
    fn of_integers(self) -> Alu {
        match self {
            Self::Sub => Alu::sub,
            Self::Mul => Alu::mul,
            Self::And => Alu::and,
            Self::Or => Alu::or,
            Self::Xor => Alu::xor,
            Self::Shl => Alu::shl,
            Self::Shr => Alu::shr,
            Self::Min => Alu::min_u,
            Self::Max => Alu::max_u,
            Self::Lt => Alu::lt_u,
            Self::Le => Alu::le_u,
            Self::Gt => Alu::gt_u,
            Self::Ge => Alu::ge_u,
            Self::Eq => Alu::eq,
            Self::Ne => Alu::ne,
            _ => Alu::add,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Function;
    use alloc::string::ToString;

    fn text(build: impl FnOnce(&mut Builder, Value, Value)) -> alloc::string::String {
        let mut k = Builder::new("k", 32);
        let (a, x) = (k.scalar("a", Elem::Int), k.scalar("x", Elem::Float));
        build(&mut k, a, x);
        let function: Function = k.finish();
        function.to_string()
    }

    #[test]
    fn operators_are_the_operations_of_the_builder() {
        let expressions = text(|k, a, x| {
            let inside = k.eval((a * 12 + a / 8).min(7).lt(a & 3));
            k.eval(inside.select(x * 2.0 + x, -x));
        });
        let calls = text(|k, a, x| {
            let twelve = k.int(12);
            let product = k.mul(a, twelve);
            let three = k.int(3);
            let eighth = k.shr(a, three);
            let sum = k.add(product, eighth);
            let seven = k.int(7);
            let least = k.min_u(sum, seven);
            let mask = k.int(3);
            let low = k.and(a, mask);
            let inside = k.lt_u(least, low);
            let two = k.float(2.0);
            let twice = k.fmul(x, two);
            let sum = k.fadd(twice, x);
            let negative = k.fneg(x);
            k.select(inside, sum, negative);
        });
        assert_eq!(expressions, calls);
    }

    #[test]
    fn neutral_constants_cost_nothing() {
        let none = text(|_, _, _| {});
        assert_eq!(text(|k, a, _| _ = k.eval((((a + 0) * 1) / 1) << 0)), none);
    }
}
