//! The chat on a pseudoterminal.

use crate::endings::endless;
use crate::program::{command, model, path};
use core::time::Duration;
use doorbell_tests::tiny::Family;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};

/// A running chat.
struct Chat {
    child: Child,
    /// The controlling side of the pseudoterminal.
    person: File,
    terminal: OwnedFd,
    /// The terminal's mode before the chat.
    before: Termios,
    /// Shown and not read yet.
    pending: Vec<u8>,
}

impl Chat {
    fn start(name: &str, tokens: &str) -> Self {
        let model = model(name, Family::Qwen3);
        Self::start_with(&model, tokens, "32768", &path(&format!("{name}-state")))
    }

    /// A chat with a model, with answers of `tokens` tokens in a context, whose history is in the folder `state`.
    fn start_with(model: &str, tokens: &str, context: &str, state: &Path) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).unwrap();
        unlockpt(&person).unwrap();
        let terminal = ioctl_tiocgptpeer(&person, flags).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        let end = || terminal.try_clone().unwrap();
        let mut command = command(&["run", model, "-n", tokens, "--ctx", context, "-t", "1", "--temp", "0"]);
        command
            .env("TERM", "xterm")
            .env("XDG_STATE_HOME", state)
            .env("NO_COLOR", "1")
            .env_remove("VISUAL")
            .env("EDITOR", "false")
            .stdin(end())
            .stdout(end())
            .stderr(end());
        let child = command.spawn().unwrap();
        let mut chat = Self { child, person: person.into(), terminal, before, pending: Vec::new() };
        chat.wait("a prompt", |chat| chat.raw());
        chat
    }

    /// True if the program edits lines (raw mode).
    fn raw(&self) -> bool {
        !tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    fn wait(&mut self, what: &str, there: impl Fn(&Self) -> bool) {
        for _ in 0..3000 {
            if there(self) {
                return;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "no {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no {what}");
    }

    /// Reads up to the end of `text`; returns everything read.
    fn read_to(&mut self, text: &str) -> String {
        let mut bytes = [0; 1024];
        loop {
            let at = self.pending.windows(text.len().max(1)).position(|window| window == text.as_bytes());
            if let Some(at) = at.or((text.is_empty()).then_some(0)) {
                let read = self.pending.drain(..at + text.len()).collect();
                return String::from_utf8(read).unwrap();
            }
            let mut shown = [PollFd::new(&self.person, PollFlags::IN)];
            let ready = poll(&mut shown, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).unwrap();
            assert!(ready > 0, "no {text:?} after {:?}", String::from_utf8_lossy(&self.pending));
            let count = self.person.read(&mut bytes).unwrap();
            self.pending.extend_from_slice(&bytes[..count]);
        }
    }

    /// Types a line.
    fn type_line(&mut self, line: &str) {
        self.person.write_all(format!("{line}\r").as_bytes()).unwrap();
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, and checks that the terminal is restored.
    fn end(mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        let after = tcgetattr(&self.terminal).unwrap();
        let modes = |termios: &Termios| {
            (termios.local_modes, termios.input_modes, termios.output_modes, termios.control_modes)
        };
        assert_eq!(modes(&after), modes(&self.before));
        status
    }
}

#[test]
fn signals_at_the_prompt_restore_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP] {
        let chat = Chat::start("signals", "4");
        chat.send(signal);
        assert_eq!(chat.end().signal(), Some(signal.as_raw()), "whoever waits sees what ended it");
    }
}

