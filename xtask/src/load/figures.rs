//! Samples of one server under load, and its row of the table.

use super::bare::Rhythm;
use core::time::Duration;

/// The first lines of the table.
pub(super) const HEADER: &str = "\
| server | streams | tokens/s | first token ms p50 | p99 | between tokens ms p50 | p99 | socket us/token | \
parsing ms/prompt | processors busy | SIGTERM s |\n|---|---|---|---|---|---|---|---|---|---|---|";

/// All samples of one server at one number of streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) tokens: u64,
    /// Bytes of JSON of all tokens.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Seconds to the first token of each answer.
    pub(super) first: Vec<f64>,
    /// Seconds between tokens of an answer.
    pub(super) between: Vec<f64>,
    /// Seconds of processor time of the threads that write answers, and of those that read prompts, if they can be
    /// distinguished.
    pub(super) serving: Option<[f64; 2]>,
    /// Seconds of processor time of the whole server.
    pub(super) processor: f64,
    /// Seconds that servers took to end.
    pub(super) endings: Vec<Duration>,
}

/// The sample below which this share of all samples lies.
fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let at = (samples.len() as f64 * share) as usize;
    samples.get(at.min(samples.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

impl Figures {
    /// Tokens per second over all runs.
    pub(super) fn rate(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }

    /// Microseconds of processor time per token of the threads that write answers.
    pub(super) fn socket(&self) -> f64 {
        self.serving.map_or(f64::NAN, |[socket, _]| socket * 1e6 / self.tokens.max(1) as f64)
    }

    /// Sizes and times of the writes, for answers of `generate` tokens.
    pub(super) fn rhythm(&mut self, generate: usize) -> Rhythm {
        let bytes = (self.bytes / self.tokens.max(1)) as usize;
        let step = (quantile(&mut self.between, 0.5) * 1e6) as u64;
        Rhythm { bytes, step, generate }
    }

    pub(super) fn row(&mut self, name: &str, streams: usize) -> String {
        let [first, between] = [&mut self.first, &mut self.between]
            .map(|samples| [0.5, 0.99].map(|share| quantile(samples, share) * 1e3));
        let answers = self.first.len().max(1) as f64;
        let parsing = self.serving.map_or(f64::NAN, |[_, parsing]| parsing * 1e3 / answers);
        let socket = self.socket();
        let ending = self.endings.iter().max().map_or(f64::NAN, Duration::as_secs_f64);
        format!(
            "| {name} | {streams} | {:.1} | {:.0} | {:.0} | {:.1} | {:.1} | {socket:.1} | {parsing:.2} | {:.2} | \
             {ending:.2} |",
            self.rate(),
            first[0],
            first[1],
            between[0],
            between[1],
            self.processor / self.seconds,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut samples, 0.5), 51.0);
        assert_eq!(quantile(&mut samples, 0.99), 100.0);
        assert!(quantile(&mut [], 0.5).is_nan());
    }

    #[test]
    fn a_rhythm_is_that_of_a_common_token() {
        let between = vec![0.006, 0.007, 0.5];
        let mut figures = Figures { tokens: 4, bytes: 1002, between, ..Figures::default() };
        assert_eq!(figures.rhythm(9), Rhythm { bytes: 250, step: 7000, generate: 9 });
        assert_eq!(Figures::default().rhythm(9).step, 0);
    }
}
