//! The terminal: draws the pane that was chosen, and takes keys.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table as Grid};

use super::panes::Pane;
use super::snapshot::{Snapshot, Source};
use super::table::{Column, Sorting, Table};
use tidegate_config::{Config, Environment};

/// The longest wait for a key before the next look at the answers.
const KEY_WAIT: Duration = Duration::from_millis(100);

const HELP: &str = "\
1 to 9, Tab, Shift-Tab   another pane
s, S                     sort by the next column, or the one before
r                        the other way round
Up, Down, PgUp, PgDn     move through the rows
p                        pause, go on
?                        this help, and away with it
q, Esc, Ctrl-C           leave";

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    snapshot: Snapshot,
    pane: usize,
    sortings: [Sorting; Pane::ALL.len()],
    /// The first row that is shown.
    offset: usize,
    paused: bool,
    shows_help: bool,
    /// The reason why the last look failed.
    trouble: Option<String>,
}

/// The effect of a key beyond another look of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Stay,
    Leave,
}

impl Screen {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        // The fastest stream first.
        let mut sortings = [Sorting::default(); Pane::ALL.len()];
        sortings[1].column = Some(0);
        Self {
            snapshot,
            pane: 0,
            sortings,
            offset: 0,
            paused: false,
            shows_help: false,
            trouble: None,
        }
    }

    /// Takes the next look at the gateway, unless it is paused.
    pub(super) fn update(&mut self, look: anyhow::Result<Snapshot>) {
        match look {
            _ if self.paused => {}
            Ok(snapshot) => {
                self.snapshot = snapshot;
                self.trouble = None;
            }
            Err(error) => self.trouble = Some(format!("{error:#}")),
        }
    }

    fn table(&self) -> Table {
        let mut table = Pane::ALL[self.pane].table(&self.snapshot);
        table.sort(self.sortings[self.pane]);
        table
    }

    /// Takes a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        let ends = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        if ends || key.code == KeyCode::Char('q') {
            return Wish::Leave;
        }
        if self.shows_help {
            self.shows_help = false;
            return Wish::Stay;
        }
        let panes = Pane::ALL.len();
        match key.code {
            KeyCode::Esc => return Wish::Leave,
            KeyCode::Char('?') => self.shows_help = true,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char(digit @ '1'..='9') => self.choose(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => self.choose((self.pane + 1) % panes),
            KeyCode::BackTab | KeyCode::Left => self.choose((self.pane + panes - 1) % panes),
            KeyCode::Char('s') => self.sort_by(1),
            KeyCode::Char('S') => self.sort_by(-1),
            KeyCode::Char('r') => {
                let sorting = &mut self.sortings[self.pane];
                sorting.ascending = !sorting.ascending;
            }
            KeyCode::Up => self.offset = self.offset.saturating_sub(1),
            KeyCode::Down => self.offset += 1,
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(10),
            KeyCode::PageDown => self.offset += 10,
            _ => {}
        }
        let rows = self.table().rows.len();
        self.offset = self.offset.min(rows.saturating_sub(1));
        Wish::Stay
    }

    fn choose(&mut self, pane: usize) {
        self.pane = pane;
        self.offset = 0;
    }

    /// Sorts by the column `step` beside the present one; in between there is the order of the gateway.
    fn sort_by(&mut self, step: isize) {
        let columns = self.table().columns.len();
        let sorting = &mut self.sortings[self.pane];
        let present = sorting.column.map_or(0, |column| column + 1);
        let next = present.wrapping_add_signed(step + columns as isize + 1) % (columns + 1);
        sorting.column = next.checked_sub(1);
    }

    /// Draws everything.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let rows = [
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(1),
        ];
        let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(self.tabs(), head);
        self.draw_table(frame, body);
        frame.render_widget(self.footer(), foot);
        if self.shows_help {
            let lines = HELP.lines();
            let width = lines.clone().map(str::len).max().unwrap_or(0) + 4;
            let area = centred(frame.area(), width, lines.count() + 2);
            frame.render_widget(Clear, area);
            let help = Paragraph::new(HELP).block(Block::bordered().title(" Keys "));
            frame.render_widget(help, area);
        }
    }

    fn tabs(&self) -> Line<'static> {
        let mut line = Line::default();
        for (index, pane) in Pane::ALL.iter().enumerate() {
            let style = match index == self.pane {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            line.push_span(ratatui::text::Span::styled(
                format!("{} {}", index + 1, pane.title()),
                style,
            ));
            line.push_span(" ");
        }
        line
    }

    fn footer(&self) -> Line<'static> {
        let text = match (&self.trouble, self.paused) {
            (Some(trouble), _) => format!(" {trouble}"),
            (None, true) => " paused: p goes on".to_owned(),
            (None, false) => " ? help   s sort   r reverse   p pause   q leave".to_owned(),
        };
        let style = match self.trouble {
            Some(_) => Style::new().add_modifier(Modifier::BOLD),
            None => Style::new().add_modifier(Modifier::DIM),
        };
        Line::styled(text, style)
    }

    fn draw_table(&self, frame: &mut Frame<'_>, area: Rect) {
        let table = self.table();
        let sorting = self.sortings[self.pane];
        let title = |(index, column): (usize, &Column)| {
            let mark = match (sorting.column == Some(index), sorting.ascending) {
                (true, true) => "^",
                (true, false) => "v",
                (false, _) => "",
            };
            aligned(format!("{}{mark}", column.title), column)
        };
        let header = Row::new(table.columns.iter().enumerate().map(title));
        let header = header.style(Style::new().add_modifier(Modifier::BOLD));
        let room = room(&table.columns, area.width);
        let rows = table.rows.iter().skip(self.offset).map(|row| {
            let cells = row.iter().zip(&table.columns);
            Row::new(cells.map(|(cell, column)| match column.width {
                0 => aligned(end_of(&cell.shown, room), column),
                _ => aligned(cell.shown.clone(), column),
            }))
        });
        let widths = table.columns.iter().map(|column| match column.width {
            0 => Constraint::Fill(1),
            width => Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)),
        });
        let block = Block::new()
            .borders(Borders::TOP)
            .title(format!(" {} ", table.title));
        let has_titles = table.columns.iter().any(|column| !column.title.is_empty());
        let mut grid = Grid::new(rows, widths).block(block);
        if has_titles {
            grid = grid.header(header);
        }
        frame.render_widget(grid, area);
    }
}

