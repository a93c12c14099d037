//! Lends the memory of a step to its threads, phase by phase: each task writes cells that no other task has.
//!
//! A phase lies between two barriers. Every thread opens it with the same [`Cut`]s, which name all cells that are written
//! in it and divide them among units: tasks, claimed as tickets, or threads. Opening checks that units have no cell in
//! common and that all threads have passed the same cuts; reading checks that the cells are in no cut. References end
//! with the phase, as the borrow checker sees to. What the cells mean is not here.
#![expect(unsafe_code, reason = "makes references into memory that several threads share")]

use crate::pool::{Team, ThreadPool, WORDS};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::Range;

/// Buffers that a step can have.
const BUFFERS: usize = 24;

/// Words that describe a cut.
const CUT_WORDS: usize = 8;

/// The first word of a phase without cuts: no buffer has this number.
const NO_CUTS: usize = BUFFERS;

/// Cuts that a phase can have.
const CUTS: usize = WORDS / CUT_WORDS;

/// A buffer of [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferId(u8);

#[derive(Clone, Copy)]
struct Buffer {
    base: *mut u8,
    bytes: usize,
}

/// The buffers that a step writes, borrowed for its time.
pub(crate) struct Memory<'m> {
    buffers: [Buffer; BUFFERS],
    count: u8,
    borrowed: PhantomData<&'m mut [u8]>,
}

// SAFETY: the bytes are reached through phases only. `run` takes the memory and lends it to the threads of one pool, and
// `Phases::open` and the methods of `Phase` keep what these write apart from all else.
unsafe impl Sync for Memory<'_> {}

impl<'m> Memory<'m> {
    pub(crate) const fn new() -> Self {
        let none = Buffer { base: core::ptr::NonNull::dangling().as_ptr(), bytes: 0 };
        Self { buffers: [none; BUFFERS], count: 0, borrowed: PhantomData }
    }

    /// Adds a buffer of bytes.
    ///
    /// # Panics
    /// When there are too many.
    pub(crate) fn lend(&mut self, bytes: &'m mut [u8]) -> BufferId {
        let id = BufferId(self.count);
        self.buffers[usize::from(self.count)] = Buffer { base: bytes.as_mut_ptr(), bytes: bytes.len() };
        self.count += 1;
        id
    }

    fn buffer(&self, id: BufferId) -> Buffer {
        self.buffers[usize::from(id.0)]
    }
}

/// A matrix in a buffer: rows at equal distances. Sizes of its cuts are in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    buffer: BufferId,
    /// Bytes of an element.
    element: usize,
    /// First byte.
    start: usize,
    rows: usize,
    /// Bytes from one row to the next.
    stride: usize,
}

impl Region {
    /// Rows of `stride` floats from float `start` on.
    pub(crate) const fn floats(buffer: BufferId, start: usize, rows: usize, stride: usize) -> Self {
        Self { buffer, element: 4, start: 4 * start, rows, stride: 4 * stride }
    }

    /// Rows of `stride` bytes from byte `start` on.
    pub(crate) const fn bytes(buffer: BufferId, start: usize, rows: usize, stride: usize) -> Self {
        Self { buffer, element: 1, start, rows, stride }
    }

    /// A unit for each `chunk` of `columns` columns, over all rows.
    pub(crate) const fn by_columns(self, columns: usize, chunk: usize) -> Cut {
        let count = columns.div_ceil(chunk);
        let last = if count == 0 { 0 } else { columns - (count - 1) * chunk };
        let (step, last) = (chunk * self.element, last * self.element);
        Cut { region: self, count, step, len: step, last, each_row: false, owner: Owner::Tasks { first: 0 } }
    }

    /// A unit for each row and `chunk` of `columns` columns. Units of the same columns follow each other, row by row.
    pub(crate) const fn by_cells(self, columns: usize, chunk: usize) -> Cut {
        Cut { each_row: true, ..self.by_columns(columns, chunk) }
    }

    /// A unit for each row of `columns` columns.
    pub(crate) const fn by_rows(self, columns: usize) -> Cut {
        let len = columns * self.element;
        let owner = Owner::Tasks { first: 0 };
        Cut { region: self, count: 1, step: len, len, last: len, each_row: true, owner }
    }

