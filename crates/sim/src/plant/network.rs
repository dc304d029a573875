//! A network that meddles with feeds and outcomes.

use super::Plant;
use isomer_design::{SiteId, Time};
use isomer_site::{Event, FeedItem, Message, read_frame};
use rand::RngExt;
use std::sync::Arc;

/// Of a thousand letters that could be spoilt, so many are.
const SPOILT_PER_MILLE: u32 = 30;
/// How much too early a feed is closed.
const EARLY_NS: u64 = 20_000_000;

impl Plant {
    /// Spoils a letter; `false` if it is to be lost.
    pub(crate) fn tamper(self, rng: &mut impl RngExt, _to: SiteId, message: &mut Message) -> bool {
        if !matches!(
            self,
            Plant::DroppedEvents
                | Plant::EarlyClose
                | Plant::GarbledRows
                | Plant::ForgottenDecision
                | Plant::LostLetters
        ) || rng.random_range(0..1000) >= SPOILT_PER_MILLE
        {
            return true;
        }
        if self == Plant::LostLetters {
            return false;
        }
        if let (Plant::ForgottenDecision, Message::Outcome { at, .. }) = (self, &mut *message) {
            *at = None;
        }
        if let (Plant::EarlyClose, Message::Silence { until, .. }) = (self, &mut *message) {
            until.0 += EARLY_NS;
        }
        let Message::Feed(feed) = message else { return true };
        match self {
            Plant::DroppedEvents => {
                feed.items.pop();
            }
            Plant::EarlyClose if feed.closed != Time::ZERO => feed.closed.0 += EARLY_NS,
            Plant::GarbledRows => feed.items.iter_mut().for_each(garble),
            _ => {}
        }
        true
    }
}

/// Flips a bit in every value of a record.
fn garble(item: &mut FeedItem) {
    let FeedItem::Record { frame, at, .. } = item else { return };
    let mut spoilt = frame.to_vec();
    let Ok((_, records)) = read_frame(frame) else { return };
    if let Event::Write(rows) = &records[*at].event {
        for value in rows.iter().filter_map(|row| row.value) {
            let offset = value.as_ptr().addr() - frame.as_ptr().addr();
            spoilt[offset + value.len() - 1] ^= 0x40;
        }
    }
    *frame = Arc::from(spoilt);
}
