//! A device whose keys and values are hashes of all tokens up to a position, and whose logits depend on nothing else.

use alloc::collections::VecDeque;
use doorbell_core::backend::{Backend, Output, UNPICKED};
use doorbell_core::engine::{Config, RequestId, TokenConstraints};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, BatchError, BatchLimits, GroupId, Op, PAGE_TOKENS, PageId, Plan};
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

/// The device.
pub(crate) struct Fake {
    pub(crate) cells: Vec<u64>,
    /// Cells that were written since the last check, in order.
    pub(crate) writes: Vec<(PageId, u32)>,
    /// Pages that the step in flight refers to.
    pub(crate) flying: Vec<PageId>,
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
        let limits = BatchLimits {
            states: None,
            shape: config.largest_shape(),
            vocabulary: model.vocabulary,
            groups: model.groups.len(),
            pages: config.pages,
        };
        Self {
            cells: vec![0; config.pages as usize * PAGE_TOKENS],
            writes: Vec::new(),
            flying: Vec::new(),
            multi_step: 0,
            failed: false,
            nature,
            limits,
            most: (config.largest_shape().rows.max(config.pooling_rows), config.sequences),
            logits: Vec::new(),
            picked: VecDeque::new(),
            current: Vec::new(),
            failing: false,
            in_flight: None,
        }
    }

    /// Writes a cell. Returns its hash.
    fn write(&mut self, pages: &[PageId], position: u32, token: TokenId) -> u64 {
        let cell_of = |position: u32| {
            let position = position as usize;
            (pages[position / PAGE_TOKENS], (position % PAGE_TOKENS) as u32)
        };
        let cell = |(page, offset): (PageId, u32)| page.0 as usize * PAGE_TOKENS + offset as usize;
        let before = if position == 0 { 0 } else { self.cells[cell(cell_of(position - 1))] };
        let hash = after(before, token, position);
        // cells of a failed step must not be used
        self.cells[cell(cell_of(position))] = if self.failing { !hash } else { hash };
        self.writes.push(cell_of(position));
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
            self.flying.extend_from_slice(batch.tables.pages);
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
            let pages = batch.tables.of(sequence, GroupId(0));
            let hash = self.write(pages, position, batch.tokens[row as usize]);
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
                let pages = batch.tables.of(run.sequence, GroupId(0));
                let hash = self.write(pages, run.position + step, tokens[index]);
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
