//! Recurrent states: what a state has seen is kept beside it and compared with its sequence at every step.

use super::{HEAP, PAGE, text};
use doorbell_core::heap;
use doorbell_core::kv::{KvManager, KvPools};
use doorbell_core::plan::StateId;
use doorbell_core::scheduler::{Config, NewSequence, RequestId, Scheduler};
use doorbell_core::token::TokenId;

/// A scheduler, and the tokens that each state has seen.
struct Harness {
    scheduler: Scheduler<'static>,
    seen: Vec<Vec<TokenId>>,
}

impl Harness {
    fn new(config: Config) -> Self {
        let mut kv = KvManager::new(KvPools::shared(1, config.pages), HEAP).unwrap();
        kv.add_states(config.states()).unwrap();
        let seen = vec![Vec::new(); config.states() as usize];
        Self { scheduler: Scheduler::new(config, 1, kv, HEAP).unwrap(), seen }
    }

    fn submit(&mut self, id: u64, prompt: &[TokenId], output: u32) {
        let limit = prompt.len() as u32 + output;
        let mut tokens = heap::with_capacity(HEAP, limit as usize).unwrap();
        tokens.extend_from_slice(prompt);
        let new =
            NewSequence { id: RequestId(id), tokens, limit, pooling: false, skip_cache: false, state: () };
        self.scheduler.submit(new).unwrap();
    }

    /// Schedules and completes a step; gives the position that each run began at, with its rows.
    fn step(&mut self) -> Vec<(u64, u32, u32)> {
        let batch = self.scheduler.schedule(1, &|_| true);
        for copy in batch.state_copies {
            self.seen[copy.to.0 as usize] = self.seen[copy.from.0 as usize].clone();
        }
        let mut used: Vec<StateId> = batch.input.tables.states.to_vec();
        used.sort();
        used.dedup();
        assert_eq!(used.len(), batch.input.runs.len(), "a state for each sequence");
        let mut rows = Vec::new();
        for (run, id) in batch.input.runs.iter().zip(batch.requests) {
            let seen = &mut self.seen[batch.input.tables.states[run.sequence as usize].0 as usize];
            if run.position == 0 {
                seen.clear();
            }
            assert_eq!(seen.len(), run.position as usize, "the state has seen what comes before");
            let first = run.first_row as usize;
            seen.extend_from_slice(&batch.input.tokens[first..first + run.rows as usize]);
            rows.push((id.0, run.position, run.rows));
        }
        let owners = batch.owners.to_vec();
        self.scheduler.register_computed();
        for owner in owners {
            let sequence = self.scheduler.get_mut(owner).unwrap();
            // the same sequence is continued alike by whoever continues it
            let token = TokenId(u32::MAX - sequence.len());
            sequence.append(token);
        }
        let done = |index: &usize| {
            let sequence = &self.scheduler.sequences()[*index];
            sequence.len() == sequence.limit() && sequence.is_running()
        };
        let ended: Vec<usize> = (0..self.scheduler.sequences().len()).filter(done).collect();
        ended.into_iter().rev().for_each(|index| _ = self.scheduler.remove(index));
        rows
    }

    /// Runs until nothing is left; gives the position at which each request began.
    fn drain(&mut self) -> Vec<(u64, u32)> {
        let mut begun: Vec<(u64, u32)> = Vec::new();
        for _ in 0..100_000 {
            if self.scheduler.sequences().is_empty() {
                return begun;
            }
            for (id, position, _) in self.step() {
                if begun.iter().all(|(known, _)| *known != id) {
                    begun.push((id, position));
                }
            }
        }
        panic!("requests that never end: {begun:?}");
    }

    fn begin(&mut self, id: u64, prompt: &[TokenId], output: u32) -> u32 {
        self.submit(id, prompt, output);
        self.drain()[0].1
    }
}

fn config(sequences: u32, checkpoints: u32) -> Config {
    Config { waiting: 64, checkpoints, ..Config::new(8 * 1024, sequences, 512) }
}

