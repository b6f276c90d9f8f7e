//! The screen: draws the pane that was chosen, and takes keys.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{
    Block, Borders, Cell, Clear, Paragraph, Row, Table as Grid, TableState, Wrap,
};

use super::panes::Pane;
use super::snapshot::Snapshot;
use super::table::{Column, Sorting, Table};
use super::walk::{FolderPage, Walk};

const HELP: &str = "\
Tab, Shift-Tab         another pane
1 to 9, 0, -           the first to the eleventh pane
s, S                   sort by the next column, or the one before
r                      the other way round
/                      only rows with a text; Enter keeps it, Esc ends it
Up, Down, PgUp, PgDn   move through the rows
p                      pause, go on
?                      this help, and away with it
q, Esc, Ctrl-C         leave
In Objects:
Enter, Backspace       into the folder or route, and out of it
n, b                   the next page of a large folder, the one before
u                      ask for the folder again
CACHED is the object from its begin to its end:
# in memory, = on disk, . in neither";

/// The keys of the panes, in their order.
pub(super) const PANE_KEYS: &str = "1234567890-";

/// The lines below the rows that tell more of the selected one, or of the pane.
const DETAIL_LINES: u16 = 4;

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    snapshot: Snapshot,
    pane: usize,
    sortings: [Sorting; Pane::ALL.len()],
    /// The selected row, or the first one that is shown where none is selected.
    row: usize,
    /// The id of the row that the user has moved to. `None`: the first one that is shown is selected.
    chosen: Option<String>,
    walk: Walk,
    /// The text that shown rows contain.
    filter: String,
    /// Whether keys are letters of the filter.
    is_filtering: bool,
    paused: bool,
    shows_help: bool,
    /// The reason why the last look failed.
    trouble: Option<String>,
}

/// The effect of a key beyond another look of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyEffect {
    Stay,
    Leave,
    /// Ask the gateway for a page of a folder.
    Ask(FolderPage),
}

