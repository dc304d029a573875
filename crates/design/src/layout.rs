//! Where in a row the columns of a schema are stored: see the picture in [`crate::row`].

use crate::ColumnType;
use crate::column::Column;

/// Bytes that say where a part of the tail ends.
pub(crate) const END_BYTES: usize = size_of::<u32>();

/// Where the columns of a schema are stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slots: Vec<Slot>,
    /// Where the ends start: after nulls and fixed columns.
    pub(crate) ends_at: usize,
    /// Where the tail starts.
    pub(crate) tail_at: usize,
}

/// Where one column is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) place: Place,
    /// The bit that marks a NULL, counted from the first bit of the row.
    pub(crate) null_bit: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the key, as its `n`-th column.
    Key(usize),
    /// In the row, from this byte on.
    Fixed(usize),
    /// In the tail, as its `n`-th part.
    Tail(usize),
    /// Behind the tail, as the `n`-th of the columns that were [added](crate::added).
    Added(usize),
}

impl Layout {
    /// The layout of rows with these columns, of which some were added later, in this order.
    pub(crate) fn of(columns: &[Column], primary_key: &[usize], added: &[usize]) -> Layout {
        let mut added_as = vec![None; columns.len()];
        added.iter().enumerate().for_each(|(at, &index)| added_as[index] = Some(at));
        let has_bit =
            |(column, added): &(&Column, &Option<usize>)| column.nullable && added.is_none();
        let null_bits = columns.iter().zip(&added_as).filter(has_bit).count();
        let (mut next_bit, mut fixed_at, mut tail_parts) = (0, null_bits.div_ceil(8), 0);
        let mut slots = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            if let Some(at) = added_as[index] {
                slots.push(Slot { place: Place::Added(at), null_bit: None });
                continue;
            }
            let null_bit = column.nullable.then_some(next_bit);
            next_bit += usize::from(column.nullable);
            let key_index = primary_key.iter().position(|&key_column| key_column == index);
            // A numeric of a key has its digits as they were written in the tail.
            let key_index = key_index.filter(|_| column.ty != ColumnType::Numeric);
            let place = match (key_index, fixed_bytes(column.ty)) {
                (Some(key_index), _) => Place::Key(key_index),
                (None, Some(bytes)) => {
                    fixed_at += bytes;
                    Place::Fixed(fixed_at - bytes)
                }
                (None, None) => {
                    tail_parts += 1;
                    Place::Tail(tail_parts - 1)
                }
            };
            slots.push(Slot { place, null_bit });
        }
        Layout { slots, ends_at: fixed_at, tail_at: fixed_at + tail_parts * END_BYTES }
    }

    /// Where the tail of a row ends; `None` if the row is too short to say so.
    pub(crate) fn tail_end(&self, row: &[u8]) -> Option<usize> {
        let Some(last) = self.tail_at.checked_sub(END_BYTES).filter(|last| *last >= self.ends_at)
        else {
            return Some(self.tail_at);
        };
        let end = row.get(last..)?.first_chunk()?;
        Some(self.tail_at + u32::from_le_bytes(*end) as usize)
    }

    /// Puts the next part behind the tail of a row.
    pub(crate) fn put_tail(&self, row: &mut Vec<u8>, part: usize, bytes: &[u8]) {
        row.extend_from_slice(bytes);
        // Rows beyond the limit are refused in the end, so the number fits where it is kept.
        let end = (row.len() - self.tail_at) as u32;
        let end_at = self.ends_at + part * END_BYTES;
        row[end_at..end_at + END_BYTES].copy_from_slice(&end.to_le_bytes());
    }
}

/// The bytes that a value of the type takes, unless it depends on the value.
pub(crate) fn fixed_bytes(ty: ColumnType) -> Option<usize> {
    match ty {
        ColumnType::Int64 | ColumnType::Float64 | ColumnType::Timestamp => Some(8),
        ColumnType::Decimal { .. } => Some(16),
        ColumnType::Bool => Some(1),
        ColumnType::Text | ColumnType::Bytes | ColumnType::Numeric => None,
    }
}