    /// A unit for each of `count` parts of `len` columns, `step` columns apart, over all rows.
    pub(crate) const fn by_parts(self, count: usize, step: usize, len: usize) -> Cut {
        let (step, len) = (step * self.element, len * self.element);
        let owner = Owner::Tasks { first: 0 };
        Cut { region: self, count, step, len, last: len, each_row: false, owner }
    }
}

/// The owners of the units of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Tasks `first ..`: unit u is task `first + u`.
    Tasks { first: usize },
    /// Threads: unit u is thread u's.
    Threads,
}

/// Cells that a phase writes, divided into units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    region: Region,
    /// Pieces of a row.
    count: usize,
    /// Bytes from one piece to the next.
    step: usize,
    /// Bytes of a piece.
    len: usize,
    /// Bytes of the last piece.
    last: usize,
    /// True if a unit is one piece of one row, false if it is one piece of every row.
    each_row: bool,
    owner: Owner,
}

impl Cut {
    /// Tasks that write nothing by this cut.
    pub(crate) const fn tasks(count: usize) -> Self {
        Region::bytes(BufferId(0), 0, 0, 0).by_parts(count, 0, 0)
    }

    /// The same cut, with its units as the tasks from `first` on.
    pub(crate) const fn at_task(self, first: usize) -> Self {
        Self { owner: Owner::Tasks { first }, ..self }
    }

    /// The same cut, with its units as the threads'.
    pub(crate) const fn by_thread(self) -> Self {
        Self { owner: Owner::Threads, ..self }
    }

    /// Number of units.
    pub(crate) const fn units(&self) -> usize {
        if self.each_row { self.region.rows * self.count } else { self.count }
    }

    /// The bytes between the first and the last cell of all units.
    ///
    /// # Panics
    /// When cells of two units coincide, or lie outside of a buffer of `bytes` bytes.
    fn extent(&self, bytes: usize) -> Range<usize> {
        let Region { start, rows, stride, .. } = self.region;
        if rows == 0 || self.count == 0 {
            return 0..0;
        }
        assert!(self.len <= self.step && self.last <= self.len, "pieces of a row coincide");
        let row = (self.count - 1).checked_mul(self.step).and_then(|before| before.checked_add(self.last));
        let row = row.expect("bytes of a row");
        assert!(rows == 1 || row <= stride, "rows coincide");
        let end =
            (rows - 1).checked_mul(stride).and_then(|before| before.checked_add(row)?.checked_add(start));
        let end = end.filter(|end| *end <= bytes).expect("cells outside of the buffer");
        start..end
    }

    /// True if no cell is in both cuts, whose extents are `a` and `b`.
    fn apart(&self, other: &Self, a: &Range<usize>, b: &Range<usize>) -> bool {
        if self.region.buffer != other.region.buffer || a.is_empty() || b.is_empty() {
            return true;
        }
        if a.end <= b.start || b.end <= a.start {
            return true;
        }
        // Pieces at one distance from each other, over all rows, can lie between each other.
        let step = self.step;
        let whole = |cut: &Self| cut.region.rows == 1 || cut.region.stride.is_multiple_of(step);
        if step == 0 || other.step != step || !whole(self) || !whole(other) {
            return false;
        }
        let (first, len, second_len) = if a.start <= b.start {
            (b.start - a.start, self.len, other.len)
        } else {
            (a.start - b.start, other.len, self.len)
        };
        let distance = first % step;
        len <= distance && distance + second_len <= step
    }

    /// Numbers that determine the cut.
    fn words(&self, cuts: usize) -> [usize; CUT_WORDS] {
        let Region { buffer, start, rows, stride, .. } = self.region;
        let (threads, first) = match self.owner {
            Owner::Tasks { first } => (0, first),
            Owner::Threads => (1, 0),
        };
        assert!(first < 1 << 24, "tasks of a phase");
        let flags = usize::from(buffer.0) | usize::from(self.each_row) << 5 | threads << 6;
        let flags = flags | first << 7;
        let few = |number: usize| u32::try_from(number).is_ok();
        assert!(few(rows) && few(self.count) && cuts <= CUTS, "rows and pieces of a cut");
        [flags, start, rows, stride, self.count * 8 + cuts, self.step, self.len, self.last]
    }