impl From<Option<FolderPage>> for KeyEffect {
    fn from(page: Option<FolderPage>) -> Self {
        page.map_or(Self::Stay, Self::Ask)
    }
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
            row: 0,
            chosen: None,
            walk: Walk::default(),
            filter: String::new(),
            is_filtering: false,
            paused: false,
            shows_help: false,
            trouble: None,
        }
    }

    /// Shows a folder. Returns the page to ask for.
    pub(super) fn begin_in(&mut self, folder: FolderPage) -> FolderPage {
        let objects = Pane::ALL.iter().position(|pane| *pane == Pane::Objects);
        self.choose(objects.unwrap_or_default());
        self.walk_down(folder)
    }

    /// Takes the next look at the gateway, unless it is paused.
    pub(super) fn update(&mut self, look: anyhow::Result<Snapshot>) {
        match look {
            _ if self.paused => {}
            Ok(mut snapshot) => {
                snapshot.set_folder(self.walk.part());
                self.trouble = None;
                self.snapshot = snapshot;
                self.keep_selected();
            }
            Err(error) => self.trouble = Some(format!("{error:#}")),
        }
    }

    /// Selects the row that the user has chosen, wherever it is now, or another one if it is gone. While no row is shown, as
    /// before an answer, it stays chosen.
    fn keep_selected(&mut self) {
        let Some(chosen) = &self.chosen else { return };
        let shown = self.shown(&self.table());
        let mut shown = shown.iter();
        match shown.position(|number| self.pane().id(&self.snapshot, *number) == *chosen) {
            Some(row) => self.row = row,
            None => self.move_to(self.row),
        }
    }

    /// Takes a page of a folder that was asked for.
    pub(super) fn take_folder(&mut self, page: &FolderPage, answer: &serde_json::Value) {
        self.walk.take(page, answer);
        self.show_folder();
    }

    /// Puts the folder of the walk into the look.
    fn show_folder(&mut self) {
        self.snapshot.set_folder(self.walk.part());
        self.keep_selected();
    }

    fn pane(&self) -> Pane {
        Pane::ALL[self.pane]
    }

    fn table(&self) -> Table {
        self.pane().table(&self.snapshot)
    }

    /// Returns the numbers of the table's rows that are shown, in their order.
    fn shown(&self, table: &Table) -> Vec<usize> {
        table.arranged(self.sortings[self.pane], &self.filter)
    }

    /// Returns the number of the selected row in the table.
    fn selected(&self) -> Option<usize> {
        self.shown(&self.table()).get(self.row).copied()
    }

    /// Selects another row, or the last one if there are not so many.
    fn move_to(&mut self, row: usize) {
        let shown = self.shown(&self.table());
        if let Some(last) = shown.len().checked_sub(1) {
            self.row = row.min(last);
            self.chosen = Some(self.pane().id(&self.snapshot, shown[self.row]));
        }
    }

    /// Selects the first row.
    fn begin_rows(&mut self) {
        self.row = 0;
        self.chosen = None;
    }

    /// Takes a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        let ends = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        if ends {
            return KeyEffect::Leave;
        }
        match key.code {
            code if self.is_filtering => self.filter_by(code),
            KeyCode::Char('q') => KeyEffect::Leave,
            _ if self.shows_help => {
                self.shows_help = false;
                KeyEffect::Stay
            }
            KeyCode::Esc if !self.filter.is_empty() => self.filter_by(KeyCode::Esc),
            KeyCode::Esc => KeyEffect::Leave,
            code if self.pane() == Pane::Objects => self.walk_by(code),
            code => self.look_by(code),
        }
    }

    /// Takes a key that changes what is shown of the look.
    fn look_by(&mut self, code: KeyCode) -> KeyEffect {
        let panes = Pane::ALL.len();
        match code {
            KeyCode::Char('?') => self.shows_help = true,
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Tab | KeyCode::Right => self.choose((self.pane + 1) % panes),
            KeyCode::BackTab | KeyCode::Left => self.choose((self.pane + panes - 1) % panes),
            KeyCode::Char('s') => self.sort_by(1),
            KeyCode::Char('S') => self.sort_by(-1),
            KeyCode::Char('r') => {
                let sorting = &mut self.sortings[self.pane];
                sorting.ascending = !sorting.ascending;
                self.keep_selected();
            }
            KeyCode::Up => self.move_to(self.row.saturating_sub(1)),
            KeyCode::Down => self.move_to(self.row + 1),
            KeyCode::PageUp => self.move_to(self.row.saturating_sub(10)),
            KeyCode::PageDown => self.move_to(self.row + 10),
            KeyCode::Char(key) => {
                if let Some(pane) = PANE_KEYS.find(key) {
                    self.choose(pane);
                }
            }
            _ => {}
        }
        KeyEffect::Stay
    }

    /// Takes a key of the pane Objects.
    fn walk_by(&mut self, code: KeyCode) -> KeyEffect {
        let page = match code {
            KeyCode::Enter => {
                let row = self.selected();
                let row = row.map(|number| self.pane().row(&self.snapshot, number));
                let below = row.and_then(|row| self.walk.below(row));
                return KeyEffect::from(below.map(|page| self.walk_down(page)));
            }
            KeyCode::Backspace => {
                self.filter.clear();
                if let Some(row) = self.walk.up() {
                    self.show_folder();
                    self.move_to(row);
                }
                None
            }
            KeyCode::Char('n') => self.walk.next_page(),
            KeyCode::Char('b') => self.walk.page_before(),
            KeyCode::Char('u') => self.walk.again(),
            code => return self.look_by(code),
        };
        if page.is_some() && code != KeyCode::Char('u') {
            self.begin_rows();
        }
        self.show_folder();
        KeyEffect::from(page)
    }

    fn walk_down(&mut self, page: FolderPage) -> FolderPage {
        let page = self.walk.down(page, self.row);
        self.begin_rows();
        self.filter.clear();
        self.show_folder();
        page
    }

    /// Takes a key of the filter.
    fn filter_by(&mut self, code: KeyCode) -> KeyEffect {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            _ => {}
        }
        self.begin_rows();
        KeyEffect::Stay
    }

    fn choose(&mut self, pane: usize) {
        self.pane = pane;
        self.begin_rows();
        self.filter.clear();
    }

    /// Sorts by the column `step` beside the present one; in between there is the order of the gateway.
    fn sort_by(&mut self, step: isize) {
        let columns = self.table().columns.len();
        let sorting = &mut self.sortings[self.pane];
        let present = sorting.column.map_or(0, |column| column + 1);
        let next = present.wrapping_add_signed(step + columns as isize + 1) % (columns + 1);
        sorting.column = next.checked_sub(1);
        self.keep_selected();
    }

    /// Draws everything.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let details = match self.pane().has_detail() {
            true => DETAIL_LINES,
            false => 0,
        };
        let rows = [
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(details),
            Constraint::Length(1),
        ];
        let [head, body, detail, foot] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(self.tabs(head.width), head);
        self.draw_table(frame, body);
        let words = self.pane().detail(&self.snapshot, self.selected());
        let words = Paragraph::new(words).wrap(Wrap { trim: true });
        frame.render_widget(words, detail);
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

    /// Returns the names of the panes, with their keys where they fit.
    fn tabs(&self, width: u16) -> Line<'static> {
        let line = |has_keys: bool| {
            let mut line = Line::default();
            for (pane, key) in Pane::ALL.into_iter().zip(PANE_KEYS.chars()) {
                let style = match pane == self.pane() {
                    true => Style::new().add_modifier(Modifier::REVERSED),
                    false => Style::new(),
                };
                let title = match has_keys {
                    true => format!("{key} {}", pane.title()),
                    false => pane.title().to_owned(),
                };
                line.push_span(Span::styled(title, style));
                line.push_span(" ");
            }
            line
        };
        let full = line(true);
        if full.width() <= usize::from(width) {
            full
        } else {
            line(false)
        }
    }

    fn footer(&self) -> Line<'static> {
        let walks = self.pane() == Pane::Objects;
        let text = match (&self.trouble, self.paused) {
            _ if self.is_filtering => format!(" rows with: {}_", self.filter),
            (Some(trouble), _) => format!(" {trouble}"),
            (None, true) => " paused: p goes on".to_owned(),
            _ if !self.filter.is_empty() => format!(" rows with {}: Esc shows all", self.filter),
            _ if walks => {
                " ? help   Enter in   Backspace out   n next page   b page before   q leave"
                    .to_owned()
            }
            (None, false) => {
                " ? help   s sort   r reverse   / filter   p pause   q leave".to_owned()
            }
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
        let selects = self.pane().selects();
        let shown = self.shown(&table);
        let skipped = if selects { 0 } else { self.row };
        let rows = shown.into_iter().skip(skipped).map(|number| {
            let cells = table.rows[number].iter().zip(&table.columns);
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
        let grid = grid.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new().with_selected(selects.then_some(self.row));
        frame.render_stateful_widget(grid, area, &mut state);
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
