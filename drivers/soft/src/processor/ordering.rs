//! The watch over global memory between workgroups: races, and reads that a cache may answer with an old line.
//!
//! Every group has a clock. A store made when all earlier ones of its wave are acknowledged publishes it; an atomic or a
//! coherent load that meets that store, followed by the invalidations of an acquire, takes it over. Two accesses of
//! which neither is ordered before the other, and that meet in a byte, are a race; of a dword's bytes those of the last
//! store are known. Caches are tables of when a line was fetched. Not here:
//! LDS (`check.rs`), values.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::finding::FindingKind;
use super::request::Reach;

/// Caches that an instruction empties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cache {
    /// The compute unit's vector cache.
    Gl0,
    /// The shader array's cache.
    Gl1,
    /// Both, as one acquire of the device.
    Both,
    /// The scalar cache.
    Scalar,
}

/// The last write and the reads of a dword since.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word {
    /// Group that wrote, plus one.
    writer: u32,
    write_epoch: u32,
    write_time: u64,
    write_pc: u64,
    published: bool,
    meets_all: bool,
    /// Bytes that were written, and those that were read, a bit each.
    written: u8,
    read: u8,
    /// Group that read, plus one; `SEVERAL` where it was more than one.
    reader: u32,
    read_epoch: u32,
    read_pc: u64,
}

const UNTOUCHED: Word = Word {
    writer: 0,
    write_epoch: 0,
    write_time: 0,
    write_pc: 0,
    published: false,
    meets_all: false,
    written: 0,
    read: 0,
    reader: 0,
    read_epoch: 0,
    read_pc: 0,
};

impl Word {
    fn read_by(&mut self, access: GlobalAccess, epoch: u32, bytes: u8) {
        let GlobalAccess { group, pc, .. } = access;
        self.read = if self.reader == 0 { bytes } else { self.read | bytes };
        self.reader = if self.reader == 0 || self.reader == group + 1 { group + 1 } else { SEVERAL };
        (self.read_epoch, self.read_pc) = (epoch, pc);
    }
}

/// The dwords of a line: all equal, as after an access of the whole line, or each by itself.
enum Line {
    Alike(Word),
    Apart(Box<[Word; LINE as usize]>),
}

impl Line {
    fn word(&mut self, number: u64) -> &mut Word {
        match self {
            Self::Alike(word) => word,
            Self::Apart(words) => &mut words[(number % LINE) as usize],
        }
    }

    /// Splits the line into dwords, for an access of some of them.
    fn part(&mut self) {
        if let Self::Alike(word) = self {
            *self = Self::Apart(Box::new([*word; LINE as usize]));
        }
    }

    /// Joins the dwords again if they are equal.
    fn join(&mut self) {
        if let Self::Apart(words) = self
            && words.iter().all(|word| *word == words[0])
        {
            *self = Self::Alike(words[0]);
        }
    }

    fn words(&mut self) -> &mut [Word] {
        match self {
            Self::Alike(word) => core::slice::from_mut(word),
            Self::Apart(words) => &mut words[..],
        }
    }
}

const SEVERAL: u32 = u32::MAX;
const UNITS: usize = 4;
const ARRAYS: usize = 2;
/// Lines of a page.
const LINES: u64 = 32;
/// Dwords of a line.
const LINE: u64 = 32;
/// All bytes of a dword.
const ALL: u8 = 0xf;

/// The stores of other groups that are ordered before a group's next access.
#[derive(Clone, Default)]
struct Clock {
    epoch: u32,
    /// Epochs of other groups that are ordered before, by group.
    known: BTreeMap<u32, u32>,
    /// Earlier states of `known`: the epoch from which each held.
    log: Vec<(u32, BTreeMap<u32, u32>)>,
    /// Published stores met: group, epoch, whether GL1 was emptied since.
    met: Vec<(u32, u32, bool)>,
}

