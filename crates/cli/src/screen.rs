//! A terminal that is drawn anew as a whole: the demo's live view, and `isomer top`.

use crate::text;
use crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue};
use std::io::{self, Stdout, Write, stdout};
use std::time::Duration;

/// A terminal. Dropping it restores the terminal.
pub(crate) struct Screen {
    out: Stdout,
    is_over: bool,
}

impl Screen {
    pub(crate) fn open() -> io::Result<Screen> {
        enable_raw_mode()?;
        let mut screen = Screen { out: stdout(), is_over: false };
        execute!(screen.out, EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Waits for `pause`; true if the user has pressed q, Esc or Ctrl-C.
    pub(crate) fn wait(&mut self, pause: Duration) -> io::Result<bool> {
        let end = crate::clock::now() + pause;
        while let Some(left) = end.checked_duration_since(crate::clock::now()) {
            if !poll(left)? {
                break;
            }
            if let Event::Key(key) = read()? {
                let is_quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
                let is_interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                self.is_over |= is_quit || is_interrupt;
            }
        }
        Ok(self.is_over)
    }

    /// Shows the lines that `lines` makes for this width and height.
    pub(crate) fn draw(
        &mut self,
        lines: impl FnOnce(usize, usize) -> Vec<String>,
    ) -> io::Result<()> {
        let (width, height) = size()?;
        let (width, height) = (usize::from(width), usize::from(height));
        queue!(self.out, cursor::MoveTo(0, 0))?;
        for (at, line) in lines(width, height).iter().take(height).enumerate() {
            let attribute = if at == 0 { Attribute::Bold } else { Attribute::Reset };
            let row = u16::try_from(at).unwrap_or(u16::MAX);
            queue!(
                self.out,
                cursor::MoveTo(0, row),
                SetAttribute(attribute),
                Print(text::fit(line, width)),
                SetAttribute(Attribute::Reset),
                Clear(ClearType::UntilNewLine),
            )?;
        }
        queue!(self.out, Clear(ClearType::FromCursorDown))?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A failure to restore the terminal cannot be shown.
        let _ = execute!(self.out, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}
