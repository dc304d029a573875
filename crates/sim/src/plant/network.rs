//! A network that tampers with feeds and outcomes.

use super::Plant;
use isomer_design::{SiteId, Time};
use isomer_site::{Epoch, Event, Feed, FeedItem, Message, read_frame};
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many of a thousand suitable messages are corrupted.
const SPOILT_PER_MILLE: u32 = 30;
/// How much too late the closed time of a feed is, in nanoseconds.
const EARLY_NS: u64 = 20_000_000;

impl Plant {
    /// Corrupts a message from one site to another; false if it is to be lost.
    pub(crate) fn tamper(
        self,
        rng: &mut impl RngExt,
        hidden: &mut Hidden,
        link: (SiteId, SiteId),
        message: &mut Message,
    ) -> bool {
        if let (Plant::HiddenGaps, Message::Feed(feed)) = (self, &mut *message) {
            let is_lost = !feed.items.is_empty() && rng.random_range(0..1000) < SPOILT_PER_MILLE;
            return hidden.number_anew(link, feed, is_lost);
        }
        if let (Plant::EarlyAck, Message::Ack { events }) = (self, &mut *message) {
            events.iter_mut().for_each(|reached| reached.version += 1);
            return true;
        }
        if !matches!(
            self,
            Plant::DroppedEvents
                | Plant::EarlyClose
                | Plant::GarbledRows
                | Plant::ForgottenDecision
        ) || rng.random_range(0..1000) >= SPOILT_PER_MILLE
        {
            return true;
        }
        if let (Plant::ForgottenDecision, Message::Outcome { at, .. }) = (self, &mut *message) {
            *at = None;
        }
        if let (Plant::EarlyClose, Message::CloseAhead { until, .. }) = (self, &mut *message) {
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

/// The number of lost feeds of each stream, whose numbers later feeds have taken.
#[derive(Default)]
pub(crate) struct Hidden(BTreeMap<(SiteId, SiteId, u64, Epoch), u64>);

impl Hidden {
    /// Gives a feed the number of the first one that was lost before it; false if it is itself to
    /// be lost.
    fn number_anew(&mut self, link: (SiteId, SiteId), feed: &mut Feed, is_lost: bool) -> bool {
        let lost = self.0.entry((link.0, link.1, feed.from, feed.epoch)).or_default();
        feed.number -= *lost;
        *lost += u64::from(is_lost);
        !is_lost
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