#[test]
fn a_second_interrupt_at_the_prompt_restores_the_terminal() {
    let mut chat = Chat::start("interrupts", "4");
    // two interrupts at once may count as one
    for _ in 0..3000 {
        if chat.child.try_wait().unwrap().is_some() {
            break;
        }
        chat.send(Signal::INT);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(chat.end().code(), Some(130));
}

#[test]
fn a_chat_answers_and_ends() {
    let mut chat = Chat::start("chat", "4");
    chat.person.write_all(b"the way\r").unwrap();
    let shown = chat.read_to("threads");
    assert!(shown.contains("answer 4 tokens"), "{shown}");
    chat.wait("a prompt", |chat| chat.raw());
    chat.person.write_all(b"/exit\r").unwrap();
    assert!(chat.end().success(), "{shown}");
}

#[test]
fn an_interrupt_stops_the_answer_and_not_the_chat() {
    let mut chat = Chat::start("stop", "32000");
    chat.read_to("> ");
    chat.person.write_all(b"the way\r").unwrap();
    // the typed line is echoed; the text after it is the answer
    let mut bytes = [0; 1024];
    let mut count = 0;
    while count < 1024 {
        count += chat.person.read(&mut bytes).unwrap();
    }
    chat.send(Signal::INT);
    let shown = chat.read_to("threads");
    let (_, answer) = shown.rsplit_once("answer ").unwrap();
    let tokens: u32 = answer.split(' ').next().unwrap().parse().unwrap();
    assert!(tokens < 32_000, "{tokens}");
    chat.wait("a prompt", |chat| chat.raw());
    chat.person.write_all(b"/exit\r").unwrap();
    assert!(chat.end().success());
}

/// Lines that are typed or pasted while an answer runs are the next questions.
#[test]
fn nothing_typed_during_an_answer_is_lost() {
    let mut chat = Chat::start_with(&endless("ahead.gguf"), "3000", "32768", &path("ahead-state"));
    chat.read_to("> ");
    chat.type_line("one");
    chat.wait("an answer without echo", |chat| {
        let modes = tcgetattr(&chat.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    });
    chat.type_line("two");
    chat.type_line("three\rfour");
    for _ in 0..4 {
        chat.read_to("threads");
    }
    chat.type_line("/show");
    chat.read_to("4 turns");
    chat.type_line("/exit");
    assert!(chat.end().success());
}

#[test]
fn commands_change_the_chat() {
    let mut chat = Chat::start("commands", "4");
    let saved = path("commands.json");
    let saved = saved.to_str().unwrap();
    for (line, answer) in [
        ("/stop", "there is no command /stop; /help lists them"),
        ("/help", "/regen"),
        ("/undo", "there is no question yet"),
        ("/set temp 0.25", ""),
        ("/set top-k 7", ""),
        ("/set heat 1", "--heat"),
        ("/set min-p 7", "min_p is 7; it must be from 0 to 1"),
        ("/system Be brief.", ""),
        ("/show", "temp 0.25, top-k 7"),
        ("/show", "system message: Be brief."),
        ("\"\"\"the way\rgoes\"\"\"", "answer 4 tokens"),
        ("/regen", "answer 4 tokens"),
        (&format!("/save {saved}"), "1 turns are in"),
        ("/undo", ""),
        ("/tokens", "of 32768 tokens"),
        ("/show", "0 turns, 26 of 32768 tokens"),
        (&format!("/load {saved}"), "1 turns"),
        ("/edit", "nothing has changed"),
    ] {
        chat.wait("a prompt", |chat| chat.raw());
        chat.type_line(line);
        chat.read_to(answer);
    }
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    let roles = document["messages"].as_array().unwrap().iter().map(|message| &message["role"]);
    assert!(roles.eq(["system", "user", "assistant"]), "{document}");
    assert_eq!(document["messages"][1]["content"], "the way\ngoes");
    chat.wait("a prompt", |chat| chat.raw());
    chat.type_line("/bye");
    assert!(chat.end().success());
}

/// The oldest turns leave a context that is full, so that a chat never ends in refusals.
#[test]
fn a_full_context_loses_its_oldest_turns() {
    let mut chat = Chat::start_with(&model("full", Family::Qwen3), "8", "128", &path("full-state"));
    let mut shown = String::new();
    for _ in 0..12 {
        chat.wait("a prompt", |chat| chat.raw());
        chat.type_line("the way goes on and on");
        shown += &chat.read_to("threads");
    }
    assert!(shown.contains("the context is full: the oldest"), "{shown}");
    assert!(!shown.contains("dropped") && shown.matches("answer 8 tokens").count() == 12, "{shown}");
    chat.wait("a prompt", |chat| chat.raw());
    chat.type_line("/exit");
    assert!(chat.end().success());
}

#[test]
fn lines_are_there_in_the_next_chat() {
    let state = path("history-state");
    let _ = std::fs::remove_dir_all(&state);
    let model = model("history", Family::Qwen3);
    // the last line was /exit
    for line in ["a first question", "\x1b[A\x1b[A"] {
        let mut chat = Chat::start_with(&model, "4", "32768", &state);
        chat.read_to("> ");
        chat.type_line(line);
        chat.read_to("a first question");
        chat.read_to("threads");
        chat.wait("a prompt", |chat| chat.raw());
        chat.type_line("/exit");
        assert!(chat.end().success());
    }
}
