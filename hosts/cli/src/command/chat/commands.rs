//! The commands of the chat: lines that begin with a slash.

use core::fmt;

/// A line of the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line<'l> {
    /// Nothing.
    Empty,
    /// A text for the model.
    Text(&'l str),
    /// A command.
    Command(Command<'l>),
    /// A command that does not exist, or lacks its argument.
    Wrong(Mistake<'l>),
}

/// A command, and its argument if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command<'l> {
    Exit,
    Help,
    Clear,
    System(&'l str),
    Set { parameter: &'l str, value: &'l str },
    Show,
    Regenerate,
    Undo,
    Edit,
    Save(&'l str),
    Load(&'l str),
    Tokens,
}

/// The reason why a line is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake<'l> {
    /// There is no such command.
    Unknown(&'l str),
    /// The command needs an argument.
    Usage(&'static str),
}

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "there is no command {name}; /help lists them, and // begins a text with a slash")
            }
            Self::Usage(usage) => write!(f, "use: {usage}"),
        }
    }
}

/// The commands, for `/help`.
pub(crate) const HELP: &str = "\
/system TEXT           set the system message, or remove it if there is no TEXT
/set PARAMETER VALUE   set a sampling parameter, such as temp, top-k, seed or n (limit of tokens)
/show                  show the model, the settings and the conversation's size
/tokens                count the tokens of the conversation
/regen                 answer the last question again
/undo                  remove the last question and its answer
/edit                  change the last question in $EDITOR, or write a new one
/clear                 start a new conversation
/save FILE, /load FILE write the conversation to a file, or read it
/exit, /bye            end (also Ctrl-D)
\"\"\" begins and ends a text of several lines; a \\ at the end of a line continues it. Ctrl-C stops an answer.";

impl<'l> Line<'l> {
    /// Reads a line.
    pub(crate) fn parse(line: &'l str) -> Self {
        let text = line.trim();
        if text.is_empty() {
            return Self::Empty;
        }
        if let Some(text) = text.strip_prefix('/').filter(|rest| rest.starts_with('/')) {
            return Self::Text(text);
        }
        if !text.starts_with('/') {
            return Self::Text(line);
        }
        let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim();
        let file = |usage| if argument.is_empty() { Err(Mistake::Usage(usage)) } else { Ok(argument) };
        let command = match name {
            "/exit" | "/quit" | "/bye" => Ok(Command::Exit),
            "/help" | "/?" => Ok(Command::Help),
            "/clear" | "/new" => Ok(Command::Clear),
            "/system" => Ok(Command::System(argument)),
            "/set" => match argument.split_once(char::is_whitespace) {
                Some((parameter, value)) => Ok(Command::Set { parameter, value: value.trim() }),
                None => Err(Mistake::Usage("/set PARAMETER VALUE, such as /set temp 0.7")),
            },
            "/show" => Ok(Command::Show),
            "/regen" | "/retry" => Ok(Command::Regenerate),
            "/undo" => Ok(Command::Undo),
            "/edit" => Ok(Command::Edit),
            "/save" => file("/save FILE").map(Command::Save),
            "/load" => file("/load FILE").map(Command::Load),
            "/tokens" => Ok(Command::Tokens),
            name => Err(Mistake::Unknown(name)),
        };
        command.map_or_else(Self::Wrong, Self::Command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_texts_or_commands() {
        let texts = [("a /clear b", "a /clear b"), ("  hello ", "  hello "), ("//etc/hosts?", "/etc/hosts?")];
        for (line, text) in texts {
            assert_eq!(Line::parse(line), Line::Text(text));
        }
        assert_eq!(Line::parse(" \t"), Line::Empty);
        for (line, command) in [
            ("/bye", Command::Exit),
            (" /clear ", Command::Clear),
            ("/system Be brief.", Command::System("Be brief.")),
            ("/system", Command::System("")),
            ("/set temp  0.5", Command::Set { parameter: "temp", value: "0.5" }),
            ("/save a b.json", Command::Save("a b.json")),
        ] {
            assert_eq!(Line::parse(line), Line::Command(command));
        }
        assert_eq!(Line::parse("/stop now"), Line::Wrong(Mistake::Unknown("/stop")));
        assert!(matches!(Line::parse("/set temp"), Line::Wrong(Mistake::Usage(_))));
        assert!(matches!(Line::parse("/save"), Line::Wrong(Mistake::Usage(_))));
    }

    #[test]
    fn every_command_is_in_the_help() {
        for name in HELP.split([' ', ',', '\n']).filter(|word| word.starts_with('/')) {
            assert!(!matches!(Line::parse(name), Line::Wrong(Mistake::Unknown(_)) | Line::Text(_)), "{name}");
        }
    }
}
