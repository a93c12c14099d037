//! Sequences with windows and recurrent states in the scheduler: their pages and checkpoints over long prompts and turns.
//! What a backend would read is followed page by page: each holds the tokens that were written to it.

use crate::{HEAP, PAGE, text};
use doorbell_core::backend::KvType;
use doorbell_core::heap;
use doorbell_core::kv::KvManager;
use doorbell_core::model::KvGroup;
use doorbell_core::plan::{GroupId, PAGE_TOKENS, first_page};
use doorbell_core::scheduler::{Config, NewSequence, RequestId, Scheduler};
use doorbell_core::token::TokenId;
use std::collections::HashMap;

/// Groups of a model, and whether it has a recurrent state.
#[derive(Clone, Copy)]
struct Kinds {
    windows: &'static [Option<u32>],
    state: bool,
}

/// A page's tokens by position within it.
type Page = [Option<TokenId>; PAGE_TOKENS];

struct Harness {
    scheduler: Scheduler<'static>,
    kinds: Kinds,
    /// `[groups][pages]`
    pages: Vec<Vec<Page>>,
    /// `[states]`: the tokens that each has seen.
    seen: Vec<Vec<TokenId>>,
    /// The tokens of each request so far.
    texts: HashMap<RequestId, Vec<TokenId>>,
}

impl Harness {
    fn new(config: Config, kinds: Kinds) -> Self {
        let pools = config.kv_pools(kinds.windows.iter().copied());
        let pages = (0..).map(GroupId).take(kinds.windows.len());
        let pages =
            pages.map(|group| vec![[None; PAGE_TOKENS]; pools.pages_of(pools.pool_of(group)) as usize]);
        let pages = pages.collect();
        let mut kv = KvManager::new(pools, HEAP).unwrap();
        if kinds.state {
            kv.add_states(config.states()).unwrap();
        }
        let scheduler = Scheduler::new(config, kinds.windows.len(), kv, HEAP).unwrap();
        let seen = vec![Vec::new(); config.states() as usize];
        Self { scheduler, kinds, pages, seen, texts: HashMap::new() }
    }

    fn submit(&mut self, id: u64, prompt: &[TokenId], output: u32) {
        let limit = prompt.len() as u32 + output;
        let mut tokens = heap::with_capacity(HEAP, limit as usize).unwrap();
        tokens.extend_from_slice(prompt);
        let new =
            NewSequence { id: RequestId(id), tokens, limit, pooling: false, skip_cache: false, state: () };
        self.scheduler.submit(new).unwrap();
        self.texts.insert(RequestId(id), prompt.to_vec());
    }

    /// Schedules and completes a step; returns the requests with the position that their rows begin at and their number.
    fn step(&mut self) -> Vec<(u64, u32, u32)> {
        let batch = self.scheduler.schedule(1, &|_| true);
        for copy in batch.state_copies {
            self.seen[copy.to.0 as usize] = self.seen[copy.from.0 as usize].clone();
        }
        let (mut rows, tables) = (Vec::new(), batch.input.tables);
        for (run, id) in batch.input.runs.iter().zip(batch.requests) {
            let first = run.first_row as usize;
            let tokens = &batch.input.tokens[first..first + run.rows as usize];
            if self.kinds.state {
                let seen = &mut self.seen[tables.states[run.sequence as usize].0 as usize];
                if run.position == 0 {
                    seen.clear();
                }
                assert_eq!(seen.len(), run.position as usize, "the state has seen what comes before");
                seen.extend_from_slice(tokens);
            }
            for (group, pages) in self.pages.iter_mut().enumerate() {
                let table = tables.of(run.sequence, GroupId(group as u8));
                for (position, &token) in (run.position as usize..).zip(tokens) {
                    let page = table[position / PAGE_TOKENS];
                    pages[page.0 as usize][position % PAGE_TOKENS] = Some(token);
                }
            }
            rows.push((id.0, run.position, run.rows));
        }
        self.check_reads();
        let owners = self.scheduler.batch().owners.to_vec();
        self.scheduler.register_computed();
        for owner in owners {
            let sequence = self.scheduler.get_mut(owner).unwrap();
            // the same sequence is continued alike by whoever continues it
            let token = TokenId(u32::MAX - sequence.len());
            sequence.append(token);
            self.texts.get_mut(&owner).unwrap().push(token);
        }
        let ended = |index: &usize| {
            let sequence = &self.scheduler.sequences()[*index];
            sequence.len() == sequence.limit() && sequence.is_running()
        };
        let ended: Vec<usize> = (0..self.scheduler.sequences().len()).filter(ended).collect();
        ended.into_iter().rev().for_each(|index| _ = self.scheduler.remove(index));
        rows
    }

