//! The positions of a schema's columns in a row: see the picture in [`crate::row`].

use crate::ColumnType;
use crate::column::Column;

/// The size of an entry of `ends`.
pub(crate) const END_BYTES: usize = size_of::<u32>();

/// The positions of a schema's columns.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slots: Vec<Slot>,
    /// The offset of `ends`, after nulls and fixed columns.
    pub(crate) ends_at: usize,
    /// The offset of the tail.
    pub(crate) tail_at: usize,
}

/// The position of one column.
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
    /// After the tail, as the `n`-th [added](crate::added) column.
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
            // The row keeps the digits of a key's numeric in its tail.
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

    /// The end of a row's tail; `None` if the row is too short.
    pub(crate) fn tail_end(&self, row: &[u8]) -> Option<usize> {
        let Some(last) = self.tail_at.checked_sub(END_BYTES).filter(|last| *last >= self.ends_at)
        else {
            return Some(self.tail_at);
        };
        let end = row.get(last..)?.first_chunk()?;
        Some(self.tail_at + u32::from_le_bytes(*end) as usize)
    }

    /// Appends the next part to the tail of a row.
    pub(crate) fn put_tail(&self, row: &mut Vec<u8>, part: usize, bytes: &[u8]) {
        row.extend_from_slice(bytes);
        // Rows beyond the limit are refused at the end, so the number fits.
        let end = (row.len() - self.tail_at) as u32;
        let end_at = self.ends_at + part * END_BYTES;
        row[end_at..end_at + END_BYTES].copy_from_slice(&end.to_le_bytes());
    }
}

/// The size of a value of the type, if it does not depend on the value.
pub(crate) fn fixed_bytes(ty: ColumnType) -> Option<usize> {
    match ty {
        ColumnType::Int64 | ColumnType::Date | ColumnType::Float64 | ColumnType::Timestamp => {
            Some(8)
        }
        ColumnType::Decimal { .. } => Some(16),
        ColumnType::Bool => Some(1),
        ColumnType::Text | ColumnType::Bytes | ColumnType::Numeric => None,
    }
}