/// Returns the characters that the other columns leave for one without a width.
fn room(columns: &[Column], width: u16) -> usize {
    let taken: usize = columns.iter().map(|column| column.width + 1).sum();
    usize::from(width).saturating_sub(taken - 1)
}

/// Returns the end of a text that is too long: of a path, that tells most.
fn end_of(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room || room == 0 {
        return text.to_owned();
    }
    let end = text.chars().skip(length + 1 - room);
    std::iter::once('…').chain(end).collect()
}

fn aligned(text: String, column: &Column) -> Cell<'static> {
    let alignment = match column.right {
        true => Alignment::Right,
        false => Alignment::Left,
    };
    Cell::from(Text::from(text).alignment(alignment))
}

/// Returns the middle of an area, at most as large as that.
fn centred(area: Rect, width: usize, height: usize) -> Rect {
    let fit = |length: usize, most: u16| u16::try_from(length).unwrap_or(most).min(most);
    let (width, height) = (fit(width, area.width), fit(height, area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

/// Shows the gateway of a configuration until the user leaves.
pub(super) fn run(
    (config, env): (&Config, &Environment),
    first: Snapshot,
    interval: Duration,
) -> anyhow::Result<()> {
    let (config, env) = (config.clone(), env.clone());
    let (send, looks) = sync_channel(1);
    // Not waited for: a gateway that hangs must not keep the user here.
    thread::spawn(move || look_again((&config, &env), interval, &send));
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, Screen::new(first), &looks);
    ratatui::restore();
    shown
}

/// Looks at the gateway again and again until the other side leaves.
fn look_again(
    (config, env): (&Config, &Environment),
    interval: Duration,
    send: &SyncSender<anyhow::Result<Snapshot>>,
) {
    let mut source = None;
    loop {
        thread::sleep(interval);
        // The token may lie in a file that is not there yet.
        let look = match source.take().map_or_else(|| Source::new(config, env), Ok) {
            Ok(known) => source.insert(known).take(),
            Err(error) => Err(error),
        };
        if send.send(look).is_err() {
            return;
        }
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: Screen,
    looks: &Receiver<anyhow::Result<Snapshot>>,
) -> anyhow::Result<()> {
    loop {
        while let Ok(look) = looks.try_recv() {
            screen.update(look);
        }
        terminal.draw(|frame| screen.draw(frame))?;
        if event::poll(KEY_WAIT)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && screen.press(key) == Wish::Leave
        {
            return Ok(());
        }
    }
}