    /// Asserts that every page that a row sees holds the tokens of its sequence.
    fn check_reads(&self) {
        let batch = self.scheduler.batch();
        for (run, id) in batch.input.runs.iter().zip(batch.requests) {
            let tokens = &self.texts[id];
            for (group, &window) in self.kinds.windows.iter().enumerate() {
                let table = batch.input.tables.of(run.sequence, GroupId(group as u8));
                let first = first_page(window, run.position) as usize;
                let visible = window.map_or(0, |window| (run.position + 1).saturating_sub(window)) as usize;
                for position in visible.max(first * PAGE_TOKENS)..(run.position + run.rows) as usize {
                    let page = &self.pages[group][table[position / PAGE_TOKENS].0 as usize];
                    assert_eq!(page[position % PAGE_TOKENS], Some(tokens[position]), "{id:?} {position}");
                }
            }
        }
    }

    /// Runs until nothing is left; returns the number of rows of each request.
    fn drain(&mut self) -> Vec<(u64, u32)> {
        let mut rows: Vec<(u64, u32)> = Vec::new();
        for _ in 0..100_000 {
            if self.scheduler.sequences().is_empty() {
                return rows;
            }
            for (id, _, count) in self.step() {
                match rows.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, rows)) => *rows += count,
                    None => rows.push((id, count)),
                }
            }
        }
        panic!("requests that never end: {rows:?}");
    }

    /// Runs one request alone and returns the number of its rows.
    fn rows_of(&mut self, id: u64, prompt: &[TokenId], output: u32) -> u32 {
        self.submit(id, prompt, output);
        self.drain()[0].1
    }

    /// Pages that a group's sequences and cache don't need.
    fn free(&self, group: u8) -> u32 {
        let pool = self.scheduler.kv().pool(GroupId(group));
        pool.available() - pool.cached()
    }
}

const FULL: Kinds = Kinds { windows: &[None], state: false };
const WINDOWED: Kinds = Kinds { windows: &[Some(512), None], state: false };
const RECURRENT: Kinds = Kinds { windows: &[None], state: true };
const BOTH: Kinds = Kinds { windows: &[Some(512), None], state: true };
const WINDOWS_ONLY: Kinds = Kinds { windows: &[Some(128), Some(100)], state: false };

fn config(sequences: u32, checkpoints: u32) -> Config {
    Config { waiting: 32, checkpoints, ..Config::new(32 * 1024, sequences, 512) }
}

#[test]
fn a_window_takes_pages_for_itself_and_one_step() {
    let pools = config(1, 0).kv_pools([Some(512), None, Some(128)].into_iter());
    // 512 tokens before a border, and 512 rows that may begin anywhere in a page
    assert_eq!(pools.windows().iter().map(|pool| pool.pages).collect::<Vec<_>>(), [34, 21]);
    assert_eq!(pools.pages(), 1024);
    let short = Config::new(64, 1, 64).kv_pools(core::iter::once(Some(512)));
    assert_eq!(short.windows()[0].pages, 2, "never more than sequences have");
}

