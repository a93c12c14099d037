//! Options of a run.
//!
//! Not here: the run (`engine.rs`).

/// Sanitizers of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// No sanitizer.
    Fast,
    /// All sanitizers, memory results as late as possible, random order.
    Strict,
}

/// Treatment of AQL packets that run a list of PM4 words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lists {
    /// The list runs.
    #[default]
    Run,
    /// The packet is refused, as by firmware that does not support it.
    Refuse,
    /// The packet never completes.
    Ignore,
    /// The packet completes and nothing runs.
    Skip,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sanitizers of a run.
    pub level: Level,
    /// Seed of every choice.
    pub seed: u64,
    /// Most instructions of all waves of one run.
    pub budget: u64,
    /// Instructions without any store or barrier after which the run counts as stuck.
    pub patience: u64,
    /// Workgroups that are resident at a time.
    pub resident: usize,
    /// Distance added to transcendental results, in last places: -1, 0 or 1.
    pub perturb: i32,
    /// Host threads that share the workgroups of fast runs, if no group waits for another or depends on its order: no
    /// global atomic, no coherent load, no computed jump, no budget. Results do not depend on the number, unless the
    /// kernel has a race.
    pub threads: usize,
    /// Strict runs check the gfx12 rule for scalar registers that vector instructions read. Compilers of LLVM before
    /// 22 do not follow it, so their code has findings.
    pub scalar_reads: bool,
    /// Every dispatch is counted by itself ([`Engine::take_profiles`](super::Engine::take_profiles)); dispatches then
    /// run one after another, on one thread, and more slowly.
    pub count: bool,
    /// Treatment of lists of PM4 words.
    pub lists: Lists,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: Level::Strict,
            seed: 0,
            budget: u64::MAX,
            patience: 20_000_000,
            resident: 32,
            perturb: 0,
            threads: 1,
            scalar_reads: true,
            count: false,
            lists: Lists::Run,
        }
    }
}
