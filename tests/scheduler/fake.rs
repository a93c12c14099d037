//! A device whose keys and values are hashes of all tokens up to a position, and whose logits depend on nothing else.
//!
//! Every KV group has its own keys and values, and a recurrent state has the hash of all tokens that it has seen. A row's
//! logits are right only if all of them agree, and if each group has the right ones for all positions that the row sees.

use alloc::collections::VecDeque;
use doorbell_core::backend::{Backend, KvType, Output, PageError, PageFormat, UNPICKED};
use doorbell_core::engine::{Config, RequestId, TokenConstraints};
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Batch, BatchError, BatchLimits, GroupId, KvPages, MAX_GROUPS, Op, PAGE_TOKENS, PageId, Plan, StateId,
    first_page,
};
use doorbell_core::sample::TokenMask;
use doorbell_core::token::TokenId;
use std::collections::HashMap;

/// Few tokens, so that random prompts share prefixes and random outputs meet the end token.
pub(crate) const TOKENS: u32 = 3;
pub(crate) const END: TokenId = TokenId(7);

/// Behavior of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nature {
    /// Polls until a step is done.
    pub(crate) delay: u32,
    /// Steps in a row that it can feed itself; it can't if this is below two.
    pub(crate) steps: u32,
    /// Steps until one fails, and true if that one fails in `poll` rather than in `submit`.
    pub(crate) fails: Option<(u32, bool)>,
    /// True if some logits are NaN.
    pub(crate) nan: bool,
}

/// The contents of a position: its token, and the hash of all tokens up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    token: u64,
    hash: u64,
}

/// Bytes of a cell outside of the device.
const CELL: usize = 16;

/// The device.
pub(crate) struct Fake {
    /// `[groups][pages * PAGE_TOKENS]`
    cells: Vec<Vec<Cell>>,
    /// `[states]`: the hash of all tokens that a state has seen, and their number.
    states: Vec<(u64, u32)>,
    has_states: bool,
    pages: KvPages,
    /// Cells that were written since the last check, in order.
    pub(crate) writes: Vec<(GroupId, PageId, u32)>,
    /// Pages that the step in flight refers to.
    pub(crate) flying: Vec<(GroupId, PageId)>,
    /// Steps of multi-step submissions.
    pub(crate) multi_step: u32,
    /// True once a step has failed.
    pub(crate) failed: bool,
    nature: Nature,
    limits: BatchLimits,
    /// Rows and runs that a step may have.
    most: (u32, u32),
    logits: Vec<f32>,
    /// Tokens that the steps of a multi-step submission have picked.
    picked: VecDeque<Vec<TokenId>>,
    current: Vec<TokenId>,
    failing: bool,
    in_flight: Option<u32>,
}

pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let x = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 31)
}

pub(crate) fn after(hash: u64, token: TokenId, position: u32) -> u64 {
    mix(mix(hash, u64::from(token.0) + 1), u64::from(position))
}

/// Mostly the few tokens, sometimes the end.
pub(crate) fn scores(hash: u64, nan: bool, out: &mut [f32]) {
    if nan && mix(hash, 5).is_multiple_of(500) {
        return out.fill(f32::NAN);
    }
    out.fill(-50.0);
    for token in 0..TOKENS {
        out[token as usize] = (mix(hash, u64::from(token)) % 1000) as f32 / 250.0;
    }
    out[END.0 as usize] = (mix(hash, 99) % 1000) as f32 / 300.0 - 1.0;
}

/// The first token with the largest logit.
fn best(logits: &[f32]) -> TokenId {
    let better = |best: usize, at: usize| if logits[at] > logits[best] { at } else { best };
    TokenId((1..logits.len()).fold(0, better) as u32)
}

impl Fake {
    pub(crate) fn new(model: &Model<'_>, config: &Config, nature: Nature) -> Self {
        let pages = config.kv_pages(model);
        let cells = (0..).map(GroupId).take(model.groups.len());
        let cells =
            cells.map(|group| vec![Cell::default(); pages.of(group) as usize * PAGE_TOKENS]).collect();
        Self {
            cells,
            states: Vec::new(),
            has_states: model.state.is_some(),
            pages,
            writes: Vec::new(),
            flying: Vec::new(),
            multi_step: 0,
            failed: false,
            nature,
            limits: model.limits(config.largest_shape(), pages, config.states()),
            most: (config.largest_shape().rows.max(config.pooling_rows), config.sequences),
            logits: Vec::new(),
            picked: VecDeque::new(),
            current: Vec::new(),
            failing: false,
            in_flight: None,
        }
    }

