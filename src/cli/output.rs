//! stdout is data, stderr is messages.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::cli::args::Global;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::warnings::Warnings;
use crate::log::Gap;
use crate::view::View;
use crate::view::records::Problem;

/// What takes longer than this shows its progress, on a terminal.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);
const PROGRESS_TICK: Duration = Duration::from_millis(100);

const BOLD: Style = Style::new().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();

/// Colours and tracing, once per process.
pub(crate) fn set_up(global: &Global) {
    match global.color {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    let level = match (global.quiet, global.verbose) {
        (true, _) => LevelFilter::OFF,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, 2) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    let mut targets = Targets::new().with_target("hermes_log", level);
    if level == LevelFilter::WARN {
        targets = targets.with_target("hermes_log::view", LevelFilter::ERROR); // gaps, which the commands print
    }
    if global.verbose == 0 {
        let warnings = Warnings { json: global.json }.with_filter(targets);
        let _ = tracing_subscriber::registry().with(warnings).try_init();
        return;
    }
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(anstream::stderr().current_choice() != anstream::ColorChoice::Never)
        .log_internal_errors(false);
    // Fails if the caller of `run` has a subscriber of its own, which then is the one.
    let _ = tracing_subscriber::registry().with(lines.with_filter(targets)).try_init();
}

/// A column of a table, by its title.
pub(crate) enum Column {
    Text(&'static str),
    /// Stands right.
    Number(&'static str),
}

/// The process's stdout, and its messages.
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    data: Box<dyn Write>,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Output {
        // JSON is exact: nothing may take it for an escape sequence and strip it.
        let data: Box<dyn Write> = if global.json {
            Box::new(BufWriter::new(io::stdout()))
        } else {
            Box::new(BufWriter::new(anstream::stdout()))
        };
        Output { json: global.json, quiet: global.quiet, data }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// One line of data.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.data, "{line}")?)
    }

    /// One JSON value, on a line of its own.
    pub(crate) fn value(&mut self, value: &Value) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.data, value).map_err(io::Error::from)?;
        Ok(writeln!(self.data)?)
    }

    /// Rows below a bold header.
    pub(crate) fn table(
        &mut self,
        header: &[Column],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Result<(), Failure> {
        let mut table = plain_table(rows);
        table.set_header(header.iter().map(|(Column::Text(title) | Column::Number(title))| *title));
        for (column, title) in table.column_iter_mut().zip(header) {
            if matches!(title, Column::Number(_)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for (number, line) in table.lines().enumerate() {
            let line = line.trim_end();
            if number == 0 { self.heading(line)? } else { self.line(line)? }
        }
        Ok(())
    }

    /// Names and what they are, aligned.
    pub(crate) fn fields<'a>(&mut self, fields: impl IntoIterator<Item = (&'a str, String)>) -> Result<(), Failure> {
        let rows = fields.into_iter().map(|(name, value)| vec![name.to_owned(), value]);
        for line in plain_table(rows).lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// A heading above fields or a table.
    pub(crate) fn heading(&mut self, text: &str) -> Result<(), Failure> {
        self.line(&format!("{BOLD}{text}{BOLD:#}"))
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.data.flush()?)
    }

    /// A message for people, on stderr. A stderr that cannot be written to is no failure of the command.
    pub(crate) fn message(&mut self, text: &str) {
        if !self.quiet && !self.json {
            self.flush_before_message();
            let _ = writeln!(anstream::stderr(), "{text}");
        }
    }

    /// The same, about something that is not as it should be; with `--json` as `{"warning": TEXT}`.
    pub(crate) fn warning(&mut self, text: &str) {
        if !self.quiet {
            self.flush_before_message();
            print_warning(self.json, text);
        }
    }

    /// An error that does not end the command.
    pub(crate) fn error(&mut self, text: &str, exit: Exit) {
        self.flush_before_message();
        print_error(self.json, text, exit);
    }

    /// One JSON object on stderr.
    pub(crate) fn report_json(&mut self, value: &Value) {
        self.flush_before_message();
        let _ = writeln!(io::stderr(), "{value}");
    }

    /// On a terminal both come in order. If it fails, what was not written is still there, and fails again.
    fn flush_before_message(&mut self) {
        let _ = self.data.flush();
    }

    /// What a view could not read, on stderr.
    pub(crate) fn report_gaps(&mut self, view: &View) {
        self.report(view.gaps_met(), view.snapshot_problems());
    }

    pub(crate) fn report(&mut self, gaps: &[Gap], problems: &[Problem]) {
        gaps.iter().for_each(|gap| self.warning(&gap.to_string()));
        problems.iter().for_each(|problem| self.warning(&display::problem(problem)));
    }

    /// Does `work`, which can say through the bar how far it is. The bar shows on a terminal, after a second.
    pub(crate) fn with_progress<T>(&self, what: &'static str, work: impl FnOnce(&ProgressBar) -> T) -> T {
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        let bar = ProgressBar::hidden().with_message(what);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        if self.quiet || !io::stderr().is_terminal() {
            return work(&bar);
        }
        let (done, is_done) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let bar = &bar;
            scope.spawn(move || {
                if is_done.recv_timeout(PROGRESS_AFTER) == Err(RecvTimeoutError::Timeout) {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(PROGRESS_TICK);
                    let _ = is_done.recv(); // ends when the sender is dropped
                }
                bar.finish_and_clear();
            });
            let result = work(bar);
            drop(done);
            result
        })
    }
}

/// A warning, on stderr.
pub(crate) fn print_warning(json: bool, text: &str) {
    // Nothing is left to be done if stderr is gone as well.
    let _ = match json {
        true => writeln!(io::stderr(), "{}", serde_json::json!({"warning": text})),
        false => writeln!(anstream::stderr(), "{YELLOW}warning:{YELLOW:#} {}", display::escape_lines(text)),
    };
}

/// An error, on stderr.
pub(crate) fn print_error(json: bool, text: &str, exit: Exit) {
    // Nothing is left to be done if stderr is gone as well.
    let _ = if json {
        writeln!(io::stderr(), "{}", serde_json::json!({"error": text, "exit": exit as u8}))
    } else {
        writeln!(anstream::stderr(), "{RED}error:{RED:#} {}", display::escape_lines(text))
    };
}

fn plain_table(rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}
