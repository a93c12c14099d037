//! The chat on a pseudoterminal.

use crate::program::{command, model};
use core::time::Duration;
use doorbell_tests::tiny::Family;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

/// A running chat.
struct Chat {
    child: Child,
    /// The controlling side of the pseudoterminal.
    person: File,
    terminal: OwnedFd,
    /// The terminal's mode before the chat.
    before: Termios,
}

impl Chat {
    fn start(name: &str, tokens: &str) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).unwrap();
        unlockpt(&person).unwrap();
        let terminal = ioctl_tiocgptpeer(&person, flags).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        let end = || terminal.try_clone().unwrap();
        let mut command = command(&[
            "run",
            &model(name, Family::Qwen3),
            "-n",
            tokens,
            "--ctx",
            "32768",
            "-t",
            "1",
            "--temp",
            "0",
        ]);
        command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        let mut chat = Self { child, person: person.into(), terminal, before };
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

    /// Reads until `text` appears; returns everything read.
    fn read_to(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        let mut bytes = [0; 1024];
        while !String::from_utf8_lossy(&shown).contains(text) {
            let count = self.person.read(&mut bytes).unwrap();
            shown.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8_lossy(&shown).into_owned()
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