    /// First byte and length of piece `at` of units `first ..`, `units` of them.
    ///
    /// # Panics
    /// When the units have no such piece.
    #[inline]
    fn piece(&self, units: &Range<usize>, at: usize) -> (usize, usize) {
        let Region { start, rows, stride, .. } = self.region;
        let (row, column) = if self.each_row {
            let unit = units.start + at;
            assert!(unit < units.end && unit < self.units(), "a unit of a task");
            (unit % rows, unit / rows)
        } else {
            assert!(units.len() == 1 && units.start < self.count && at < rows, "a row of a task");
            (at, units.start)
        };
        let len = if column + 1 == self.count { self.last } else { self.len };
        (start + row * stride + column * self.step, len)
    }
}

/// A list of cuts without an allocation.
#[derive(Debug)]
pub(crate) struct Cuts {
    list: [Cut; CUTS],
    len: usize,
}

impl Cuts {
    pub(crate) const fn new() -> Self {
        Self { list: [Cut::tasks(0); CUTS], len: 0 }
    }

    /// Adds a cut.
    ///
    /// # Panics
    /// When there are too many.
    pub(crate) fn push(&mut self, cut: Cut) {
        self.list[self.len] = cut;
        self.len += 1;
    }
}

impl core::ops::Deref for Cuts {
    type Target = [Cut];

    fn deref(&self) -> &[Cut] {
        &self.list[..self.len]
    }
}

/// Pointer to the threads' own memory.
struct Locals<L>(*mut L);

// SAFETY: each thread takes the element with its own number, which may be used there since it is `Send`.
unsafe impl<L: Send> Sync for Locals<L> {}

impl<L> Locals<L> {
    /// Element `index`.
    ///
    /// # Safety
    /// The element must be there and not be used otherwise.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps the references apart")]
    unsafe fn get(&self, index: usize) -> &mut L {
        // SAFETY: the caller promises it.
        unsafe { &mut *self.0.add(index) }
    }
}

/// Runs `job` on every thread of the pool, with the phases over `memory` and the thread's own element of `locals`.
///
/// # Panics
/// When there are fewer locals than threads, or a thread panics.
pub(crate) fn run<L: Send>(
    pool: &mut ThreadPool,
    memory: &mut Memory<'_>,
    locals: &mut [L],
    job: impl Fn(&mut Phases<'_>, &mut L) + Sync,
) {
    assert!(pool.threads() <= locals.len(), "memory of every thread");
    let (memory, locals) = (&*memory, Locals(locals.as_mut_ptr()));
    let locals = &locals;
    pool.run(&|team| {
        // SAFETY: there is one for each thread, as just checked; a pool runs its job once for each number.
        let local = unsafe { locals.get(team.index()) };
        job(&mut Phases { team, memory, open: false }, local);
    });
}

/// A thread's access to the phases of a job.
pub(crate) struct Phases<'t> {
    team: &'t Team<'t>,
    memory: &'t Memory<'t>,
    /// A phase has begun that was not ended.
    open: bool,
}

impl Phases<'_> {
    /// This thread's number, from 0.
    #[cfg(test)]
    fn index(&self) -> usize {
        self.team.index()
    }

    /// Threads in the team.
    pub(crate) fn threads(&self) -> usize {
        self.team.threads()
    }

    /// Opens the next phase, in which the cells of `cuts` are written. All threads must pass the same cuts.
    ///
    /// # Panics
    /// When two cuts have a cell in common, a cut lies outside of its buffer, another thread has passed other cuts, or
    /// the last phase was not ended.
    pub(crate) fn open<'p>(&'p mut self, cuts: &'p [Cut]) -> Phase<'p> {
        assert!(!self.open && cuts.len() <= CUTS, "one phase at a time, of few cuts");
        let mut extents = [const { 0..0 }; CUTS];
        let mut tasks = 0;
        for (index, cut) in cuts.iter().enumerate() {
            let extent = cut.extent(self.memory.buffer(cut.region.buffer).bytes);
            for (before, other) in cuts.iter().zip(&extents).take(index) {
                assert!(before.apart(cut, other, &extent), "two cuts of a phase have cells in common");
            }
            extents[index] = extent;
            for (word, value) in cut.words(cuts.len()).into_iter().enumerate() {
                let agreed = self.team.agrees(CUT_WORDS * index + word, value);
                assert!(agreed, "the threads of a phase have different cuts");
            }
            if let Owner::Tasks { first } = cut.owner {
                tasks = tasks.max(first + cut.units());
            }
        }
        assert!(u32::try_from(tasks).is_ok(), "tasks of a phase");
        if cuts.is_empty() {
            assert!(self.team.agrees(0, NO_CUTS), "the threads of a phase have different cuts");
        }
        self.open = true;
        let Self { team, memory, open } = self;
        Phase { team, memory, open, cuts, extents, tasks, cursor: Cell::new(0) }
    }
}

