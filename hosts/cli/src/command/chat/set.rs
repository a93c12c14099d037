//! `/set`: the sampling flags of the command line, by their names, within a chat.

use crate::sampling::Sampling;
use clap::{Args as _, FromArgMatches as _};

/// The settings with one parameter changed, or the reason why it can't be. `n` is the limit of tokens in an answer.
pub(crate) fn changed(
    sampling: &Sampling,
    max_tokens: Option<u32>,
    parameter: &str,
    value: &str,
) -> Result<(Sampling, Option<u32>), String> {
    if parameter == "n" {
        let count: i64 = value.parse().map_err(|_| format!("n: {value} is not a number of tokens"))?;
        // as on the command line, a negative number stands for no limit
        return Ok((sampling.clone(), u32::try_from(count).ok()));
    }
    let flag = format!("--{}", parameter.replace('_', "-"));
    let command =
        Sampling::augment_args(clap::Command::new("/set").no_binary_name(true).disable_help_flag(true));
    let command = command.mut_args(|argument| argument.allow_negative_numbers(true));
    let matches = command.try_get_matches_from([flag.as_str(), value]).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        format!("{}; doorbell run --help lists the sampling flags", first.trim_start_matches("error: "))
    })?;
    let mut changed = sampling.clone();
    changed.update_from_arg_matches(&matches).map_err(|error| error.to_string())?;
    Ok((changed, max_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debug(sampling: &Sampling) -> String {
        format!("{sampling:?}")
    }

    #[test]
    fn one_parameter_changes() {
        let command = Sampling::augment_args(clap::Command::new("run").no_binary_name(true));
        let matches = command.get_matches_from(["--temp", "0.5", "--rng", "mt19937"]);
        let sampling = Sampling::from_arg_matches(&matches).unwrap();
        let (changed, limit) = changed(&sampling, Some(7), "top_k", "9").unwrap();
        assert_eq!(limit, Some(7));
        assert_eq!(debug(&changed), debug(&sampling).replace("top_k: None", "top_k: Some(9)"));
        let (_, limit) = super::changed(&sampling, Some(7), "n", "-1").unwrap();
        assert_eq!(limit, None);
    }

    #[test]
    fn a_wrong_parameter_has_a_reason() {
        let command = Sampling::augment_args(clap::Command::new("run").no_binary_name(true));
        let sampling = Sampling::from_arg_matches(&command.get_matches_from([""; 0])).unwrap();
        for (parameter, value, reason) in [
            ("heat", "1", "--heat"),
            ("temp", "warm", "warm"),
            ("n", "many", "many"),
            ("help", "x", "--help"),
        ] {
            let error = changed(&sampling, None, parameter, value).unwrap_err();
            assert!(error.contains(reason) && !error.contains('\n'), "{error}");
        }
    }
}