/// The layers with a window, then the others: layers, heads and their elements, in a context of 32k tokens.
#[test]
fn keys_and_values_take_little_more_than_the_windows_need() {
    let group = |layers, heads, dim, window| KvGroup { layers, heads, key_dim: dim, value_dim: dim, window };
    let gemma_3_270m = [group(15, 1, 256, Some(512)), group(3, 1, 256, None)];
    let gpt_oss_20b = [group(12, 8, 64, Some(128)), group(12, 8, 64, None)];
    const MIB: f64 = 1_048_576.0;
    for (groups, before, after) in [(gemma_3_270m, 576.0, 111.9375), (gpt_oss_20b, 1536.0, 783.75)] {
        let (config, kv) = (config(1, 0), KvType::F16);
        let pools = config.kv_pools(groups.iter().map(|group| group.window));
        let bytes = |tokens: [u32; 2]| {
            let each = groups.iter().zip(tokens);
            let bytes =
                each.map(|(group, tokens)| group.bytes_per_token(kv).unwrap() as f64 * f64::from(tokens));
            bytes.sum::<f64>() / MIB
        };
        let kept = [1, 0].map(|pool| pools.pages_of(pool) * PAGE);
        assert_eq!((bytes([32_768, 32_768]), bytes(kept)), (before, after));
        let needed = bytes([groups[0].window.unwrap(), 32_768]);
        assert!(after < 1.1 * needed, "{after} MiB of {needed}");
    }
}

/// A turn of 30,000 tokens is asked for again with another token near its end, or 1,000 tokens before it.
/// llama.cpp#22746: such turns were computed again from their start.
#[test]
fn a_change_near_the_end_of_a_long_turn_costs_little() {
    let prompt = text(1, 30_000);
    let changed = |at: usize| {
        let mut changed = prompt.clone();
        changed[at] = TokenId(7);
        changed
    };
    // Page borders before the changes are at 29,920 and 28,992; the last checkpoint before both is at 28,672.
    for (kinds, checkpoints, near, far) in [
        (FULL, 0, 80, 1008),
        (WINDOWED, 0, 80, 30_000),
        (WINDOWED, 4, 80, 1328),
        (WINDOWED, 16, 80, 1008),
        (RECURRENT, 4, 1328, 1328),
        (BOTH, 4, 1328, 1328),
        (WINDOWS_ONLY, 0, 80, 30_000),
        (WINDOWS_ONLY, 16, 80, 1328),
    ] {
        for (at, rows) in [(29_950, near), (29_000, far)] {
            let mut harness = Harness::new(config(1, checkpoints), kinds);
            assert_eq!(harness.rows_of(1, &prompt, 1), 30_000);
            let again = harness.rows_of(2, &changed(at), 1);
            assert_eq!(again, rows, "{:?} {} {checkpoints}", kinds.windows, kinds.state);
            // the last page border of the prompt is at 29,984
            assert_eq!(harness.rows_of(3, &changed(at), 1), 16);
        }
    }
}

#[test]
fn the_next_turn_goes_on_behind_the_answer_or_behind_the_prompt() {
    for kinds in [WINDOWED, RECURRENT, BOTH, WINDOWS_ONLY] {
        let mut harness = Harness::new(config(1, 2), kinds);
        let prompt = text(1, 5000);
        assert_eq!(harness.rows_of(1, &prompt, 700), 5699);
        let mut turn = prompt.clone();
        turn.extend((5000..5700).map(|len| TokenId(u32::MAX - len)));
        // thoughts are left out of the next turn: only the prompt is the same
        let without_thoughts: Vec<TokenId> = [&prompt[..], &text(3, 100)].concat();
        turn.extend(text(2, 100));
        // behind the last full page of what was computed
        assert_eq!(harness.rows_of(2, &turn, 1), 5800 - 5696);
        assert_eq!(harness.rows_of(3, &without_thoughts, 1), 5100 - 4992);
    }
}