    /// Writes the token at a position to every group and to the state. Returns the hash of all tokens up to it, or
    /// another one if what the row sees is not right.
    fn write(&mut self, batch: &Batch<'_>, sequence: u32, position: u32, token: TokenId) -> u64 {
        let mut before = (position == 0).then_some(0);
        let mut agree = |found: u64| match before {
            None => before = Some(found),
            Some(other) if other != found => before = Some(!other),
            Some(_) => {}
        };
        for (group, cells) in (0..).map(GroupId).zip(&self.cells) {
            let pages = batch.tables.of(sequence, group);
            let window = self.limits.windows[group.index()];
            let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
            assert_eq!(first / PAGE_TOKENS as u32, first_page(window, position));
            let cell = |position: u32| cells[index_of(pages, position)];
            if first < position {
                agree(cell(position - 1).hash);
            }
            // the nearest positions of a long sequence
            for at in (first + 1).max(position.saturating_sub(100))..position {
                let (earlier, own) = (cell(at - 1), cell(at));
                if own.hash != after(earlier.hash, TokenId(own.token as u32), at) {
                    agree(!own.hash);
                }
            }
        }
        let state = batch.tables.states.get(sequence as usize).filter(|_| self.has_states);
        if let Some(state) = state.map(|state| state.0 as usize) {
            if position == 0 {
                self.states[state] = (0, 0);
            }
            assert_eq!(
                self.states[state].1, position,
                "a state has seen what comes before, and nothing else"
            );
            agree(self.states[state].0);
        }
        let hash = after(before.unwrap(), token, position);
        // what a failed step has written must not be used
        let kept = if self.failing { !hash } else { hash };
        for (group, cells) in (0..).map(GroupId).zip(&mut self.cells) {
            let pages = batch.tables.of(sequence, group);
            cells[index_of(pages, position)] = Cell { token: token.0.into(), hash: kept };
            let offset = position % PAGE_TOKENS as u32;
            self.writes.push((group, pages[position as usize / PAGE_TOKENS], offset));
        }
        if let Some(state) = state {
            self.states[state.0 as usize] = (kept, position + 1);
        }
        hash
    }

    /// True if this step fails and is refused at once.
    fn begin(&mut self, batch: &Batch<'_>) -> bool {
        assert!(self.in_flight.is_none(), "two steps in flight");
        self.failing = matches!(self.nature.fails, Some((0, _)));
        self.failed |= self.failing;
        let refused = self.nature.fails == Some((0, false));
        self.picked.clear();
        self.nature.fails = match self.nature.fails {
            Some((0, _)) | None => None,
            Some((left, late)) => Some((left - 1, late)),
        };
        self.in_flight = (!refused).then_some(self.nature.delay);
        self.flying.clear();
        if !refused {
            for group in (0..).map(GroupId).take(self.cells.len()) {
                for run in batch.runs {
                    let pages = batch.tables.of(run.sequence, group).iter();
                    let pages = pages.filter(|page| **page != PageId::NONE);
                    self.flying.extend(pages.map(|&page| (group, page)));
                }
            }
        }
        refused
    }
}

impl Backend for Fake {
    type Error = BatchError;

    fn supports(&self, _op: &Op) -> bool {
        true
    }

    fn supports_multi_step(&self) -> bool {
        self.nature.steps > 1
    }

    fn max_steps(&self, _plan: &Plan<'_>) -> u32 {
        self.nature.steps.max(1)
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), BatchError> {
        batch.check(&BatchLimits { shape: plan.shape, ..self.limits }).unwrap();
        assert!(batch.rows() as u32 <= self.most.0 && batch.runs.len() as u32 <= self.most.1);
        let refused = self.begin(batch);
        self.logits.clear();
        for row in 0..batch.rows() as u32 {
            let (sequence, position) = batch.locate(row).unwrap();
            let hash = self.write(batch, sequence, position, batch.tokens[row as usize]);
            if batch.outputs.contains(&row) {
                let start = self.logits.len();
                self.logits.resize(start + self.limits.vocabulary as usize, 0.0);
                scores(hash, self.nature.nan, &mut self.logits[start..]);
            }
        }
        if refused { Err(BatchError::Output { row: 0 }) } else { Ok(()) }
    }