/// A phase, for one thread: what it reads, and the tasks it claims.
pub(crate) struct Phase<'p> {
    team: &'p Team<'p>,
    memory: &'p Memory<'p>,
    open: &'p mut bool,
    cuts: &'p [Cut],
    extents: [Range<usize>; CUTS],
    tasks: usize,
    /// Threads whose shares are used up, from this one on.
    cursor: Cell<usize>,
}

impl Phase<'_> {
    /// Bytes that are not written in this phase.
    ///
    /// # Panics
    /// When the buffer has no such bytes, or a cut has.
    pub(crate) fn bytes(&self, buffer: BufferId, first: usize, count: usize) -> &[u8] {
        let Buffer { base, bytes } = self.memory.buffer(buffer);
        let end = first.checked_add(count).filter(|end| *end <= bytes).expect("bytes of a buffer");
        for (cut, extent) in self.cuts.iter().zip(&self.extents) {
            let apart = cut.region.buffer != buffer
                || end <= extent.start
                || extent.end <= first
                || extent.is_empty();
            assert!(apart, "cells are read that this phase writes");
        }
        // SAFETY: the bytes lie in a buffer that `run` has exclusively and that was initialized. All threads have agreed
        // on the cuts, so no thread writes the bytes in this phase; the reference ends with the borrow of the phase, and
        // `end` takes the phase by value before this thread passes the barrier.
        unsafe { core::slice::from_raw_parts(base.add(first), count) }
    }

    /// Floats that are not written in this phase.
    ///
    /// # Panics
    /// When the buffer has no such floats, or a cut has.
    pub(crate) fn floats(&self, buffer: BufferId, first: usize, count: usize) -> &[f32] {
        let bytes = self.bytes(buffer, 4 * first, 4 * count);
        assert!(bytes.as_ptr().cast::<f32>().is_aligned(), "floats of a buffer");
        // SAFETY: as many bytes, aligned as just checked; any bytes are floats.
        unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), count) }
    }

    /// The next task, which no other thread gets.
    pub(crate) fn next_task(&self) -> Option<Task<'_>> {
        self.next_run(|_, _| 1)
    }

    /// The next tasks, as many as `wanted` returns for the first of them and the number that can be had.
    pub(crate) fn next_run(&self, wanted: impl Fn(usize, usize) -> usize) -> Option<Task<'_>> {
        let range = self.team.claim(&self.cursor, self.tasks, wanted)?;
        Some(Task { phase: self, range })
    }

    /// The unit of cut `cut` that is this thread's, if there is one.
    ///
    /// # Panics
    /// When the cut is not by threads.
    pub(crate) fn own(&mut self, cut: usize) -> Option<Share<'_>> {
        let cut = &self.cuts[cut];
        assert!(cut.owner == Owner::Threads, "a cut by threads");
        let unit = self.team.index();
        (unit < cut.units()).then(|| Share::new(self.memory, cut, unit..unit + 1))
    }

    /// Ends the phase: waits for all threads.
    ///
    /// # Panics
    /// When another thread has panicked.
    pub(crate) fn end(self) {
        *self.open = false;
        self.team.barrier();
    }
}

/// Consecutive tasks that only this thread has.
pub(crate) struct Task<'p> {
    phase: &'p Phase<'p>,
    range: Range<usize>,
}

impl Task<'_> {
    /// The first task.
    pub(crate) fn first(&self) -> usize {
        self.range.start
    }

    /// Number of tasks.
    pub(crate) fn count(&self) -> usize {
        self.range.len()
    }

    /// Number of the task among those of cut `cut`; `None` if it is not one of them.
    pub(crate) fn unit(&self, cut: usize) -> Option<usize> {
        self.units(cut).map(|units| units.start)
    }

    fn units(&self, cut: usize) -> Option<Range<usize>> {
        let cut = &self.phase.cuts[cut];
        let Owner::Tasks { first } = cut.owner else { return None };
        let start = self.range.start.checked_sub(first)?;
        let end = self.range.end - first;
        (end <= cut.units()).then_some(start..end)
    }

    /// The cells of cut `cut` that are the tasks'.
    ///
    /// # Panics
    /// When the tasks are not all of that cut.
    pub(crate) fn share(&mut self, cut: usize) -> Share<'_> {
        let units = self.units(cut).expect("tasks of a cut");
        Share::new(self.phase.memory, &self.phase.cuts[cut], units)
    }
}

