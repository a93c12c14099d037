//! Failures of the program: one line on stderr, and an exit code for each kind of cause.

use core::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The kind of cause, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Computation, output or listening failed.
    Internal,
    /// The model file can't be opened, is damaged, or is of a kind that can't be run.
    Model,
    /// The prompt, text, token ids or a setting can't be used.
    Input,
    /// The device can't be used.
    Device,
    /// There isn't enough memory.
    Memory,
    /// The device can be used, but something about it should be fixed.
    Warned,
    /// The command line is wrong.
    Usage,
    /// Ctrl-C.
    Interrupted,
    /// The reader of the output has closed it. Nothing is reported.
    Closed,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Internal => 1,
            // clap's code, too
            Self::Usage => 2,
            Self::Model => 3,
            Self::Input => 4,
            Self::Device => 5,
            Self::Memory => 6,
            Self::Warned => 7,
            Self::Interrupted => 130,
            Self::Closed => 141,
        }
    }
}

/// The codes above, for `--help`.
pub(crate) const EXIT_CODES: &str = "Exit codes:
    0  success
    1  computation, output or listening failed
    2  the command line is wrong
    3  the model file can't be opened, is damaged, or is of a kind that can't be run
    4  the prompt, text, token ids or a setting can't be used
    5  the device can't be used
    6  there isn't enough memory
    7  doctor: a GPU can be used, but something should be fixed
  130  stopped by Ctrl-C
  141  the output was closed by its reader";

/// Reason why a command ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
}

impl Failure {
    /// A failure of this kind. The message states what is wrong, and the next step if there is one.
    pub(crate) fn new(kind: Kind, message: impl Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// A failure without a message.
    pub(crate) fn silent(kind: Kind) -> Self {
        Self { kind, message: String::new() }
    }

    /// True if another input might work.
    pub(crate) fn is_input(&self) -> bool {
        self.kind == Kind::Input
    }

    /// Prints the message on stderr and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            // control characters in quoted names and texts must not break the line; a closed stderr is ignored
            let line: String = self.message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let _ = io::Write::write_all(&mut io::stderr(), format!("doorbell: {line}\n").as_bytes());
        }
        ExitCode::from(self.kind.code())
    }
}

/// A failed write to stdout.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Kind::Closed),
            _ => Self::new(Kind::Internal, format_args!("cannot write to stdout: {error}")),
        }
    }
}
