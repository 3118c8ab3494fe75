//! Chance that a seed decides.

use super::Refusal;

/// What becomes of a request that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disturbance {
    /// Nothing was done.
    NotDone,
    /// Everything was done, but whoever asked is not told.
    AnswerLost,
}

/// Chance that a seed decides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults {
    pub(super) state: u64,
    pub(super) percent: u64,
}

impl Faults {
    /// A number below `bound` (xorshift64*).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

pub(super) fn failure() -> Refusal {
    Refusal::new(503, "ServiceUnavailable", "the server is unable to answer")
}
