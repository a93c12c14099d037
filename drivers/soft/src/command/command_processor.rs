//! The command processor of one GPU: dispatches in flight, completion signals, errors.
//!
//! Not here: packets (`aql.rs`, `pm4.rs`, `sdma.rs`), running a queue (`run_queue.rs`).

use alloc::vec::Vec;

use doorbell_isa::Target;
use doorbell_kfd::packet::Encoding;

use super::queue::{Queue, QueueKind};
use crate::code::DescriptorError;
use crate::memory::{Access, MemoryFault, Random, Space};
use crate::processor::{Cause, Dispatch, Engine, Fault, Message, Model, Options, Profile, Report, Trap};

/// A notice of the command processor for the kernel.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// An interrupt with this context id.
    Interrupt(u32),
    /// An interrupt that a wave sent.
    Wave(Message),
    /// A page fault; all queues of the process on this GPU stop.
    PageFault {
        /// Address, rounded down to its page.
        page: u64,
        /// A store.
        write: bool,
        /// Something is mapped there that forbids the access.
        present: bool,
    },
}

/// A dispatch in flight, with its completion signal.
pub(super) struct InFlight {
    pub(super) dispatch: Dispatch,
    pub(super) signal: u64,
    pub(super) profiled: bool,
    /// Encoding of the packet that launched it.
    pub(super) encoding: Encoding,
}

/// Result of one packet for its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// Consumed something.
    Advanced,
    /// Nothing to do, or a condition does not hold yet.
    Waits,
    /// Stopped.
    Stopped,
}

/// Clock values of a dispatch's start and end.
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    end: u64,
}

/// The command processor of one GPU.
pub struct CommandProcessor {
    pub(super) engine: Engine,
    pub(super) random: Random,
    /// Report of all dispatches.
    pub report: Report,
    /// Faults of waves, oldest first, at most [`CommandProcessor::MOST`].
    pub faults: Vec<Fault>,
    /// Kernels that were refused, by the address of descriptor or code, oldest first, at most [`CommandProcessor::MOST`].
    pub refusals: Vec<(u64, DescriptorError)>,
    /// Simple kernels for waves of 64 lanes run as two waves of 32, which AMD's own runtime needs.
    pub splits_wave64: bool,
    /// The process's trap handler and its data.
    pub trap: Option<(u64, u64)>,
    pub(super) notices: Vec<Notice>,
    pub(super) batch: Vec<InFlight>,
    pub(super) registers: Vec<u32>,
    /// A packet since the last batch has emptied the caches.
    pub(super) acquired: bool,
    /// Modelled time so far, where dispatches are counted.
    ticks: u64,
}

/// Dispatches that may be in flight without a barrier between them.
const MOST_IN_FLIGHT: usize = 4;
/// PM4 shader registers kept.
const REGISTERS: usize = 0x400;
/// Nanoseconds of a tick.
const TICK: f64 = 10.0;

impl CommandProcessor {
    /// Faults and refusals kept.
    pub const MOST: usize = 32;

    /// A command processor for a chip.
    pub fn new(target: Target, options: Options) -> Self {
        Self {
            random: Random::new(options.seed ^ 0x6370),
            engine: Engine::new(target, options),
            report: Report::default(),
            faults: Vec::new(),
            refusals: Vec::new(),
            splits_wave64: false,
            trap: None,
            notices: Vec::new(),
            batch: Vec::new(),
            registers: alloc::vec![0; REGISTERS],
            acquired: false,
            ticks: 0,
        }
    }

    /// The GPU's clock, 100 MHz: one tick per wave instruction here, or modelled time where dispatches are counted.
    pub fn clock(&self) -> u64 {
        if self.engine.options().count { self.ticks } else { self.report.instructions }
    }

    /// End of the packets in a ring: the doorbell, or the write pointer as the scheduler reads it.
    pub(super) fn limit(&mut self, queue: &Queue, space: &mut Space) -> Result<u64, MemoryFault> {
        let written = space.load64(queue.write_pointer)?;
        let Some(rung) = queue.rung else { return Ok(queue.read) };
        let rung = if queue.kind == QueueKind::Aql { rung.wrapping_add(1) } else { rung };
        Ok(if self.random.once_in(2) { rung.max(written) } else { rung })
    }

    /// Records a kernel that cannot run on this chip or in this software.
    pub(super) fn refuse(&mut self, address: u64, error: DescriptorError) {
        if self.refusals.len() < Self::MOST {
            self.refusals.push((address, error));
        }
    }

