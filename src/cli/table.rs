//! Tables on a terminal.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};

/// Writes a table without lines. Its cells hold what others wrote, so control characters are replaced.
pub(super) fn table<const N: usize, W: Write + ?Sized>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    out: &mut W,
) -> io::Result<()> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table.add_rows(rows.map(|row| row.map(|cell| printable(&cell))));
    for line in table.lines() {
        writeln!(out, "{}", line.trim())?;
    }
    Ok(())
}

/// Text of somebody else, fit for a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
