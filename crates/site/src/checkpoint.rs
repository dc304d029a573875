//! Checkpoints: what a site holds, written to disk while it works, so that its log can be cut.
//!
//! A checkpoint is a log of its own, in a folder beside the redo log: first where in the redo log to
//! go on, then for each partition its state and its rows. Recovery reads the checkpoint and then the
//! redo log from that position on.
//!
//! ```text
//!   redo log   ────────────┬──────────────────────────────────▶
//!                     begin│    rows are copied while commits go on
//!   checkpoint             └ begin │ clock │ p: state, rows … │ q: state, rows … │ end
//! ```
//!
//! It need not be of one moment. A row that changed after `begin` is in the redo log too, and rows
//! carry their times, so replaying keeps the newer one. A partition's state is read with its lock
//! held (or after it was retired), so that every event is either in it or follows it in the log.
//!
//! Nor is a copy that is being written ([`mod@crate::copy`]): the redo log is replayed from its beginning.
//!
//! What is prepared needs no place in it: its partitions stay locked, so a checkpoint waits for the end,
//! which holds the rows once more. Decisions that participants may still ask for have one.
//!
//! A checkpoint is written under a temporary name and renamed when it is whole and the redo log is
//! durable up to its end; older ones are then removed.

use crate::frame::TxnId;
use crate::partition::{SitePartition, Table};
use crate::record::{BadFrame, FrameWriter, Reader, RowsBuffer, put_range, put_sites};
use crate::site::{Owned, Site};
use isomer_design::{Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::{Durability, FileLog, Log, LogError, OpenError, Options, Position};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a checkpoint was not made. The site goes on, with the older one.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A folder or file could not be made, renamed or removed.
    #[error("checkpoint {path}: {error}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The checkpoint's log could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A log refused.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The site has no folder to keep checkpoints in.
    #[error("the site keeps nothing on disk, so there is nowhere to put a checkpoint")]
    NoFolder,
}

/// The state of a partition, without its rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartitionState {
    pub(crate) table: TableId,
    pub(crate) range: KeyRange,
    pub(crate) source: Option<SiteId>,
    pub(crate) released_to: Option<SiteId>,
    pub(crate) followers: SiteSet,
    pub(crate) version: Version,
    pub(crate) last: Time,
    pub(crate) origin: Position,
    pub(crate) unfollowed: bool,
}

/// One frame of a checkpoint.
#[derive(Debug)]
pub(crate) enum Piece {
    Begin {
        redo_from: Position,
        clock: Time,
    },
    State(PartitionState),
    Rows(TableId, RowsBuffer),
    End,
    /// A decision that participants may still ask for, and those who may.
    Decided(TxnId, Time, SiteSet),
}

impl Site {
    /// Writes a checkpoint and cuts the redo log, as far as followers do not need it.
    ///
    /// # Errors
    /// [`CheckpointError`]; the checkpoint before stays in force.
    pub async fn checkpoint(&self) -> Result<(), CheckpointError> {
        let folder = self.folder.as_deref().ok_or(CheckpointError::NoFolder)?;
        let (begin, partitions, decisions) = self.frozen_shape();
        let name = format!("checkpoint.{begin:016x}");
        let path = folder.join(&name);
        if path.exists() {
            return Ok(()); // It holds all that this one would let the log forget.
        }
        let unfinished = folder.join("checkpoint.unfinished");
        remove_folder(&unfinished)?;
        let options = Options { durability: Durability::None, ..Options::default() };
        let (file, _) = FileLog::open(&unfinished, options)?;
        file.append(&encode(&Piece::Begin { redo_from: begin, clock: self.store.clock.last() }))?;
        for (table, partition) in &partitions {
            let state = self.settled_state(partition).await;
            file.append(&encode(&Piece::State(state)))?;
            self.copy_rows(table, &partition.range, &file)?;
        }
        for (txn, decided) in decisions {
            file.append(&encode(&Piece::Decided(txn, decided.at, decided.waiting)))?;
        }
        file.append(&encode(&Piece::End))?;
        file.sync()?;
        drop(file);
        sync_files(&unfinished)?;
        self.durable_now().await?;
        fs::rename(&unfinished, &path).map_err(|error| CheckpointError::Folder { path, error })?;
        sync_folder(folder)?;
        for old in list(folder)?.into_iter().filter(|old| !old.ends_with(&name)) {
            remove_folder(&old)?;
        }
        self.tell_checkpointed(&partitions);
        self.log.truncate_before(begin.min(self.needed_by_followers()))?;
        Ok(())
    }

    async fn durable_now(&self) -> Result<(), LogError> {
        let end = self.log.end();
        self.durable(end).await
    }

    /// The state of a partition between two events.
    async fn settled_state(&self, partition: &Arc<SitePartition>) -> PartitionState {
        let mut held = crate::held::Held::default();
        // If it is gone, its last state is the one from which the redo log goes on.
        let _ = held.wait_for(partition).await;
        let state = PartitionState {
            table: partition.table,
            range: partition.range.clone(),
            source: partition.source(),
            released_to: partition.released_to(),
            followers: partition.followers(),
            version: partition.version(),
            last: partition.last(),
            origin: partition.origin(),
            unfollowed: partition.is_unfollowed(),
        };
        drop(held);
        if !partition.is_master() {
            self.apply_pending(partition);
        }
        state
    }

