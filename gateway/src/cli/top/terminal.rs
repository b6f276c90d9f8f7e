//! The terminal: shows the screen, hands it keys and answers, and has threads ask the gateway.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::{Value, json};

use super::screen::{KeyEffect, Screen};
use super::snapshot::{Snapshot, SnapshotSource};
use super::walk::FolderPage;
use tidegate_config::{Config, Environment};

/// The longest wait for a key before the next look at the answers.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// An answer of the gateway.
#[derive(Debug)]
enum Answer {
    Look(anyhow::Result<Snapshot>),
    Folder(FolderPage, Value),
}

/// Shows the gateway of a configuration until the user leaves; from `folder` on, if there is one.
pub(super) fn run(
    (config, env): (&Config, &Environment),
    first: Snapshot,
    folder: Option<FolderPage>,
    interval: Duration,
) -> anyhow::Result<()> {
    let (send, answers) = sync_channel(1);
    let (ask, asked) = channel();
    // They are not waited for: a gateway that hangs must not keep the user here.
    let (of_looks, of_folders) = ((config.clone(), env.clone()), (config.clone(), env.clone()));
    let folders = send.clone();
    thread::spawn(move || look_again(&of_looks, interval, &send));
    thread::spawn(move || answer_folders(&of_folders, &asked, &folders));
    let mut screen = Screen::new(first);
    if let Some(folder) = folder {
        ask.send(screen.begin_in(folder))?;
    }
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, screen, &answers, &ask);
    ratatui::restore();
    shown
}

/// Looks at the gateway again and again until the other side leaves.
fn look_again(
    (config, env): &(Config, Environment),
    interval: Duration,
    send: &SyncSender<Answer>,
) {
    let mut source = None;
    loop {
        thread::sleep(interval);
        // The token may lie in a file that is not there yet.
        let look = match source
            .take()
            .map_or_else(|| SnapshotSource::new(config, env), Ok)
        {
            Ok(known) => source.insert(known).take(),
            Err(error) => Err(error),
        };
        if send.send(Answer::Look(look)).is_err() {
            return;
        }
    }
}

/// Asks for folders until the other side leaves. Of several that wait, only the last one is still wanted.
fn answer_folders(
    (config, env): &(Config, Environment),
    asked: &Receiver<FolderPage>,
    send: &SyncSender<Answer>,
) {
    while let Ok(first) = asked.recv() {
        let page = asked.try_iter().last().unwrap_or(first);
        let answer = match SnapshotSource::new(config, env) {
            Ok(source) => source.folder(&page),
            Err(error) => json!({ "error": format!("{error:#}") }),
        };
        if send.send(Answer::Folder(page, answer)).is_err() {
            return;
        }
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: Screen,
    answers: &Receiver<Answer>,
    ask: &Sender<FolderPage>,
) -> anyhow::Result<()> {
    loop {
        for answer in answers.try_iter() {
            match answer {
                Answer::Look(look) => screen.update(look),
                Answer::Folder(page, answer) => screen.take_folder(&page, &answer),
            }
        }
        terminal.draw(|frame| screen.draw(frame))?;
        if event::poll(KEY_WAIT)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            match screen.press(key) {
                KeyEffect::Stay => {}
                KeyEffect::Leave => return Ok(()),
                KeyEffect::Ask(page) => ask.send(page)?,
            }
        }
    }
}
