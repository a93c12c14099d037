//! From expressions to operations.
//!
//! Not here: the expressions themselves (`expr`).

use super::expr::{Node, Operator};
use super::{Address, Alu, Builder, Elem, Expr, Location, Value};

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