/// The cells of some units of a cut, piece by piece: one per row, or one per unit where a unit is one piece.
pub(crate) struct Share<'a> {
    memory: &'a Memory<'a>,
    cut: &'a Cut,
    units: Range<usize>,
}

impl<'a> Share<'a> {
    /// The caller must own the units: a task's by its ticket, a thread's by its number.
    fn new(memory: &'a Memory<'a>, cut: &'a Cut, units: Range<usize>) -> Self {
        Self { memory, cut, units }
    }

    /// The bytes of piece `at`.
    ///
    /// # Panics
    /// When there is no such piece.
    pub(crate) fn bytes(&mut self, at: usize) -> &mut [u8] {
        let (start, len) = self.cut.piece(&self.units, at);
        let base = self.memory.buffer(self.cut.region.buffer).base;
        // SAFETY: `Phases::open` checked that the cut lies in its buffer, which was initialized and which `run` has
        // exclusively; that its units and the other cuts have no cell in common; and that all threads have the same
        // cuts. The units are this thread's alone: a ticket is claimed once, and no other thread has its number. The
        // reference borrows this share, which borrows its task, or the phase, exclusively.
        unsafe { core::slice::from_raw_parts_mut(base.add(start), len) }
    }

    /// The floats of piece `at`.
    ///
    /// # Panics
    /// When there is no such piece.
    pub(crate) fn floats(&mut self, at: usize) -> &mut [f32] {
        let bytes = self.bytes(at);
        assert!(bytes.as_ptr().cast::<f32>().is_aligned(), "floats of a buffer");
        // SAFETY: the same bytes, aligned as just checked; any bytes are floats, and any floats bytes.
        unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / 4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Lines;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::panic::AssertUnwindSafe;
    use doorbell_core::heap::Global;
    use std::panic::catch_unwind;

    const ONE: BufferId = BufferId(0);

    fn refuses<R>(f: impl FnOnce() -> R) -> bool {
        catch_unwind(AssertUnwindSafe(f)).is_err()
    }

    /// All cells of a cut, by unit.
    fn cells(cut: &Cut) -> Vec<Vec<usize>> {
        let pieces = if cut.each_row { 1 } else { cut.region.rows };
        let piece = |unit: usize, at: usize| {
            let (start, len) = cut.piece(&(unit..unit + 1), at);
            start..start + len
        };
        (0..cut.units()).map(|unit| (0..pieces).flat_map(|at| piece(unit, at)).collect()).collect()
    }

    fn some_cuts() -> Vec<Cut> {
        let mut cuts = Vec::new();
        for (start, rows, stride) in [(0, 3, 12), (5, 1, 9), (40, 2, 6), (2, 3, 12), (3, 4, 6), (0, 0, 4)] {
            let region = Region::bytes(ONE, start, rows, stride);
            cuts.extend([region.by_rows(5), region.by_columns(5, 2), region.by_cells(6, 4)]);
            cuts.extend([region.by_parts(2, 3, 1), region.by_parts(3, 3, 2), region.by_parts(2, 3, 3)]);
        }
        cuts
    }

    #[test]
    fn units_have_no_cell_in_common() {
        let mut accepted = 0;
        for cut in some_cuts() {
            let Ok(extent) = catch_unwind(|| cut.extent(60)) else { continue };
            let mut seen = [false; 60];
            for cell in cells(&cut).into_iter().flatten() {
                assert!(extent.contains(&cell) && !core::mem::replace(&mut seen[cell], true), "{cut:?}");
            }
            accepted += 1;
        }
        assert!(accepted > 20, "{accepted}");
    }

    #[test]
    fn cuts_that_are_apart_have_no_cell_in_common() {
        let mut apart = 0;
        for a in some_cuts() {
            for b in some_cuts() {
                let extents = catch_unwind(|| (a.extent(60), b.extent(60)));
                let Ok((first, second)) = extents else { continue };
                if a.apart(&b, &first, &second) {
                    let others: Vec<usize> = cells(&b).into_iter().flatten().collect();
                    assert!(cells(&a).iter().flatten().all(|cell| !others.contains(cell)), "{a:?} {b:?}");
                    apart += usize::from(first.end > second.start && second.end > first.start);
                }
            }
        }
        assert!(apart > 5, "cuts between each other: {apart}");
    }

    #[test]
    fn cuts_outside_of_their_buffer_are_refused() {
        let region = Region::bytes(ONE, 10, 3, 10);
        assert_eq!(region.by_rows(10).extent(40), 10..40);
        assert!(refuses(|| region.by_rows(10).extent(39)));
        assert!(refuses(|| region.by_rows(11).extent(100)));
        assert!(refuses(|| region.by_parts(2, 4, 5).extent(100)));
        assert!(refuses(|| Region::bytes(ONE, usize::MAX, 2, 1).by_rows(1).extent(100)));
        assert!(refuses(|| Region::bytes(ONE, 0, usize::MAX, usize::MAX / 2).by_rows(1).extent(100)));
    }

    #[test]
    fn threads_write_a_matrix_together_and_read_it_after() {
        for threads in [1, 2, 3] {
            let mut pool = ThreadPool::new(threads).unwrap();
            let (mut matrix, mut bests) = (Lines::new(&Global), Lines::new(&Global));
            matrix.grow_numbers(7 * 20).unwrap();
            bests.grow_numbers(threads).unwrap();
            let mut memory = Memory::new();
            let (buffer, best) = (memory.lend(matrix.bytes_mut()), memory.lend(bests.bytes_mut()));
            let mut locals = vec![0; threads];
            run(&mut pool, &mut memory, &mut locals, |phases, local| {
                for round in 0..5 {
                    let cuts = [
                        Region::floats(buffer, 0, 7, 20).by_columns(20, 3),
                        Region::floats(best, 0, threads, 1).by_rows(1).by_thread(),
                    ];
                    let mut phase = phases.open(&cuts);
                    while let Some(mut task) = phase.next_task() {
                        *local += task.count();
                        let column = 3 * task.first();
                        for row in 0..7 {
                            for (i, x) in task.share(0).floats(row).iter_mut().enumerate() {
                                *x += (row * 20 + column + i) as f32;
                            }
                        }
                    }
                    phase.own(1).unwrap().floats(0)[0] = round as f32;
                    phase.end();
                    let phase = phases.open(&[]);
                    let all = phase.floats(buffer, 0, 140);
                    assert!(all.iter().enumerate().all(|(at, x)| *x == (at * (round + 1)) as f32));
                    assert!(phase.floats(best, 0, threads).iter().all(|x| *x == round as f32));
                    phase.end();
                }
            });
            assert_eq!(locals.iter().sum::<usize>(), 5 * 7);
            assert_eq!(matrix.floats()[139], 5.0 * 139.0);
        }
    }

    /// Runs `job` on two threads over a buffer of 64 bytes; true if it panics.
    fn fails(job: impl Fn(&mut Phases<'_>, BufferId) + Sync) -> bool {
        let (mut pool, mut bytes) = (ThreadPool::new(2).unwrap(), [0; 64]);
        let mut memory = Memory::new();
        let buffer = memory.lend(&mut bytes);
        refuses(|| run(&mut pool, &mut memory, &mut [(), ()], |phases, ()| job(phases, buffer)))
    }

    #[test]
    fn what_could_race_is_refused() {
        let rows = |buffer, start| Region::bytes(buffer, start, 2, 16).by_rows(16);
        assert!(!fails(|phases, buffer| phases.open(&[rows(buffer, 0), rows(buffer, 32)]).end()));
        // Cells in two cuts.
        assert!(fails(|phases, buffer| phases.open(&[rows(buffer, 0), rows(buffer, 31)]).end()));
        // Cells that are read and written.
        assert!(fails(|phases, buffer| {
            let cuts = [rows(buffer, 0)];
            let phase = phases.open(&cuts);
            let _ = phase.bytes(buffer, 31, 2);
            phase.end();
        }));
        // Threads with different cuts.
        assert!(fails(|phases, buffer| {
            let cuts = [rows(buffer, 16 * phases.index())];
            phases.open(&cuts).end();
        }));
        // Threads of which one has no cuts.
        assert!(fails(|phases, buffer| {
            let cuts = [rows(buffer, 0)];
            phases.open(&cuts[..phases.index()]).end();
        }));
        // A phase that was not ended.
        assert!(fails(|phases, buffer| {
            let _ = phases.open(&[rows(buffer, 0)]);
            phases.open(&[rows(buffer, 32)]).end();
        }));
    }
}
