//! Restrictions of the tokens of a request, by a grammar that lives in the host.

use crate::sample::TokenMask;
use crate::scheduler::RequestId;
use crate::token::TokenId;

/// The grammars of all requests that have one. Preempted requests keep their state here: tokens are picked once.
pub trait TokenConstraints {
    /// The tokens of the request that may be picked next; `None` allows all.
    fn mask(&mut self, request: RequestId) -> Option<TokenMask<'_>>;

    /// True if the request may be restricted now or later. Requests that are not may be computed several tokens ahead.
    fn is_constrained(&self, request: RequestId) -> bool {
        let _ = request;
        true
    }

    /// A token of the request was picked, possibly one that ends it.
    fn accept(&mut self, request: RequestId, token: TokenId);
}

/// No request is restricted.
pub(super) struct Unconstrained;

impl TokenConstraints for Unconstrained {
    fn mask(&mut self, _: RequestId) -> Option<TokenMask<'_>> {
        None
    }

    fn is_constrained(&self, _: RequestId) -> bool {
        false
    }

    fn accept(&mut self, _: RequestId, _: TokenId) {}
}
