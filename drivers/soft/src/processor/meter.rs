//! Counts of one dispatch: instructions, bytes by cache level, LDS conflicts.
//!
//! The caches are models: groups run one after another on compute units in turn, lines are 128 bytes, a store goes
//! through to L2. Reuse between groups that a chip runs at the same time may be better or worse there. Not here: the
//! cost of a count (`model.rs`).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use doorbell_isa::{Generation, Target, Timing};

use super::cache::{LINE, Tags};
use super::dispatch::{Dispatch, group_count};
use super::model::Model;
use super::profile::{Profile, TIMINGS, Traffic};
use super::request::{MemoryKind, Request};

/// Bytes that were touched: a bit for each four, by page.
type Touched = BTreeMap<u64, Box<[u64; 16]>>;

/// Counts while a dispatch runs.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    units: u64,
    arrays: u64,
    /// Vector caches by compute unit, then scalar ones.
    gl0: Vec<Tags>,
    scalar: Vec<Tags>,
    gl1: Vec<Tags>,
    l2: Tags,
    touched: Touched,
    traffic: Traffic,
    lds_cycles: u64,
    lds_conflicts: u64,
    /// Compute unit of the group that runs.
    unit: usize,
}

const GL0: u64 = 32 << 10;
const SCALAR: u64 = 16 << 10;
const GL1: u64 = 256 << 10;

impl Meter {
    /// Cold caches of a chip.
    pub(crate) fn new(target: Target) -> Self {
        let model = Model::of_target(target);
        Self {
            units: model.units,
            arrays: model.arrays,
            gl0: Vec::new(),
            scalar: Vec::new(),
            gl1: Vec::new(),
            l2: Tags::new(model.l2),
            touched: BTreeMap::new(),
            traffic: Traffic::default(),
            lds_cycles: 0,
            lds_conflicts: 0,
            unit: 0,
        }
    }

    /// Starts a dispatch: caches that acquires invalidate are empty, L2 keeps its lines.
    pub(crate) fn begin(&mut self) {
        self.gl0 = (0..self.units).map(|_| Tags::new(GL0)).collect();
        self.scalar = (0..self.units.div_ceil(2)).map(|_| Tags::new(SCALAR)).collect();
        self.gl1 = (0..self.arrays).map(|_| Tags::new(GL1)).collect();
        self.touched.clear();
        self.traffic = Traffic::default();
        (self.lds_cycles, self.lds_conflicts) = (0, 0);
    }

    /// The profile of the dispatch that began last.
    pub(crate) fn end(&self, dispatch: &Dispatch, mix: [u64; 20], generation: Generation) -> Profile {
        let cycles = |wanted: fn(Timing) -> bool| {
            let busy = TIMINGS.iter().zip(mix).filter(|(timing, _)| wanted(**timing));
            busy.map(|(timing, count)| u64::from(timing.issue_cycles(generation)) * count).sum()
        };
        let count = group_count(dispatch);
        let items: u64 = dispatch.group.into_iter().map(|size| u64::from(size.max(1))).product();
        let words: u32 =
            self.touched.values().flat_map(|page| page.iter()).map(|bits| bits.count_ones()).sum();
        Profile {
            name: dispatch.name.clone(),
            entry: dispatch.entry,
            groups: count,
            waves: count.saturating_mul(items.div_ceil(32)),
            vgprs: dispatch.vgprs as u64,
            lds: dispatch.lds as u64,
            mix,
            vector_cycles: cycles(is_vector),
            scalar_cycles: cycles(is_scalar),
            lds_cycles: self.lds_cycles,
            lds_conflicts: self.lds_conflicts,
            traffic: Traffic { ideal: u64::from(words) * 4, ..self.traffic },
        }
    }

    /// The group whose instructions follow.
    pub(crate) fn group(&mut self, number: u64) {
        self.unit = usize::try_from(number % self.units).unwrap_or(0);
    }

    /// An access of a wave.
    pub(crate) fn note(&mut self, request: &Request) {
        let mut lines: Vec<u64> = Vec::new();
        let mut lds = Vec::new();
        for lane in (0..32).filter(|lane| request.exec >> lane & 1 != 0 && request.outside >> lane & 1 == 0) {
            if let Some((start, len)) = request.global_piece(lane) {
                self.touch(start, len as u64);
                lines.extend(start / LINE..=start.wrapping_add(len as u64).saturating_sub(1) / LINE);
            }
            lds.extend(request.lds_pieces(lane).into_iter().flatten());
            if request.memory == MemoryKind::Scalar {
                break;
            }
        }
        if !lds.is_empty() {
            self.banks(&lds);
        }
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            self.line(line, request);
        }
    }

    fn line(&mut self, line: u64, request: &Request) {
        if request.transfer.writes() {
            self.traffic.l2 += LINE;
            self.traffic.memory += if self.l2.touch(line) { 0 } else { LINE };
            return;
        }
        let hit = if request.memory == MemoryKind::Scalar {
            self.traffic.scalar += LINE;
            self.scalar[self.unit / 2].touch(line)
        } else {
            self.traffic.gl0 += LINE;
            self.gl0[self.unit].touch(line)
        };
        if hit {
            return;
        }
        self.traffic.gl1 += LINE;
        let array = self.unit % self.gl1.len().max(1);
        if self.gl1.get_mut(array).is_some_and(|tags| tags.touch(line)) {
            return;
        }
        self.traffic.l2 += LINE;
        self.traffic.memory += if self.l2.touch(line) { 0 } else { LINE };
    }

    fn touch(&mut self, start: u64, len: u64) {
        for word in start / 4..=start.wrapping_add(len).saturating_sub(1) / 4 {
            let page = self.touched.entry(word / 1024).or_insert_with(|| Box::new([0; 16]));
            page[(word % 1024 / 64) as usize] |= 1 << (word % 64);
        }
    }

    /// Counts passes over 32 banks of four bytes: as many lanes as fill the banks go together, eight of 16 bytes or
    /// 32 of four; one more pass for each further word of one bank.
    fn banks(&mut self, pieces: &[(usize, usize)]) {
        let widest = pieces.iter().map(|(_, len)| len.div_ceil(4)).max().unwrap_or(1);
        let lanes = 32 / widest.next_power_of_two().clamp(1, 32);
        for together in pieces.chunks(lanes) {
            let words = together.iter().flat_map(|(start, len)| start / 4..(start + len).div_ceil(4));
            let mut words: Vec<usize> = words.collect();
            words.sort_unstable();
            words.dedup();
            let mut banks = [0_u64; 32];
            words.iter().for_each(|word| banks[word % 32] += 1);
            let passes = banks.into_iter().max().unwrap_or(0).max(1);
            self.lds_cycles += passes;
            self.lds_conflicts += passes - 1;
        }
    }
}

fn is_vector(timing: Timing) -> bool {
    matches!(
        timing,
        Timing::Valu
            | Timing::Valu64
            | Timing::Quarter
            | Timing::Trans
            | Timing::F64
            | Timing::F64Trans
            | Timing::Matrix
            | Timing::MatrixNarrow
    )
}

fn is_scalar(timing: Timing) -> bool {
    matches!(timing, Timing::Salu | Timing::SaluFloat | Timing::Branch | Timing::Message | Timing::Smem)
}
