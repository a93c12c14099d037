//! Building software-pipelined loops: what the next trip reads is on its way while this trip computes.
//!
//! Two trips make one pass of the loop, each with registers of its own for what it loads, so that nothing is moved and
//! the waits count exactly the loads that the trip needs. Not here: plain loops (`control`).

use super::{Builder, Counted, Value};
use alloc::vec::Vec;

/// Loads of a trip: gets the trip's number.
type Load<'a> = &'a mut dyn FnMut(&mut Builder, Value) -> Vec<Value>;

/// Computation of a trip: gets its number, what was loaded for it and the carried values; gives their next ones.
type Body<'a> = &'a mut dyn FnMut(&mut Builder, Value, &[Value], &[Value]) -> Vec<Value>;

impl Builder {
    /// A counted loop whose loads are one trip ahead: before trip `i` uses what `load` read for it, the loads of trip
    /// `i + step` are issued. `load` returns what it read (vector loads, fragments of them); `body` gets that beside
    /// the number of the trip and the carried values. Each is called three times, so neither may have effects of its
    /// own outside the builder.
    ///
    /// Takes the registers of what is loaded twice. Memory that `body` writes may not be what `load` reads for the
    /// next trip, and `end` plus twice `step` must fit 32 bits. An even number of trips loads the last one's twice.
    pub fn pipelined(
        &mut self,
        trips: Counted,
        initial: &[Value],
        mut load: impl FnMut(&mut Self, Value) -> Vec<Value>,
        mut body: impl FnMut(&mut Self, Value, &[Value], &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        if !trips.maybe {
            return self.overlapped(trips, initial, &mut load, &mut body);
        }
        let any = self.lt_u(trips.start, trips.end);
        let some = |k: &mut Self| k.overlapped(trips, initial, &mut load, &mut body);
        self.choose(any, some, |_| initial.to_vec())
    }

    fn overlapped(
        &mut self,
        trips: Counted,
        initial: &[Value],
        load: Load<'_>,
        body: Body<'_>,
    ) -> Vec<Value> {
        let Counted { start, end, step, uniform, .. } = trips;
        let kept = initial.len();
        let loaded = load(self, start);
        // The loop counts the second trip of each pair; the first one's number is carried.
        let second = self.add(start, step);
        let pairs = self.add(step, step);
        let pairs = Counted { start: second, end, step: pairs, maybe: true, uniform: uniform + 1 };
        let all: Vec<Value> = [start].into_iter().chain(initial.iter().copied()).chain(loaded).collect();
        let ends = self.counted(pairs, &all, |k, second, carried| {
            let (first, rest) = (carried[0], &carried[1..]);
            let later = load(k, second);
            let sums = body(k, first, &rest[kept..], &rest[..kept]);
            let third = k.add(second, step);
            // Behind the last trip there is nothing to read: the last one's again.
            let more = k.lt_u(third, end);
            let ahead = k.select(more, third, second);
            let next = load(k, ahead);
            let sums = body(k, second, &later, &sums);
            [third].into_iter().chain(sums).chain(next).collect()
        });
        let (last, rest) = (ends[0], &ends[1..]);
        let odd = self.lt_u(last, end);
        let rest = rest.to_vec();
        let (sums, loaded) = rest.split_at(kept);
        self.choose(odd, |k| body(k, last, loaded, sums), |_| sums.to_vec())
    }
}