    /// Adds a dispatch to those in flight.
    pub(super) fn launch(&mut self, queue: &Queue, space: &mut Space, flight: InFlight) -> bool {
        self.batch.push(flight);
        self.batch.len() < MOST_IN_FLIGHT || self.flush(queue, space)
    }

    /// Runs everything in flight to its end and signals it; false if the queue has to stop.
    pub(super) fn flush(&mut self, queue: &Queue, space: &mut Space) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        let mut batch = core::mem::take(&mut self.batch);
        let (start, counted) = (self.clock(), self.engine.profiles().len());
        if !core::mem::take(&mut self.acquired) {
            self.engine.keep_caches();
        }
        let dispatches: Vec<Dispatch> = batch.iter().map(|flight| flight.dispatch.clone()).collect();
        let doorbell = queue.doorbell;
        self.engine.set_trap(self.trap.map(|(handler, data)| Trap { handler, data, doorbell }));
        let outcome = self.engine.run_into(&dispatches, space, &mut self.report);
        self.notices.extend(self.report.messages.drain(..).map(Notice::Wave));
        if let Err(fault) = outcome {
            if let Cause::Memory(memory) = &fault.cause {
                self.page_fault(memory, memory.access);
            }
            if self.faults.len() < Self::MOST {
                self.faults.push(fault);
            }
            // A wave that cannot continue is halted, by a trap handler if there is one: the dispatch never completes.
            return false;
        }
        // All of a batch have the same encoding: only packets of one kind do not wait.
        let encoding = batch.first().map_or(Encoding::Aql, |flight| flight.encoding);
        let mut times = self.advance(start, counted, encoding);
        times.resize(batch.len(), Span { start, end: self.clock() });
        let mut batch: Vec<_> = batch.drain(..).zip(times).collect();
        // Nothing orders the completions of dispatches that overlap.
        while !batch.is_empty() {
            let (flight, times) = batch.swap_remove(self.random.below(batch.len()));
            if let Err(fault) = self.complete(&flight, times, space) {
                self.page_fault(&fault, Access::Write);
                return false;
            }
        }
        true
    }

    /// Advances the clock by the modelled time of the dispatches after the first `counted`; returns their spans.
    fn advance(&mut self, start: u64, counted: usize, encoding: Encoding) -> Vec<Span> {
        let model = Model::of_target(self.engine.target()).submitting(encoding);
        let mut times = Vec::new();
        let mut now = start;
        for profile in self.engine.profiles().iter().skip(counted) {
            let begin = now;
            now += ((model.time(profile).total() / TICK) as u64).max(1);
            times.push(Span { start: begin, end: now });
        }
        self.ticks += now - start;
        times
    }

    fn complete(
        &mut self,
        flight: &InFlight,
        Span { start, end }: Span,
        space: &mut Space,
    ) -> Result<(), MemoryFault> {
        let signal = flight.signal;
        if signal != 0 && flight.profiled {
            space.store64(signal.wrapping_add(32), start)?;
            space.store64(signal.wrapping_add(40), end)?;
        }
        self.signal(signal, space)
    }

    /// Decrements a completion signal and interrupts for its event.
    pub(super) fn signal(&mut self, signal: u64, space: &mut Space) -> Result<(), MemoryFault> {
        if signal == 0 {
            return Ok(());
        }
        space.subtract64(signal.wrapping_add(8), 1)?;
        self.mailbox(signal, space)
    }

    /// Writes a signal's event id to its mailbox, then interrupts.
    pub(super) fn mailbox(&mut self, signal: u64, space: &mut Space) -> Result<(), MemoryFault> {
        let mailbox = space.load64(signal.wrapping_add(16))?;
        if mailbox != 0 {
            let event = space.load32(signal.wrapping_add(24))?;
            space.store64(mailbox, event.into())?;
            self.notices.push(Notice::Interrupt(event));
        }
        Ok(())
    }

    pub(super) fn page_fault(&mut self, fault: &MemoryFault, access: Access) -> Outcome {
        let write = access == Access::Write || fault.access == Access::Write;
        let notice = Notice::PageFault { page: fault.address & !4095, write, present: fault.forbidden };
        self.notices.push(notice);
        Outcome::Stopped
    }

    /// Profiles of the dispatches since the last call, if they are counted.
    pub fn take_profiles(&mut self) -> Vec<Profile> {
        self.engine.take_profiles()
    }

    /// The processor, for its coverage and options.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }
}
