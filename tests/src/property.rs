//! Property tests on random bytes, which are the same in every run. `DOORBELL_CASES` sets the number of cases.

use crate::random::Random;
use arbitrary::{Result, Unstructured};

/// Cases of a usual run.
const CASES: u64 = 300;

/// Number of different lengths of random bytes: 32, 64 and so on.
const LENGTHS: u64 = 12;

/// Checks a property on many inputs. Inputs that are too short for it don't count.
///
/// # Panics
///
/// If the property doesn't hold, or too few inputs were long enough.
pub fn always(mut property: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    let cases = std::env::var("DOORBELL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    let mut fit = 0;
    for case in 0..cases {
        let _printer = PrintCase(case);
        let mut bytes = vec![0; 32 << (case % LENGTHS)];
        Random::new(case).fill(&mut bytes);
        fit += u64::from(property(&mut Unstructured::new(&bytes)).is_ok());
    }
    assert!(2 * fit > cases, "{fit} of {cases} inputs were long enough");
}

/// Prints the case whose property panics.
struct PrintCase(u64);

impl Drop for PrintCase {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the property doesn't hold for case {}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::always;
    use arbitrary::{Error, Unstructured};
    use std::panic::catch_unwind;

    #[test]
    fn runs_are_alike_and_a_case_that_fails_is_a_failure() {
        let seen = || {
            let mut seen = Vec::new();
            always(|source| {
                seen.push((source.len(), source.arbitrary::<u64>()?));
                Ok(())
            });
            seen
        };
        assert_eq!(seen(), seen());
        assert!(seen().windows(2).all(|pair| pair[0].1 != pair[1].1));
        let long_ones_fail = |source: &mut Unstructured<'_>| {
            assert_ne!(source.len(), 64 << 10);
            Ok(())
        };
        assert!(catch_unwind(|| always(long_ones_fail)).is_err());
        assert!(catch_unwind(|| always(|_| Err(Error::NotEnoughData))).is_err());
    }
}
