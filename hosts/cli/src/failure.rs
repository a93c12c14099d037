//! How the program fails: one line on stderr, and an exit code by whose fault it is.

use core::fmt::Display;
use std::io;
use std::process::ExitCode;

/// Whose fault it is; decides the exit code.
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
    /// The device can be used, and something about it should be mended.
    Warned,
    /// Ctrl-C.
    Interrupted,
    /// Whoever read the output has gone. Nothing is reported.
    Closed,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Internal => 1,
            // 2 is clap's, for the command line
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
    7  doctor: a GPU can be used, and something should be mended
  130  stopped by Ctrl-C
  141  the output was closed by its reader";

/// Why a verb ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
}

impl Failure {
    /// A failure of this kind, told by its message: what is wrong, and the next step where there is one.
    pub(crate) fn new(kind: Kind, message: impl Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// A failure without a message.
    pub(crate) fn silent(kind: Kind) -> Self {
        Self { kind, message: String::new() }
    }

    /// Whether something else might be given instead.
    pub(crate) fn is_input(&self) -> bool {
        self.kind == Kind::Input
    }

    /// Says what is wrong on stderr and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            // the message stays one line, whatever names and texts it quotes; a closed stderr is no reason to fail
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
