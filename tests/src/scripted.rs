//! A backend whose answers stand in the prompt, so that tests know every byte of them.
//!
//! The text between the last `[[` and `]]` of the prompt is the answer, one token per byte. Marks of
//! reasoning are one token each if the vocabulary has them. Without `[[` the answer is `ok`. The hidden state of a token is
//! one at the index of its byte, modulo the width, and zero elsewhere. The backend reads earlier tokens from the KV pages,
//! as a real model does. It needs a byte-level vocabulary whose turns end with `<|im_end|>`.
//!
//! With [`Scripted::taking_turns`] the answers don't stand in the prompt: the assistant's turns are answered in their order.

use core::time::Duration;
use doorbell_core::backend::{Backend, KvType, Output, PageError, PageFormat};
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Batch, BatchError, BatchLimits, GroupId, HeadResult, MAX_GROUPS, Op, PAGE_TOKENS, PageId, Plan,
};
use doorbell_core::token::{TokenId, Tokenizer};
use std::sync::mpsc::Sender;
use std::thread;

/// Text before the answer in a rendered conversation.
const TURN: &[u8] = b"<|im_start|>assistant\n";

/// Text that makes the logits of the next step NaN.
pub const NAN: &str = "{NaN}";

/// Text that makes the device fail at the next step.
pub const LOST: &str = "{lost}";

/// Text that makes the device panic at the next step.
pub const PANIC: &str = "{panic}";

/// Marks that are generated as one token if the vocabulary has it.
const MARKS: [&str; 8] =
    ["<think>", "</think>", "<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>", "<|call|>"];

/// The answers to the assistant's turns of a conversation.
#[derive(Clone, Debug)]
pub struct Turns {
    /// The answers; after the last one it is repeated.
    pub answers: Vec<String>,
    /// Receives every prompt when its answer begins.
    pub prompts: Sender<String>,
}

/// The backend; see the module. It has no windows and no states, whatever the model has.
pub struct Scripted {
    tokens: Vec<TokenId>,
    /// The bytes of every token.
    pieces: Vec<Vec<u8>>,
    /// The token of every byte.
    bytes: [TokenId; 256],
    /// The marks that are tokens.
    marks: Vec<TokenId>,
    end: TokenId,
    limits: BatchLimits,
    logits: Vec<f32>,
    width: usize,
    result: HeadResult,
    pause: Duration,
    in_flight: bool,
    rests: Option<Sender<()>>,
    steps: Option<Sender<()>>,
    turns: Option<Turns>,
}

impl Scripted {
    /// For a model with `pages` KV pages; every step takes `pause`.
    ///
    /// # Panics
    /// If a byte has no token.
    pub fn new(model: &Model<'_>, tokenizer: &Tokenizer<'_>, pages: u32, pause: Duration) -> Self {
        let pieces: Vec<Vec<u8>> =
            (0..model.vocabulary).map(|id| tokenizer.bytes(TokenId(id), true).collect()).collect();
        let of_byte = |byte: usize| {
            let id = pieces.iter().position(|piece| piece.as_slice() == [byte as u8]);
            TokenId(id.expect("every byte has a token") as u32)
        };
        let shape = doorbell_core::plan::Shape { rows: 0, outputs: 0 };
        Self {
            tokens: vec![TokenId(0); pages as usize * PAGE_TOKENS],
            bytes: core::array::from_fn(of_byte),
            pieces,
            marks: MARKS.iter().filter_map(|mark| tokenizer.find(mark.as_bytes())).collect(),
            end: tokenizer.find(b"<|im_end|>").expect("turns end"),
            limits: BatchLimits {
                shape,
                vocabulary: model.vocabulary,
                groups: model.groups.len(),
                pages: pages.into(),
                windows: [None; MAX_GROUPS],
                states: None,
            },
            logits: Vec::new(),
            width: model.hparams.width as usize,
            result: HeadResult::Logits,
            pause,
            in_flight: false,
            rests: None,
            steps: None,
            turns: None,
        }
    }

    /// Answers by turns instead of by the prompt.
    #[must_use]
    pub fn taking_turns(mut self, turns: Option<Turns>) -> Self {
        self.turns = turns;
        self
    }

    /// Sends a message whenever the backend is suspended.
    #[must_use]
    pub fn telling(mut self, rests: Sender<()>) -> Self {
        self.rests = Some(rests);
        self
    }

    /// Sends a message whenever a step begins, before its pause.
    #[must_use]
    pub fn telling_steps(mut self, steps: Option<Sender<()>>) -> Self {
        self.steps = steps;
        self
    }

    /// Writes the logits after these tokens: one token is far likelier than the others, some of which have an order.
    /// Returns false if there are none.
    fn scores(&self, history: &[TokenId], out: &mut [f32]) -> bool {
        let mut text = Vec::new();
        history.iter().for_each(|token| text.extend_from_slice(&self.pieces[token.0 as usize]));
        let (script, begin) = match &self.turns {
            Some(turns) => turn_script(&text, turns),
            None => prompt_script(&text),
        };
        let said = &text[begin.min(text.len())..];
        // counts tokens, so that a token which a grammar has replaced does not matter
        let rest = script.get(said.len()..).unwrap_or_default();
        if rest.starts_with(NAN.as_bytes()) {
            out.fill(f32::NAN);
            return true;
        }
        for (token, logit) in out.iter_mut().enumerate() {
            *logit = -10.0 - token as f32 / 1000.0;
        }
        let mark = self.marks.iter().find(|mark| rest.starts_with(&self.pieces[mark.0 as usize]));
        let byte = || rest.first().map(|&byte| self.bytes[usize::from(byte)]);
        let next = mark.copied().or_else(byte).unwrap_or(self.end);
        out[next.0 as usize] = 10.0;
        assert!(!rest.starts_with(PANIC.as_bytes()), "the script says so");
        !rest.starts_with(LOST.as_bytes())
    }
}

