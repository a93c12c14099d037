//! Options of a run.
//!
//! Not here: the run (`engine.rs`).

/// How much is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Results only.
    Fast,
    /// All sanitizers, late memory, random order.
    Strict,
}

/// What the packet processor makes of an AQL packet that runs a list of PM4 words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lists {
    /// It runs the list.
    #[default]
    Run,
    /// It refuses the packet, as firmware does that does not know it.
    Refuse,
    /// It never completes the packet.
    Ignore,
    /// It completes the packet and runs nothing.
    Skip,
}

/// Choices of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much is watched.
    pub level: Level,
    /// Seed of every choice.
    pub seed: u64,
    /// Instructions of all waves of one run, at most.
    pub budget: u64,
    /// Instructions without any store or barrier after which nothing is expected to happen any more.
    pub patience: u64,
    /// Workgroups that are resident at a time.
    pub resident: usize,
    /// Distance added to transcendental results, in last places: -1, 0 or 1.
    pub perturb: i32,
    /// Host threads that share the workgroups of fast runs, where nothing makes one group wait for another or depend on
    /// its order: no global atomic, no coherent load, no computed jump, no budget. Results do not depend on the number,
    /// unless the kernel has a race.
    pub threads: usize,
    /// True if strict runs know the gfx12 rule for scalar registers that vector instructions read. Compilers of LLVM before
    /// 22 do not, so their code has findings.
    pub scalar_reads: bool,
    /// True if every dispatch is counted by itself ([`Engine::take_profiles`]); dispatches run one after another then,
    /// on one thread, and more slowly.
    pub count: bool,
    /// What becomes of lists.
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
