//! Building control flow: branches and loops.
//!
//! Not here: operations (`build`).

use super::{Builder, Carried, Elem, Expr, Merged, Node, Region, Type, Value};
use alloc::vec::Vec;
use core::mem;

/// A counted loop: `i = start, start + step, ...` while `i < end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// First number.
    pub start: Value,
    /// The first number that is not taken.
    pub end: Value,
    /// Distance.
    pub step: Value,
    /// The loop may have no trips; otherwise there is one at least.
    pub maybe: bool,
    /// Number of carried values, from the first, that stay uniform (bases, counters).
    pub uniform: usize,
}

impl Builder {
    fn region(&mut self, build: impl FnOnce(&mut Self)) -> Region {
        let outer = mem::take(&mut self.current);
        build(self);
        mem::replace(&mut self.current, outer)
    }

    /// Runs `then` in the lanes where the condition holds.
    pub fn when(&mut self, condition: impl Into<Expr>, then: impl FnOnce(&mut Self)) {
        let condition = self.eval(condition);
        let then = self.region(then);
        let node = Node::If { condition, then, otherwise: Region::default(), merged: Vec::new() };
        self.current.nodes.push(node);
    }

    /// Values of `then` where the condition holds, of `otherwise` elsewhere.
    pub fn choose(
        &mut self,
        condition: impl Into<Expr>,
        then: impl FnOnce(&mut Self) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let condition = self.eval(condition);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let then = self.region(|b| first = then(b));
        let otherwise = self.region(|b| second = otherwise(b));
        let mut merged = Vec::new();
        for (then, otherwise) in first.into_iter().zip(second) {
            let uniform = self.all_uniform(&[condition, then, otherwise]);
            let ty = Type { uniform, ..self.ty(then) };
            let result = self.value(ty);
            merged.push(Merged { then, otherwise, result });
        }
        let results = merged.iter().map(|merge| merge.result).collect();
        self.current.nodes.push(Node::If { condition, then, otherwise, merged });
        results
    }

    /// Start, end and step of a loop.
    pub fn range(
        &mut self,
        start: impl Into<Expr>,
        end: impl Into<Expr>,
        step: impl Into<Expr>,
    ) -> [Value; 3] {
        [self.eval(start), self.eval(end), self.eval(step)]
    }

    /// Runs the body for `i = start, start + step, ...` while `i < end`, at least once. The body gets `i` and the
    /// carried values and returns their next ones; the results are the values after the last trip.
    pub fn for_range(
        &mut self,
        range: [Value; 3],
        initial: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let [start, end, step] = range;
        self.counted(Counted { start, end, step, maybe: false, uniform: 0 }, initial, body)
    }

    /// As `for_range`, with no trip at all unless `start < end`.
    pub fn for_range_maybe(
        &mut self,
        range: [Value; 3],
        initial: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let [start, end, step] = range;
        self.counted(Counted { start, end, step, maybe: true, uniform: 0 }, initial, body)
    }

    /// A counted loop with all its choices; `start`, `end` and `step` are uniform.
    pub fn counted(
        &mut self,
        trips: Counted,
        initial: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let Counted { start, end, step, maybe, uniform } = trips;
        let first = maybe.then(|| self.lt_u(start, end));
        let counter = self.value(Type::of(Elem::Int, true));
        let types: Vec<Type> = initial.iter().map(|value| self.ty(*value)).collect();
        let kept = types.into_iter().enumerate().map(|(at, ty)| Type { uniform: at < uniform, ..ty });
        let inside: Vec<Value> = kept.collect::<Vec<_>>().into_iter().map(|ty| self.value(ty)).collect();
        let (mut next, mut again, mut counter_next) = (Vec::new(), counter, counter);
        let body = self.region(|b| {
            next = body(b, counter, &inside);
            counter_next = b.add(counter, step);
            again = b.lt_u(counter_next, end);
        });
        let last = self.value(Type::of(Elem::Int, true));
        let mut carried =
            alloc::vec![Carried { inside: counter, initial: start, next: counter_next, result: last }];
        carried.extend(self.carry(initial, &inside, &next));
        let results = carried.iter().skip(1).map(|value| value.result).collect();
        self.current.nodes.push(Node::Loop { first, carried, body, again });
        results
    }

    /// Runs the body while the condition it returns beside the next values holds. Where that varies, lanes leave one
    /// by one and keep the values of their last trip. `first` decides on the first trip, which is certain without.
    pub fn repeat(
        &mut self,
        first: Option<Value>,
        initial: &[Value],
        body: impl FnOnce(&mut Self, &[Value]) -> (Vec<Value>, Value),
    ) -> Vec<Value> {
        let types: Vec<Type> = initial.iter().map(|value| self.ty(*value)).collect();
        let inside: Vec<Value> =
            types.into_iter().map(|ty| self.value(Type { uniform: false, ..ty })).collect();
        let mut end = None;
        let body = self.region(|b| end = Some(body(b, &inside)));
        // The body has run once by now.
        let Some((next, again)) = end else { return Vec::new() };
        let carried = self.carry(initial, &inside, &next);
        let results = carried.iter().map(|value| value.result).collect();
        self.current.nodes.push(Node::Loop { first, carried, body, again });
        results
    }

    /// Joins the values inside a loop with those before, of the next trip, and after.
    fn carry(&mut self, initial: &[Value], inside: &[Value], next: &[Value]) -> Vec<Carried> {
        let mut carried = Vec::new();
        for ((inside, initial), next) in inside.iter().zip(initial).zip(next) {
            let ty = self.ty(*inside);
            let result = self.value(ty);
            carried.push(Carried { inside: *inside, initial: *initial, next: *next, result });
        }
        carried
    }
}