/// The answer in a prompt, and the offset at which it begins to be repeated.
fn prompt_script(text: &[u8]) -> (&[u8], usize) {
    let find = |from: usize, what: &[u8]| {
        let rest = &text[from..];
        rest.windows(what.len()).rposition(|window| window == what).map(|at| from + at)
    };
    let open = find(0, b"[[");
    let script = open.and_then(|open| Some((open + 2, find(open, b"]]")?)));
    let turn = find(0, TURN).map(|at| at + TURN.len());
    match script {
        Some((from, to)) => (&text[from..to], turn.filter(|&turn| turn > to).unwrap_or(to + 2)),
        None => (b"ok", turn.unwrap_or(text.len())),
    }
}

/// The answer to the last turn of a text, and the offset at which it begins. The prompt is reported when it ends there.
fn turn_script<'t>(text: &[u8], turns: &'t Turns) -> (&'t [u8], usize) {
    let begins = text.windows(TURN.len()).enumerate().filter(|(_, window)| *window == TURN);
    let begins: Vec<usize> = begins.map(|(at, _)| at + TURN.len()).collect();
    let begin = begins.last().copied().unwrap_or(text.len());
    if begin == text.len() {
        // the receiver may be gone
        _ = turns.prompts.send(String::from_utf8_lossy(text).into_owned());
    }
    let at = begins.len().saturating_sub(1).min(turns.answers.len().saturating_sub(1));
    (turns.answers.get(at).map_or(b"ok", String::as_bytes), begin)
}

impl Scripted {
    /// The tokens of a page.
    fn page(&mut self, page: PageId, found: usize) -> Result<&mut [TokenId], PageError> {
        let (pages, expected) = (self.limits.pages.of(GroupId(0)), PAGE_TOKENS * 4);
        if found != expected {
            return Err(PageError::Length { expected, found });
        }
        let start = page.0 as usize * PAGE_TOKENS;
        self.tokens.get_mut(start..start + PAGE_TOKENS).ok_or(PageError::Page { page, pages })
    }
}

impl Backend for Scripted {
    type Error = BatchError;

    fn supports(&self, _op: &Op) -> bool {
        true
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), BatchError> {
        batch.check(&BatchLimits { shape: plan.shape, ..self.limits })?;
        // the receiver may be gone
        _ = self.steps.as_ref().map(|steps| steps.send(()));
        thread::sleep(self.pause);
        let head =
            plan.ops.iter().find_map(|op| if let Op::Head(head) = op { Some(head.result) } else { None });
        self.result = head.unwrap_or(HeadResult::Logits);
        let mut logits = core::mem::take(&mut self.logits);
        logits.clear();
        for row in 0..batch.rows() as u32 {
            let Some((sequence, position)) = batch.locate(row) else { continue };
            let pages = batch.tables.of(sequence, GroupId(0));
            let cell = |position: usize| {
                pages[position / PAGE_TOKENS].0 as usize * PAGE_TOKENS + position % PAGE_TOKENS
            };
            self.tokens[cell(position as usize)] = batch.tokens[row as usize];
            if batch.outputs.contains(&row) && self.result == HeadResult::Hidden {
                let byte = self.pieces[batch.tokens[row as usize].0 as usize].first().copied().unwrap_or(0);
                let start = logits.len();
                logits.resize(start + self.width, 0.0);
                logits[start + usize::from(byte) % self.width] = 1.0;
            } else if batch.outputs.contains(&row) {
                let history: Vec<TokenId> = (0..=position as usize).map(|at| self.tokens[cell(at)]).collect();
                let start = logits.len();
                logits.resize(start + self.limits.vocabulary as usize, 0.0);
                if !self.scores(&history, &mut logits[start..]) {
                    return Err(BatchError::Output { row });
                }
            }
        }
        self.logits = logits;
        self.in_flight = true;
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, BatchError> {
        if !core::mem::take(&mut self.in_flight) {
            return Ok(None);
        }
        Ok(Some(match self.result {
            HeadResult::Hidden => Output::Hidden(&self.logits),
            _ => Output::Logits(&self.logits),
        }))
    }

    fn suspend(&mut self) -> Result<(), BatchError> {
        if let Some(rests) = &self.rests {
            // the receiver may be gone
            let _ = rests.send(());
        }
        Ok(())
    }

    fn page_format(&self) -> Option<PageFormat> {
        let mut pages = [0; MAX_GROUPS];
        pages[0] = PAGE_TOKENS * 4;
        Some(PageFormat { layout: "scripted", kv: KvType::F32, pages, state: 0 })
    }

    fn read_page(&mut self, group: GroupId, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        if group != GroupId(0) {
            return Ok(());
        }
        let tokens = self.page(page, to.len())?;
        to.as_chunks_mut().0.iter_mut().zip(tokens).for_each(|(to, token)| *to = token.0.to_le_bytes());
        Ok(())
    }

    fn write_page(&mut self, group: GroupId, page: PageId, from: &[u8]) -> Result<(), PageError> {
        if group != GroupId(0) {
            return Ok(());
        }
        let tokens = self.page(page, from.len())?;
        let numbers = from.as_chunks().0.iter().map(|&bytes| TokenId(u32::from_le_bytes(bytes)));
        tokens.iter_mut().zip(numbers).for_each(|(token, number)| *token = number);
        Ok(())
    }
}