/// All groups since caches were last emptied by a packet.
#[derive(Default)]
pub(crate) struct Ordering {
    now: u64,
    clocks: Vec<Clock>,
    pages: Vec<[Line; LINES as usize]>,
    /// Index into `pages` by page of memory, and the last lookup.
    index: BTreeMap<u64, usize>,
    last: Option<(u64, usize)>,
    /// Published stores (group, epoch) that read-modify-writes of a dword carry on: an access that meets the last
    /// meets all.
    chains: BTreeMap<u64, Vec<(u32, u32)>>,
    /// Time of the fetch of each cached line, by compute unit, array, pair of compute units.
    gl0: [BTreeMap<u64, u64>; UNITS],
    gl1: [BTreeMap<u64, u64>; ARRAYS],
    scalar: [BTreeMap<u64, u64>; ARRAYS],
}

/// An error of an access.
pub(crate) struct Problem {
    pub(crate) kind: FindingKind,
    /// Instruction of the other party.
    pub(crate) other: u64,
    pub(crate) address: u64,
}

/// An access of a wave.
#[derive(Clone, Copy)]
pub(crate) struct GlobalAccess {
    pub(crate) group: u32,
    pub(crate) pc: u64,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) reach: Reach,
}

/// Consecutive bytes of memory.
#[derive(Clone, Copy)]
struct ByteRange {
    start: u64,
    end: u64,
}

/// Bytes of one dword, a bit each.
#[derive(Clone, Copy)]
struct DwordBytes {
    /// Address of the dword divided by four.
    number: u64,
    bytes: u8,
}

impl Ordering {
    /// Starts dispatches that are ordered after everything so far; with `acquire`, caches are emptied too.
    pub(crate) fn begin(&mut self, acquire: bool) {
        if acquire {
            *self = Self::default();
            return;
        }
        self.now += 1;
        self.clocks.clear();
        self.chains.clear();
        // Lines may still be old, but nothing races with what has ended.
        for word in self.pages.iter_mut().flat_map(|page| page.iter_mut()).flat_map(Line::words) {
            (word.writer, word.reader) = (0, 0);
        }
    }

    /// Adds a group and returns its number.
    pub(crate) fn enter(&mut self) -> u32 {
        self.clocks.push(Clock { epoch: 1, ..Clock::default() });
        (self.clocks.len() - 1) as u32
    }

    /// A wave empties a cache.
    pub(crate) fn invalidate(&mut self, group: u32, cache: Cache) {
        let (unit, array) = caches_of(group);
        if matches!(cache, Cache::Gl0 | Cache::Both) {
            self.gl0[unit].clear();
        }
        if matches!(cache, Cache::Gl1 | Cache::Both) {
            self.gl1[array].clear();
        }
        if cache == Cache::Scalar {
            self.scalar[array].clear();
            return;
        }
        let Some(clock) = self.clocks.get_mut(group as usize) else { return };
        if cache == Cache::Gl1 {
            clock.met.iter_mut().for_each(|met| met.2 = true);
            return;
        }
        let met = core::mem::take(&mut clock.met);
        let (taken, kept): (Vec<_>, Vec<_>) =
            met.into_iter().partition(|(_, _, gl1)| *gl1 || cache == Cache::Both);
        clock.met = kept;
        for (other, epoch, _) in taken {
            self.acquire(group, other, epoch);
        }
    }

    /// Orders everything that was ordered before another group's published store before this group.
    fn acquire(&mut self, group: u32, other: u32, epoch: u32) {
        let Some(theirs) = self.clocks.get(other as usize) else { return };
        let then = theirs.log.iter().rev().find(|(from, _)| *from <= epoch);
        let mut news = then.map(|(_, known)| known.clone()).unwrap_or_default();
        news.insert(other, epoch);
        let Some(mine) = self.clocks.get_mut(group as usize) else { return };
        for (other, epoch) in news {
            let known = mine.known.entry(other).or_default();
            *known = epoch.max(*known);
        }
        mine.log.push((mine.epoch, mine.known.clone()));
    }

    fn is_before(&self, other: u32, epoch: u32, group: u32) -> bool {
        other == group
            || self
                .clocks
                .get(group as usize)
                .is_none_or(|clock| clock.known.get(&other).is_some_and(|known| *known >= epoch))
    }

