//! Small tables that people write: a header, then lines of comma-separated fields.
//!
//! Placements, topologies and lists of replicas have this form. They are short, so the text is held
//! whole and fields are borrowed; recordings have their own reader, which streams.

/// A faulty line: its number, from 1, and the right form.
pub(crate) type RowFault = (usize, String);

/// One line: its number, from 1, and its fields without the blanks around them.
pub(crate) type Row<'t, const N: usize> = (usize, [&'t str; N]);

/// The lines under the header, which must be there; empty lines do not count.
pub(crate) fn rows<'t, const N: usize>(
    text: &'t str,
    header: &str,
) -> Result<Vec<Row<'t, N>>, RowFault> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty());
    let (number, first) = lines.next().unwrap_or((1, ""));
    if first != header {
        return Err((number, format!("\"{first}\" is not the header {header}")));
    }
    let row = |(number, line): (usize, &'t str)| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let fields = fields.try_into().map_err(|fields: Vec<&str>| {
            (number, format!("{} fields, expected {header}", fields.len()))
        })?;
        Ok((number, fields))
    };
    lines.map(row).collect()
}