    fn submit_multi_step(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        steps: u32,
    ) -> Result<(), BatchError> {
        batch.check_multi_step(&BatchLimits { shape: plan.shape, ..self.limits }, steps).unwrap();
        assert!((2..=self.nature.steps).contains(&steps) && batch.runs.len() as u32 <= self.most.1);
        let refused = self.begin(batch);
        self.multi_step += steps;
        let mut tokens = batch.tokens.to_vec();
        let mut row = vec![0.0; self.limits.vocabulary as usize];
        for step in 0..steps {
            let mut picked = Vec::new();
            for (index, run) in batch.runs.iter().enumerate() {
                let hash = self.write(batch, run.sequence, run.position + step, tokens[index]);
                scores(hash, self.nature.nan, &mut row);
                let lost = row[0].is_nan();
                picked.push(if lost { UNPICKED } else { best(&row) });
                tokens[index] = if lost { TokenId(0) } else { best(&row) };
            }
            self.picked.push_back(picked);
        }
        if refused {
            self.picked.clear();
        }
        if refused { Err(BatchError::Output { row: 0 }) } else { Ok(()) }
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, BatchError> {
        if self.in_flight == Some(0) && (self.failing || self.picked.len() < 2) {
            self.flying.clear();
        }
        match self.in_flight {
            Some(0) if self.failing => {
                self.in_flight = None;
                self.picked.clear();
                Err(BatchError::Output { row: 0 })
            }
            Some(0) => {
                let multi_step = self.picked.pop_front();
                self.in_flight = (!self.picked.is_empty()).then_some(self.nature.delay);
                Ok(Some(match multi_step {
                    Some(tokens) => {
                        self.current = tokens;
                        Output::Tokens(&self.current)
                    }
                    None => Output::Logits(&self.logits),
                }))
            }
            Some(left) => {
                self.in_flight = Some(left - 1);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn reserve_states(&mut self, count: u32) -> Result<(), BatchError> {
        self.states = vec![(0, 0); count as usize];
        Ok(())
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        assert!(self.in_flight.is_none(), "a state is copied during a step");
        self.states[to.0 as usize] = self.states[from.0 as usize];
    }

    fn page_format(&self) -> Option<PageFormat> {
        let mut pages = [0; MAX_GROUPS];
        pages.iter_mut().zip(&self.cells).for_each(|(bytes, _)| *bytes = PAGE_TOKENS * CELL);
        let state = if self.has_states { CELL } else { 0 };
        Some(PageFormat { layout: "fake", kv: KvType::F32, pages, state })
    }

    fn read_page(&mut self, group: GroupId, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        self.page_format().unwrap().check(group, page, &self.pages, to.len())?;
        for (to, cell) in to.as_chunks_mut().0.iter_mut().zip(self.page(group, page)) {
            *to = pair(cell.token, cell.hash);
        }
        Ok(())
    }

    fn write_page(&mut self, group: GroupId, page: PageId, from: &[u8]) -> Result<(), PageError> {
        self.page_format().unwrap().check(group, page, &self.pages, from.len())?;
        for (from, cell) in from.as_chunks().0.iter().zip(self.page(group, page)) {
            let (token, hash) = split(from);
            *cell = Cell { token, hash };
        }
        Ok(())
    }

    fn read_state(&mut self, state: StateId, to: &mut [u8]) -> Result<(), PageError> {
        self.page_format().unwrap().check_state(state, self.states.len() as u32, to.len())?;
        let (hash, seen) = self.states[state.0 as usize];
        to.copy_from_slice(&pair(hash, seen.into()));
        Ok(())
    }

    fn write_state(&mut self, state: StateId, from: &[u8]) -> Result<(), PageError> {
        self.page_format().unwrap().check_state(state, self.states.len() as u32, from.len())?;
        let (hash, seen) = split(from.first_chunk().unwrap());
        self.states[state.0 as usize] = (hash, seen as u32);
        Ok(())
    }
}

impl Fake {
    fn page(&mut self, group: GroupId, page: PageId) -> &mut [Cell] {
        &mut self.cells[group.index()][page.0 as usize * PAGE_TOKENS..][..PAGE_TOKENS]
    }
}

/// Index of the cell of a position in a group's cells.
fn index_of(pages: &[PageId], position: u32) -> usize {
    let position = position as usize;
    pages[position / PAGE_TOKENS].0 as usize * PAGE_TOKENS + position % PAGE_TOKENS
}

fn pair(first: u64, second: u64) -> [u8; CELL] {
    (u128::from(first) | u128::from(second) << 64).to_le_bytes()
}

fn split(bytes: &[u8; CELL]) -> (u64, u64) {
    let both = u128::from_le_bytes(*bytes);
    (both as u64, (both >> 64) as u64)
}

/// The grammars of some requests: the forbidden next token follows from all tokens before it.
#[derive(Default)]
pub(crate) struct Grammars(HashMap<RequestId, (u64, [u32; 1])>);

impl Grammars {
    pub(crate) fn add(&mut self, request: RequestId) {
        self.0.insert(request, (0, [!1]));
    }
}

impl TokenConstraints for Grammars {
    fn mask(&mut self, request: RequestId) -> Option<TokenMask<'_>> {
        self.0.get(&request).map(|(_, words)| TokenMask::new(words))
    }

    fn is_constrained(&self, request: RequestId) -> bool {
        self.0.contains_key(&request)
    }

    fn accept(&mut self, request: RequestId, token: TokenId) {
        let Some((state, words)) = self.0.get_mut(&request) else { return };
        assert!(TokenMask::new(words).allows(token), "{request:?} got what may not come");
        *state = mix(*state, u64::from(token.0) + 1);
        *words = [!(1 << (*state % u64::from(TOKENS)))];
    }
}
