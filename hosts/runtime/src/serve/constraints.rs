//! Constraints of running jobs: grammars and reasoning budgets, as masks for the engine's sampler.

use crate::constrain::{Constraint, ReasoningBudget};
use alloc::collections::BTreeMap;
use doorbell_core::engine::{RequestId, TokenConstraints};
use doorbell_core::sample::TokenMask;
use doorbell_core::token::TokenId;

/// Constraints of one job.
struct JobConstraint {
    grammar: Option<Constraint>,
    budget: Option<ReasoningBudget>,
}

/// Constraints of the jobs that have some.
#[derive(Default)]
pub(super) struct JobConstraints(BTreeMap<RequestId, JobConstraint>);

impl JobConstraints {
    /// Adds the constraints of a job, if it has any.
    pub(super) fn insert(
        &mut self,
        id: RequestId,
        grammar: Option<Constraint>,
        budget: Option<ReasoningBudget>,
    ) {
        if grammar.is_some() || budget.is_some() {
            self.0.insert(id, JobConstraint { grammar, budget });
        }
    }

    /// Keeps only the constraints of the jobs that `is_live` accepts.
    pub(super) fn retain(&mut self, is_live: impl Fn(RequestId) -> bool) {
        self.0.retain(|&id, _| is_live(id));
    }

    /// The grammars of jobs.
    pub(super) fn grammars(&self) -> impl Iterator<Item = (RequestId, &Constraint)> {
        self.0.iter().filter_map(|(&id, job)| Some((id, job.grammar.as_ref()?)))
    }
}

impl TokenConstraints for JobConstraints {
    fn mask(&mut self, request: RequestId) -> Option<TokenMask<'_>> {
        let JobConstraint { grammar, budget } = self.0.get_mut(&request)?;
        let budget = budget.as_ref();
        let forced = budget.and_then(ReasoningBudget::mask).or_else(|| grammar.as_mut()?.mask());
        forced.or_else(|| budget?.mask_of_headers())
    }

    fn is_constrained(&self, request: RequestId) -> bool {
        self.0.contains_key(&request)
    }

    fn accept(&mut self, request: RequestId, token: TokenId) {
        let Some(JobConstraint { grammar, budget }) = self.0.get_mut(&request) else { return };
        if let Some(grammar) = grammar {
            grammar.accept(token);
        }
        if let Some(budget) = budget {
            budget.accept(token);
        }
    }
}