/// As the choices of a request with n = 4 do.
#[test]
fn copies_of_a_prompt_are_computed_once() {
    for kinds in [WINDOWED, RECURRENT, BOTH, WINDOWS_ONLY] {
        let mut harness = Harness::new(config(4, 2), kinds);
        for id in 0..4 {
            harness.submit(id, &text(1, 5000), 100);
        }
        let mut rows = harness.drain();
        rows.sort_unstable();
        // the last page border of the prompt is at 4,992
        assert_eq!(rows.iter().map(|(_, rows)| rows - 99).collect::<Vec<_>>(), [5000, 8, 8, 8]);
    }
}

/// Conversations with the same system message: the second one leaves a checkpoint where it takes its own way.
#[test]
fn what_prompts_have_in_common_is_computed_twice_at_most() {
    for kinds in [WINDOWED, RECURRENT, BOTH, WINDOWS_ONLY] {
        let mut harness = Harness::new(config(1, 8), kinds);
        let rows = [1, 2, 3, 4].map(|number| {
            let prompt = [text(9, 1500), text(number, 4000)].concat();
            harness.rows_of(number, &prompt, 1)
        });
        // 1,472 is the last page border of the message
        assert_eq!(rows[0], 5500);
        assert!(rows[1] == 5500 || rows[1] == 5500 - 1472, "{rows:?}");
        assert_eq!(rows[2..], [5500 - 1472; 2], "{:?} {}", kinds.windows, kinds.state);
    }
}

#[test]
fn pages_behind_windows_serve_others() {
    let mut harness = Harness::new(config(2, 0), WINDOWED);
    harness.submit(1, &text(1, 20_000), 2);
    harness.submit(2, &text(2, 20_000), 2);
    let total = harness.scheduler.kv().pool(GroupId(0)).total();
    assert!(total < 80, "{total} pages for two windows of 16 pages");
    assert_eq!(harness.drain().iter().map(|(_, rows)| rows).sum::<u32>(), 40_002);
    assert_eq!(harness.scheduler.kv().pool(GroupId(0)).available(), total);
    assert!(harness.free(1) > 0);
}

#[test]
fn random_scripts_read_what_their_sequences_have_written() {
    let mut random = 4321_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let kinds = [
        Kinds { windows: &[Some(50), None], state: false },
        Kinds { windows: &[None, Some(33), Some(1)], state: true },
        Kinds { windows: &[Some(64), Some(200)], state: false },
        Kinds { windows: &[], state: true },
    ];
    let (mut preempted, mut restored) = (0, 0);
    for script in 0..400 {
        let kinds = kinds[script % kinds.len()];
        let sequences = 1 + next(4) as u32;
        let mut limits = config(sequences, next(5) as u32);
        // few pages, so that sequences are preempted
        limits.pages = 24 + next(8) as u32;
        limits.batch_rows = 16 + next(100) as u32;
        let mut harness = Harness::new(limits, kinds);
        for id in 0..20 {
            // a few beginnings, cut anywhere
            let len = 1 + next(300) as u32;
            let mut prompt = text(next(3), len);
            let own = next(u64::from(len) + 1) as usize;
            prompt[own..].iter_mut().for_each(|token| token.0 += 1000 + id as u32);
            harness.submit(id, &prompt, 1 + next(60) as u32);
            for _ in 0..next(8) {
                let began = harness.step();
                restored += began.iter().filter(|(_, position, rows)| *position > 0 && *rows > 1).count();
                preempted += harness.scheduler.sequences().iter().map(|live| live.preemptions()).sum::<u32>();
            }
            if next(6) == 0 {
                let live = harness.scheduler.sequences().len() as u64;
                let _ = harness.scheduler.remove(next(live.max(1)) as usize);
            }
        }
        harness.drain();
        for group in (0..).map(GroupId).take(kinds.windows.len()) {
            let pool = harness.scheduler.kv().pool(group);
            assert_eq!(pool.available(), pool.total(), "script {script}: pages get lost");
        }
        assert_eq!(harness.scheduler.kv().available(), limits.pages);
    }
    assert!(preempted > 0 && restored > 0, "{preempted} preempted, {restored} restored");
}