#[test]
fn a_prompt_goes_on_from_its_last_checkpoint() {
    let mut harness = Harness::new(config(1, 4));
    let prompt = text(1, 3 * PAGE + 4);
    assert_eq!(harness.begin(1, &prompt, 2), 0);
    assert_eq!(harness.begin(2, &prompt, 2), 3 * PAGE, "at least one token is computed");
    let mut other_end = prompt.clone();
    other_end[3 * PAGE as usize + 1] = TokenId(7);
    assert_eq!(harness.begin(3, &other_end, 2), 3 * PAGE);
    let mut other_middle = prompt.clone();
    other_middle[PAGE as usize + 1] = TokenId(7);
    assert_eq!(harness.begin(4, &other_middle, 2), 0, "pages are found, but no state behind them");
}

#[test]
fn long_prompts_have_checkpoints_on_their_way() {
    let mut harness = Harness::new(config(1, 8));
    let mut prompt = text(1, 5000);
    assert_eq!(harness.begin(1, &prompt, 1), 0);
    prompt[4500] = TokenId(7);
    assert_eq!(harness.begin(2, &prompt, 1), 4096);
    prompt[3000] = TokenId(7);
    assert_eq!(harness.begin(3, &prompt, 1), 2048);
}

#[test]
fn the_next_turn_goes_on_behind_the_answer() {
    let mut harness = Harness::new(config(1, 2));
    let prompt = text(1, PAGE + 1);
    assert_eq!(harness.begin(1, &prompt, 3 * PAGE), 0);
    // the answer is in the next prompt
    let turn: Vec<TokenId> =
        prompt.iter().copied().chain((PAGE + 1..4 * PAGE).map(|len| TokenId(u32::MAX - len))).collect();
    let next: Vec<TokenId> = turn.iter().copied().chain(text(2, PAGE)).collect();
    assert_eq!(harness.begin(2, &next, 1), 3 * PAGE, "behind the last full page that was computed");
}

#[test]
fn the_least_recently_used_checkpoint_goes_first() {
    let mut harness = Harness::new(config(1, 2));
    let prompts: Vec<Vec<TokenId>> = (1..4).map(|number| text(number, PAGE + 1)).collect();
    for (id, prompt) in (1..).zip(&prompts) {
        assert_eq!(harness.begin(id, prompt, 1), 0);
        // one state is the running sequence's, the first prompt is asked for again and again
        let begun = harness.begin(10 + id, &prompts[0], 1);
        assert_eq!(begun, PAGE);
    }
    assert_eq!(harness.begin(20, &prompts[1], 1), 0, "it was evicted");
    assert_eq!(harness.begin(21, &prompts[0], 1), PAGE);
}

/// The last checkpoint of the long prompt saves a page, the one before it 64 pages; the others save three and six.
#[test]
fn the_checkpoint_that_saves_least_goes_first() {
    let mut harness = Harness::new(config(1, 3));
    let [long, short, other] = [(1, 2100), (2, 100), (3, 200)].map(|(number, len)| text(number, len));
    assert_eq!([&long, &short, &other].map(|prompt| harness.begin(1, prompt, 1)), [0, 0, 0]);
    assert_eq!([&short, &other].map(|prompt| harness.begin(2, prompt, 1)), [96, 192]);
    assert_eq!(harness.begin(3, &long, 1), 2048);
}

#[test]
fn without_checkpoints_every_prompt_is_computed() {
    let mut harness = Harness::new(config(2, 0));
    let prompt = text(1, 2 * PAGE + 1);
    for id in 1..4 {
        // a state that no sequence runs on may hold a checkpoint
        harness.submit(id, &prompt, 1);
    }
    harness.drain();
    let states = harness.scheduler.kv().states().unwrap();
    assert_eq!((states.running(), states.total()), (0, 2));
}

#[test]
fn random_scripts_keep_states_and_sequences_together() {
    let mut random = 12345_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let (mut preempted, mut restored) = (0, 0);
    for script in 0..300 {
        let sequences = 1 + next(4) as u32;
        let mut limits = config(sequences, next(5) as u32);
        // few pages, so that sequences are preempted
        limits.pages = 24 + next(8) as u32;
        limits.batch_rows = 16 + next(100) as u32;
        let mut harness = Harness::new(limits);
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
        }
        harness.drain();
        let states = harness.scheduler.kv().states().unwrap();
        assert_eq!(states.running(), 0, "script {script}");
        assert!(states.checkpoints() <= states.total());
    }
    assert!(preempted > 0 && restored > 0, "{preempted} preempted, {restored} restored");
}
