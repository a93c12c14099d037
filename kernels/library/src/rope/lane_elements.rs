//! Which elements of a head a lane has.

use crate::builder_ext::BuilderExt;
use crate::rope::spec::HeadPart;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Value};

/// One element of a lane.
pub(crate) struct LaneElement {
    pub(crate) element: Value,
    pub(crate) pair: Value,
    /// Whether the lane has it; `None` where all have.
    pub(crate) inside: Option<Value>,
    /// First of a pair.
    pub(crate) first: bool,
}

impl HeadPart {
    /// The lane's elements: first both of each of its pairs, then those that do not turn.
    pub(crate) fn lane_elements(self, k: &mut Builder) -> Vec<LaneElement> {
        let lane = k.lane();
        let (pairs, adjacent) = self.rope.unwrap_or((0, false));
        let mut lane_elements = Vec::new();
        let limited = |k: &mut Builder, number: Value, first: u32, count: u32| {
            if first + 32 <= count {
                return (number, None);
            }
            let (last, all) = (k.int(count - 1), k.int(count));
            let inside = k.lt_u(number, all);
            (k.min_u(number, last), Some(inside))
        };
        for first in (0..pairs).step_by(32) {
            let number = k.plus(lane, first);
            let (pair, inside) = limited(k, number, first, pairs);
            let (x, y) = if adjacent {
                let x = k.left(pair, 1);
                (x, k.plus(x, 1))
            } else {
                (pair, k.plus(pair, pairs))
            };
            lane_elements.push(LaneElement { element: x, pair, inside, first: true });
            lane_elements.push(LaneElement { element: y, pair, inside, first: false });
        }
        let rest = self.dim - 2 * pairs;
        for first in (0..rest).step_by(32) {
            let number = k.plus(lane, first);
            let (number, inside) = limited(k, number, first, rest);
            let element = k.plus(number, 2 * pairs);
            lane_elements.push(LaneElement { element, pair: element, inside, first: false });
        }
        lane_elements
    }
}
