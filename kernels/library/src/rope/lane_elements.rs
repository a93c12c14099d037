//! The elements of a head that a lane has.

use super::spec::{HeadPart, RotationSpec};
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Value};

/// One element of a lane.
pub(crate) struct LaneElement {
    /// Its number in the head.
    pub(crate) element: Value,
    /// Number of its pair.
    pub(crate) pair: Value,
    /// True in lanes that have it; `None` if all have.
    pub(crate) inside: Option<Value>,
    /// First of a pair.
    pub(crate) first: bool,
}

impl LaneElement {
    /// Runs `body` in the lanes that have the element.
    pub(crate) fn when_inside(&self, k: &mut Builder, body: impl FnOnce(&mut Builder)) {
        match self.inside {
            Some(inside) => k.when(inside, body),
            None => body(k),
        }
    }
}

/// Number `first + lane` limited to below `count`, and true in the lanes where it was below; `None` if it always is.
fn limited(k: &mut Builder, lane: Value, first: u32, count: u32) -> (Value, Option<Value>) {
    let number = k.eval(lane + first);
    if first + 32 <= count {
        return (number, None);
    }
    let (last, all) = (k.int(count - 1), k.int(count));
    let inside = k.lt_u(number, all);
    (k.min_u(number, last), Some(inside))
}

impl HeadPart {
    /// The lane's elements: first both of each of its pairs, then those that do not turn.
    pub(crate) fn lane_elements(self, k: &mut Builder) -> Vec<LaneElement> {
        let lane = k.lane();
        let RotationSpec { pairs, adjacent } =
            self.rope.unwrap_or(RotationSpec { pairs: 0, adjacent: false });
        let mut elements = Vec::new();
        for first in (0..pairs).step_by(32) {
            let (pair, inside) = limited(k, lane, first, pairs);
            let x = if adjacent { k.eval(pair << 1) } else { pair };
            let y = k.eval(x + if adjacent { 1 } else { pairs });
            elements.push(LaneElement { element: x, pair, inside, first: true });
            elements.push(LaneElement { element: y, pair, inside, first: false });
        }
        let rest = self.dim - 2 * pairs;
        for first in (0..rest).step_by(32) {
            let (number, inside) = limited(k, lane, first, rest);
            let element = k.eval(number + 2 * pairs);
            elements.push(LaneElement { element, pair: element, inside, first: false });
        }
        elements
    }
}
