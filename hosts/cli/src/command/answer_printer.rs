//! Prints an answer while it is generated, with its reasoning set apart.

use crate::failure::Failure;
use crate::output::{print, print_answer};
use doorbell_runtime::answer::{AnswerParser, Begin, Delta, Style, Tools};
use std::io::{IsTerminal as _, stdout};

/// The treatment of a model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reasoning {
    /// It is printed before the answer.
    Show,
    /// Only the answer is printed.
    Hide,
}

/// Begins and ends faint text on a terminal (ECMA-48, SGR 2 and 0).
pub(crate) const FAINT: &str = "\x1b[2m";
pub(crate) const PLAIN: &str = "\x1b[0m";

/// True if texts of this program may have colors: `NO_COLOR` is unset or empty, see no-color.org, and the terminal has some.
pub(crate) fn colors() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Prints the parts of one answer.
pub(crate) struct AnswerPrinter {
    parser: AnswerParser,
    reasoning: Reasoning,
    /// Reasoning is faint; otherwise it stands between marks.
    faint: bool,
    /// The last part was reasoning, and was printed.
    reasons: bool,
    text: String,
    deltas: Vec<Delta>,
}

impl AnswerPrinter {
    /// A printer of an answer in this style. Without a choice, a terminal shows the reasoning and a pipe or file does not
    /// get it.
    pub(crate) fn new(style: Style, begin: Begin, reasoning: Option<Reasoning>) -> Self {
        let terminal = stdout().is_terminal();
        let usual = if terminal { Reasoning::Show } else { Reasoning::Hide };
        Self {
            parser: AnswerParser::new(style, Tools::default(), begin),
            reasoning: reasoning.unwrap_or(usual),
            faint: terminal && colors(),
            reasons: false,
            text: String::new(),
            deltas: Vec::new(),
        }
    }

    /// Prints what a further text of the model adds.
    pub(crate) fn push(&mut self, text: &str) -> Result<(), Failure> {
        self.parser.push(text, &mut self.deltas);
        self.print()
    }

    /// Prints the rest, and ends the line. Returns the answer without its reasoning.
    pub(crate) fn finish(mut self) -> Result<String, Failure> {
        self.parser.finish(&mut self.deltas);
        self.print()?;
        self.end_reasoning()?;
        if !self.text.ends_with('\n') {
            print("\n")?;
        }
        Ok(self.text)
    }

    fn print(&mut self) -> Result<(), Failure> {
        for delta in core::mem::take(&mut self.deltas) {
            match delta {
                Delta::Reasoning(text) if self.reasoning == Reasoning::Show => {
                    if !self.reasons {
                        self.reasons = true;
                        print(if self.faint { FAINT } else { "[reasoning]\n" })?;
                    }
                    print_answer(&text)?;
                }
                Delta::Text(text) => {
                    self.end_reasoning()?;
                    print_answer(&text)?;
                    self.text.push_str(&text);
                }
                // there are no tools to call
                Delta::Reasoning(_) | Delta::Call { .. } | Delta::Arguments { .. } => {}
            }
        }
        Ok(())
    }

    fn end_reasoning(&mut self) -> Result<(), Failure> {
        if core::mem::take(&mut self.reasons) {
            print(if self.faint { "\x1b[0m\n\n" } else { "\n[answer]\n" })?;
        }
        Ok(())
    }
}