    /// Records an access of some lanes, each with its first byte and length; returns an error that it finds.
    pub(crate) fn note(
        &mut self,
        access: GlobalAccess,
        pieces: impl Iterator<Item = (u64, u64)>,
    ) -> Option<Problem> {
        let mut problem = None;
        self.now += 1;
        // A store that publishes is one by itself in every lane: no lane's store is ordered before another's.
        let alone = access.writes && access.reach.released;
        let mut open: Option<ByteRange> = None;
        for (start, len) in pieces.filter(|(_, len)| *len > 0) {
            let end = start.saturating_add(len);
            match &mut open {
                Some(range) if !alone && start == range.end => range.end = end,
                _ => {
                    let done = open.replace(ByteRange { start, end });
                    problem = done.and_then(|range| self.range(range, access)).or(problem);
                }
            }
        }
        open.and_then(|range| self.range(range, access)).or(problem)
    }

    /// An access of consecutive bytes.
    fn range(&mut self, ByteRange { start, end }: ByteRange, access: GlobalAccess) -> Option<Problem> {
        let mut problem = None;
        let epoch = self.clocks.get(access.group as usize).map_or(0, |clock| clock.epoch);
        let mut at = start;
        while at < end {
            let line = at / (4 * LINE);
            let line_end = (4 * LINE).saturating_mul(line + 1).min(end);
            let fetched = if access.writes { None } else { self.fetch(line, access) };
            problem = self.piece(ByteRange { start: at, end: line_end }, access, epoch, fetched).or(problem);
            self.drop_line(line, access);
            at = line_end;
        }
        if access.writes
            && access.reach.released
            && let Some(clock) = self.clocks.get_mut(access.group as usize)
        {
            clock.epoch += 1;
        }
        problem
    }

    /// An access of bytes of one line.
    fn piece(
        &mut self,
        ByteRange { start, end }: ByteRange,
        access: GlobalAccess,
        epoch: u32,
        fetched: Option<u64>,
    ) -> Option<Problem> {
        let is_whole = end - start == 4 * LINE;
        let (first, last) = (start / 4, (end - 1) / 4);
        let line = self.line(first);
        if is_whole && !access.reach.atomic && matches!(line, Line::Alike(_)) && self.chains.is_empty() {
            return self.word(DwordBytes { number: first, bytes: ALL }, access, epoch, fetched);
        }
        self.line(first).part();
        let mut problem = None;
        for number in first..=last {
            let skipped = start.saturating_sub(4 * number);
            let left = (end - 4 * number).min(4);
            let bytes = ALL << skipped & ALL >> (4 - left);
            problem = self.word(DwordBytes { number, bytes }, access, epoch, fetched).or(problem);
        }
        if is_whole {
            self.line(first).join();
        }
        problem
    }

    fn word(
        &mut self,
        DwordBytes { number, bytes }: DwordBytes,
        access: GlobalAccess,
        epoch: u32,
        fetched: Option<u64>,
    ) -> Option<Problem> {
        let before = *self.cell(number);
        let GlobalAccess { group, reach, .. } = access;
        let meets_all = reach.atomic || reach.past_gl1;
        let meets = before.written & bytes != 0;
        let is_old = meets && fetched.is_some_and(|fetched| before.write_time > fetched);
        if !access.writes && before.writer == 0 && !is_old {
            if !meets_all {
                self.cell(number).read_by(access, epoch, bytes);
            }
            return None;
        }
        let address = number * 4;
        let mut problem = None;
        let mut found = |kind: FindingKind, other: u64| problem = Some(Problem { kind, other, address });
        if meets
            && let Some(writer) = before.writer.checked_sub(1)
            && !self.is_before(writer, before.write_epoch, group)
        {
            if !meets_all || (access.writes && !before.meets_all) {
                found(FindingKind::GlobalRace, before.write_pc);
            } else if access.reads
                && before.published
                && let Some(clock) = self.clocks.get_mut(group as usize)
                && !clock.met.contains(&(writer, before.write_epoch, false))
            {
                clock.met.push((writer, before.write_epoch, false));
            }
        }
        if access.reads && meets_all {
            self.meet_chain(number, group);
        }
        let other_read = before.reader != 0 && before.reader != group + 1 && before.read & bytes != 0;
        let ordered = before.reader != SEVERAL
            && before
                .reader
                .checked_sub(1)
                .is_some_and(|reader| self.is_before(reader, before.read_epoch, group));
        if access.writes && other_read && !ordered {
            found(FindingKind::GlobalRace, before.read_pc);
        }
        if is_old {
            found(FindingKind::StaleRead, before.write_pc);
        }
        if access.writes {
            self.carry(number, &before, access, epoch);
        }
        let now = self.now;
        let cell = self.cell(number);
        if access.writes {
            cell.writer = group + 1;
            (cell.write_epoch, cell.write_time, cell.write_pc) = (epoch, now, access.pc);
            (cell.published, cell.meets_all, cell.written) = (reach.released, meets_all, bytes);
            cell.reader = 0;
        } else if !meets_all {
            cell.read_by(access, epoch, bytes);
        }
        problem
    }

