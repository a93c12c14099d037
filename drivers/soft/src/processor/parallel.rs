//! Workgroups on several host threads.
//!
//! Only if no group can see another, so that any order gives the same memory; counts are sums, findings are sorted,
//! and of several faults the one of the first group is reported. After a fault, groups behind it may have run. Not
//! here: the dependence between groups (`dependence.rs`).

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use super::dispatch::{Dispatch, group_count};
use super::engine::{Engine, fault_of, is_blocked};
use super::fault::{Cause, Fault};
use super::options::{Level, Options};
use super::report::Report;
use crate::memory::Space;

/// Smallest number of groups for which threads are worth their cost.
const FEWEST: u64 = 4;

/// State that the threads share.
struct Work<'a> {
    dispatches: &'a [Dispatch],
    /// Number of the first group behind each dispatch.
    ends: Vec<u64>,
    next: AtomicU64,
    /// First group that faulted.
    stopped: AtomicU64,
}

impl Work<'_> {
    fn take(&self) -> Option<(&Dispatch, u64, u64)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number > self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let at = self.ends.partition_point(|end| *end <= number);
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some((self.dispatches.get(at)?, number - start, number))
    }
}

/// Result of one thread.
#[derive(Default)]
struct ThreadResult {
    report: Report,
    changes: u64,
    fault: Option<(u64, Fault)>,
}

impl Engine {
    /// Runs dispatches on several threads; `None` if that is not possible or not worth it.
    pub(super) fn run_parallel(
        &mut self,
        dispatches: &[Dispatch],
        space: &mut Space,
        report: &mut Report,
    ) -> Option<Result<(), Fault>> {
        let Options { level, threads, budget, .. } = self.options;
        // One thread takes the groups in the same order: they stay in the host's caches, and faults are the same.
        let threads = if cfg!(feature = "std") { threads.max(1) } else { 1 };
        if level != Level::Fast || budget != u64::MAX || self.options.count {
            return None;
        }
        let mut total = 0_u64;
        let mut ends = Vec::new();
        for dispatch in dispatches {
            let count = group_count(dispatch);
            total = total.checked_add(count)?;
            ends.push(total);
        }
        let dependent = |engine: &mut Self, space: &mut Space| {
            dispatches.iter().any(|dispatch| engine.program.is_dependent(dispatch.entry, space))
        };
        if total < FEWEST || dependent(self, space) {
            return None;
        }
        let views: Vec<Space> = (0..threads).map_while(|_| space.view()).collect();
        if views.len() != threads {
            return None;
        }
        let work = Work { dispatches, ends, next: AtomicU64::new(0), stopped: AtomicU64::new(u64::MAX) };
        Some(merge(self.run_threads(&work, views), space, report))
    }

    #[cfg(not(feature = "std"))]
    fn run_threads(&mut self, work: &Work<'_>, views: Vec<Space>) -> Vec<ThreadResult> {
        views.into_iter().take(1).map(|view| self.run_groups(work, view)).collect()
    }

    #[cfg(feature = "std")]
    fn run_threads(&mut self, work: &Work<'_>, views: Vec<Space>) -> Vec<ThreadResult> {
        let one = Options { threads: 1, ..self.options.clone() };
        while self.workers.len() + 1 < views.len() {
            let mut worker = Self::new(self.target, one.clone());
            worker.set_trap(self.trap);
            self.workers.push(worker);
        }
        let mut workers = core::mem::take(&mut self.workers);
        let done = std::thread::scope(|scope| {
            let mut views = views.into_iter();
            let mine = views.next();
            let others: Vec<_> = workers
                .iter_mut()
                .zip(views)
                .map(|(engine, mut view)| {
                    scope.spawn(move || {
                        engine.program.revalidate(&mut view);
                        engine.run_groups(work, view)
                    })
                })
                .collect();
            let mut done: Vec<ThreadResult> =
                mine.map(|view| self.run_groups(work, view)).into_iter().collect();
            done.extend(others.into_iter().filter_map(|thread| thread.join().ok()));
            done
        });
        self.workers = workers;
        done
    }

    /// Takes groups until there are none.
    fn run_groups(&mut self, work: &Work<'_>, mut space: Space) -> ThreadResult {
        let mut done = ThreadResult::default();
        while let Some((dispatch, number, position)) = work.take() {
            if let Err(fault) = self.run_to_end(dispatch, number, &mut space, &mut done.report) {
                work.stopped.fetch_min(position, Ordering::Relaxed);
                if done.fault.as_ref().is_none_or(|(first, _)| position < *first) {
                    done.fault = Some((position, fault));
                }
            }
        }
        done.changes = space.changes;
        done
    }

    /// Runs one group to its end.
    fn run_to_end(
        &mut self,
        dispatch: &Dispatch,
        number: u64,
        space: &mut Space,
        report: &mut Report,
    ) -> Result<(), Fault> {
        let mut group = self.group(dispatch, number);
        let mut changes = (space.changes, report.instructions);
        while !group.is_over() {
            let moved = self.run_group(&mut group, space, report, u64::MAX)?;
            if let Some(fault) = group.halted() {
                return Err(fault);
            }
            if space.changes != changes.0 {
                changes = (space.changes, report.instructions);
            }
            let stuck = report.instructions - changes.1 > self.options.patience;
            if !group.is_over() && (stuck || (!moved && is_blocked(&group))) {
                return Err(fault_of(&group, Cause::Deadlock));
            }
        }
        report.groups += 1;
        Ok(())
    }
}

fn merge(done: Vec<ThreadResult>, space: &mut Space, report: &mut Report) -> Result<(), Fault> {
    let mut fault = None;
    let mut findings = Vec::new();
    for part in done {
        report.add(&part.report);
        findings.extend(part.report.findings);
        space.changes = space.changes.wrapping_add(part.changes);
        if let Some((position, found)) = part.fault
            && fault.as_ref().is_none_or(|(first, _)| position < *first)
        {
            fault = Some((position, found));
        }
    }
    findings.sort_by_key(|finding| (finding.pc, finding.group, finding.wave));
    findings.into_iter().for_each(|finding| report.find(finding));
    let Some((_, mut fault)) = fault else { return Ok(()) };
    // The threads' views have no names of regions.
    if let Cause::Memory(memory) = &fault.cause
        && let Err(named) = space.check(memory.address, memory.len, memory.access)
    {
        fault.cause = Cause::Memory(named);
    }
    Err(fault)
}