    fn copy_rows(&self, table: &Table, range: &KeyRange, file: &FileLog) -> Result<(), LogError> {
        let mut rest = range.clone();
        loop {
            let mut rows = RowsBuffer::default();
            let mut last = None;
            {
                let Some(mut context) = self.store.context() else { continue };
                context.hold();
                let mut bytes = 0;
                context.scan_newest(&table.index, &rest, |row| {
                    if let Some(value) = row.value() {
                        rows.push(row.key(), value, row.time());
                        bytes += row.key().len() + value.len();
                    }
                    if bytes < self.piece_bytes {
                        return ControlFlow::Continue(());
                    }
                    last = Some(Key::from_bytes(row.key()));
                    ControlFlow::Break(())
                });
            }
            if !rows.is_empty() {
                file.append(&encode(&Piece::Rows(table.id, rows)))?;
                file.sync()?;
            }
            match last {
                Some(key) => rest.start = key.successor(),
                None => return Ok(()),
            }
        }
    }

    /// Followed masters may forget the part of their logs that this checkpoint covers.
    fn tell_checkpointed(&self, partitions: &[Owned]) {
        let mut positions = std::collections::BTreeMap::new();
        for (_, partition) in partitions {
            if let Some(source) = partition.source() {
                let least = positions.entry(source).or_insert(Position::MAX);
                *least = partition.origin().min(*least);
            }
        }
        for (source, position) in positions {
            self.send(source, crate::message::Message::Checkpointed { position });
        }
    }
}

fn encode(piece: &Piece) -> Vec<u8> {
    let mut bytes = Vec::new();
    match piece {
        Piece::Begin { redo_from, clock } => {
            bytes.push(1);
            bytes.extend_from_slice(&redo_from.to_le_bytes());
            bytes.extend_from_slice(&clock.0.to_le_bytes());
        }
        Piece::State(state) => {
            bytes.push(2);
            for number in [
                u64::from(state.table.0),
                state.source.map_or(0, |site| u64::from(site.0)),
                state.released_to.map_or(0, |site| u64::from(site.0)),
                state.version,
                state.last.0,
                state.origin,
                u64::from(state.unfollowed),
            ] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            put_sites(&mut bytes, &state.followers);
            put_range(&mut bytes, &state.range);
        }
        Piece::Rows(table, rows) => {
            bytes.push(3);
            bytes.extend_from_slice(&table.0.to_le_bytes());
            bytes.extend_from_slice(&FrameWriter::bare_rows(&rows.rows()));
        }
        Piece::End => bytes.push(4),
        Piece::Decided(txn, at, waiting) => {
            bytes.push(5);
            txn.write(&mut bytes);
            bytes.extend_from_slice(&at.0.to_le_bytes());
            put_sites(&mut bytes, waiting);
        }
    }
    bytes
}

/// Reads one frame of a checkpoint; rows are handed on without being copied.
pub(crate) fn decode(frame: &[u8]) -> Result<Decoded<'_>, BadFrame> {
    let bad = |at, what| BadFrame { at, what };
    let (&kind, body) = frame.split_first().ok_or(bad(0, "the kind of a piece"))?;
    let mut reader = Reader::new(body);
    // 0: none.
    let site = |number: u64| Some(SiteId(number as u16)).filter(|&site| SiteSet::can_hold(site));
    match kind {
        1 => Ok(Decoded::Begin { redo_from: reader.u64()?, clock: Time(reader.u64()?) }),
        2 => Ok(Decoded::State(PartitionState {
            table: TableId(reader.u64()? as u32),
            source: site(reader.u64()?),
            released_to: site(reader.u64()?),
            version: reader.u64()?,
            last: Time(reader.u64()?),
            origin: reader.u64()?,
            unfollowed: reader.u64()? != 0,
            followers: reader.sites()?,
            range: reader.range()?,
        })),
        3 => {
            let table = body.get(..4).ok_or(bad(1, "the number of a table"))?;
            let table = u32::from_le_bytes(table.try_into().expect("four bytes"));
            Ok(Decoded::Rows(TableId(table), crate::record::read_bare_rows(&body[4..])?))
        }
        4 => Ok(Decoded::End),
        5 => {
            let txn = TxnId::read(&mut reader)?;
            Ok(Decoded::Decided(txn, Time(reader.u64()?), reader.sites()?))
        }
        _ => Err(bad(0, "the kind of a piece, 1 to 5")),
    }
}

/// A frame of a checkpoint, as read.
pub(crate) enum Decoded<'a> {
    Begin { redo_from: Position, clock: Time },
    State(PartitionState),
    Rows(TableId, crate::record::Rows<'a>),
    End,
    Decided(TxnId, Time, SiteSet),
}

/// The checkpoints of a folder, oldest first.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let failed = |error| CheckpointError::Folder { path: folder.to_owned(), error };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("checkpoint.").unwrap_or_default();
        if number.len() == 16 && u64::from_str_radix(number, 16).is_ok() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn remove_folder(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CheckpointError::Folder { path: path.to_owned(), error })
        }
        _ => Ok(()),
    }
}

fn sync_files(folder: &Path) -> Result<(), CheckpointError> {
    let failed = |error| CheckpointError::Folder { path: folder.to_owned(), error };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        fs::File::open(&path).and_then(|file| file.sync_all()).map_err(failed)?;
    }
    sync_folder(folder)
}

fn sync_folder(folder: &Path) -> Result<(), CheckpointError> {
    fs::File::open(folder)
        .and_then(|file| file.sync_all())
        .map_err(|error| CheckpointError::Folder { path: folder.to_owned(), error })
}