    /// Meets all published stores that a dword carries.
    fn meet_chain(&mut self, number: u64, group: u32) {
        let Some(chain) = self.chains.get(&number) else { return };
        let news: Vec<(u32, u32)> =
            chain.iter().copied().filter(|(writer, epoch)| !self.is_before(*writer, *epoch, group)).collect();
        let Some(clock) = self.clocks.get_mut(group as usize) else { return };
        for (writer, epoch) in news {
            if !clock.met.contains(&(writer, epoch, false)) {
                clock.met.push((writer, epoch, false));
            }
        }
    }

    /// Updates the published stores that a dword carries: a read-modify-write adds to them, other stores clear them.
    fn carry(&mut self, number: u64, before: &Word, access: GlobalAccess, epoch: u32) {
        if !access.reach.atomic {
            if !self.chains.is_empty() {
                self.chains.remove(&number);
            }
            return;
        }
        let chain = self.chains.entry(number).or_default();
        if chain.is_empty()
            && before.published
            && let Some(writer) = before.writer.checked_sub(1)
        {
            chain.push((writer, before.write_epoch));
        }
        if access.reach.released {
            chain.push((access.group, epoch));
        }
    }

    fn cell(&mut self, number: u64) -> &mut Word {
        self.line(number).word(number)
    }

    /// The line of a dword.
    fn line(&mut self, number: u64) -> &mut Line {
        let page = number / (LINES * LINE);
        let at = match self.last {
            Some((last, at)) if last == page => at,
            _ => *self.index.entry(page).or_insert_with(|| {
                self.pages.push([const { Line::Alike(UNTOUCHED) }; LINES as usize]);
                self.pages.len() - 1
            }),
        };
        self.last = Some((page, at));
        &mut self.pages[at][(number / LINE % LINES) as usize]
    }

    /// Time at which the line that a load reads was fetched: now if no cache has it, `None` if the load reads memory.
    fn fetch(&mut self, line: u64, access: GlobalAccess) -> Option<u64> {
        let (unit, array) = caches_of(access.group);
        let (GlobalAccess { reach, .. }, now) = (access, self.now);
        if reach.scalar {
            return Some(*self.scalar[array].entry(line).or_insert(now));
        }
        if !reach.past_gl0
            && let Some(fetched) = self.gl0[unit].get(&line)
        {
            return Some(*fetched);
        }
        if reach.past_gl1 {
            return None;
        }
        let fetched = *self.gl1[array].entry(line).or_insert(now);
        if !reach.past_gl0 {
            self.gl0[unit].insert(line, fetched);
        }
        Some(fetched)
    }

    /// Stores go through the group's caches and leave no old line there; coherent accesses evict.
    fn drop_line(&mut self, line: u64, access: GlobalAccess) {
        let (unit, array) = caches_of(access.group);
        if access.writes || access.reach.past_gl0 {
            self.gl0[unit].remove(&line);
        }
        if access.writes || access.reach.past_gl1 {
            self.gl1[array].remove(&line);
        }
    }
}

/// Compute unit and shader array of a group.
fn caches_of(group: u32) -> (usize, usize) {
    let unit = group as usize % UNITS;
    (unit, unit % ARRAYS)
}
