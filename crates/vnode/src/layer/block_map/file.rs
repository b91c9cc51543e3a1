//! Operations on the data of a file with a block map.
//!
//! A change of any size is one record: it is made as a whole or not at all, whenever the power is cut.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::format::{
    Extent, HEADER_BYTES, Header, HeaderState, OWN_BYTES_MAX, checksum, own_of_area, stored_bytes_max,
};
use super::load::{load, read_exactly, verify};
use super::log::{Commit, Draft, Log};
use super::losses::Loss;
use crate::layer::blocks::PUNCH;
use crate::layer::scratch::Scratch;
use crate::layer::shape::{BlockForm, MappedBlock};
use crate::layer::template::{Layer, LayerVnode};
use crate::{
    AllocateMode, Caller, Cancellation, Errno, Handle, KeyedGuard, OpenFile, OpenFlags, Result, SeekTarget,
    SetAttributes, SetTime, write_fully,
};

/// Granularity of holes in the lower file, in bytes.
const PAGE_BYTES: u64 = 4096;

/// Number of records that nobody waits for when a file is closed, and that may stay.
const RECORDS_LEFT_MAX: usize = 4;

/// The data of an open file with a block map, for one operation.
pub(crate) struct MappedFile<'a, L: Layer> {
    pub(crate) node: &'a LayerVnode<L>,
    pub(crate) lower: &'a dyn OpenFile,
    pub(crate) caller: &'a Caller,
    pub(crate) lower_caller: Cow<'a, Caller>,
    /// Size in bytes of the blocks of a new file.
    pub(crate) block_size: usize,
}

impl<L: Layer> MappedFile<'_, L> {
    /// Reads the part of the range that the file has; see [`crate::OpenFile::read_at`].
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let _guard = self.shared()?;
        let (size, block_size) = self.prepare()?;
        let length = buffer.len().min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < length {
            let (block, from) = split(offset + done as u64, block_size);
            let part = (block_size - from).min(length - done);
            self.read_block(block, from, &mut buffer[done..done + part])?;
            done += part;
        }
        Ok(done)
    }

    /// Writes at `offset`, or at the end; see [`crate::OpenFile::write_at`].
    pub(crate) fn write(&self, offset: Option<u64>, data: &[u8]) -> Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let _guard = self.node.lock_data(self.caller)?;
        let (size, block_size) = self.prepare_change()?;
        let offset = offset.unwrap_or(size);
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= i64::MAX as u64).ok_or(Errno::EFBIG)?;
        let (mut draft, mut done) = (Draft::default(), 0);
        while done < data.len() {
            self.caller.cancellation().check()?;
            let (block, from) = split(offset + done as u64, block_size);
            let part = (block_size - from).min(data.len() - done);
            self.put(&mut draft, block, from, &data[done..done + part])?;
            done += part;
        }
        self.commit(draft, size.max(end))?;
        Ok(data.len())
    }

    /// Sets the size; see [`crate::OpenFile::truncate`].
    pub(crate) fn truncate(&self, size: u64) -> Result<()> {
        let _guard = self.node.lock_data(self.caller)?;
        if size == 0 {
            self.lower.truncate(&self.lower_caller, 0)?;
            self.node.forget_log();
            return Ok(());
        }
        let (old, _) = self.prepare_change()?;
        match size {
            size if size > i64::MAX as u64 => Err(Errno::EFBIG),
            size if size == old => {
                let lower_size = self.with(|log| log.lower_size)?;
                self.lower.truncate(&self.lower_caller, lower_size)
            }
            size => self.commit(Draft::default(), size),
        }
    }

    /// Reserves, punches or zeroes; see [`crate::OpenFile::allocate`]. Ranges cannot be collapsed or inserted.
    pub(crate) fn allocate(&self, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let keeps_size = mode.contains(AllocateMode::KEEP_SIZE);
        let kind = mode.bits() & !AllocateMode::KEEP_SIZE.bits();
        let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64).ok_or(Errno::EFBIG)?;
        let _guard = self.node.lock_data(self.caller)?;
        let (size, block_size) = self.prepare_change()?;
        let grown = if keeps_size { size } else { size.max(end) };
        if mode == PUNCH || kind == AllocateMode::ZERO_RANGE.bits() {
            let draft = self.zeros(offset..end.min(grown), grown, block_size)?;
            return self.commit(draft, grown);
        }
        if kind != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        self.reserve(offset..end, block_size)?;
        if grown > size { self.commit(Draft::default(), grown) } else { Ok(()) }
    }

    /// Finds data or a hole; see [`crate::OpenFile::seek`]. Blocks are one or the other.
    pub(crate) fn seek(&self, offset: u64, target: SeekTarget) -> Result<u64> {
        let _guard = self.shared()?;
        let (size, block_size) = self.prepare()?;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        let (first, _) = split(offset, block_size);
        let found = self.with(|log| {
            let mut blocks = log.map.range(first..).map(|(block, _)| *block);
            match target {
                SeekTarget::Data => blocks.next(),
                SeekTarget::Hole => {
                    Some(first + blocks.zip(first..).take_while(|(block, next)| block == next).count() as u64)
                }
            }
        })?;
        let start = found.map(|block| block.saturating_mul(block_size as u64).max(offset));
        match target {
            SeekTarget::Data => start.filter(|start| *start < size).ok_or(Errno::ENXIO),
            SeekTarget::Hole => Ok(start.unwrap_or(size).min(size)),
        }
    }

    /// Flushes to stable storage; see [`crate::OpenFile::fsync`].
    pub(crate) fn fsync(&self, data_only: bool) -> Result<()> {
        let promised = if self.has_lost_writes() {
            let _guard = self.node.lock_data(self.caller)?;
            self.renew_by_any()?;
            self.promise()
        } else {
            // Not between the making of a record and its application.
            let _guard = self.shared()?;
            self.promise()
        };
        self.synchronize(&self.lower_caller, data_only, promised)?;
        self.tell()
    }

    /// Returns whether a failed synchronization may have lost what was written.
    fn has_lost_writes(&self) -> bool {
        self.node.log().as_ref().map_or_else(|| self.node.noted_loss().is_some(), |log| log.has_lost_writes)
    }

    /// Reports a failed synchronization that nobody was told yet.
    ///
    /// # Errors
    /// That of the synchronization.
    fn tell(&self) -> Result<()> {
        let mut slot = self.node.log();
        let Some(log) = slot.as_mut() else { return Ok(()) };
        let untold = log.failed_sync.take();
        self.node.note_loss(log.loss());
        untold.map_or(Ok(()), Err)
    }

    /// Gives back what is free below once somebody who wrote to the file has closed it. Its times stay: the data are the same.
    pub(crate) fn finish(&self) {
        let Ok(_guard) = self.node.lock_data(self.caller) else { return };
        if !self.node.log().as_ref().is_some_and(|log| log.has_free() || log.unpromised_records() > RECORDS_LEFT_MAX) {
            return;
        }
        if self.prepare_change().is_err() {
            return;
        }
        let server = Caller::server();
        let restore = |mtime| SetAttributes { mtime: Some(SetTime::To(mtime)), ..SetAttributes::default() };
        let times = self.lower.getattr(&server).map(|attributes| restore(attributes.mtime));
        // Whoever may not set times must not change them either.
        let Ok(times) = times.and_then(|times| self.node.lower().setattr(&server, &times).map(|_| times)) else {
            return;
        };
        self.as_server().give_back();
        if let Err(error) = self.node.lower().setattr(&server, &times) {
            tracing::warn!("{}: the modification time of a file is lost ({error})", self.node.layer().kind());
        }
    }

    /// Returns this file for work that changes no data of it, so that what it writes clears no set-ID bits, at the caller's expense.
    fn as_server(&self) -> Self {
        let server = Caller::server_for(self.caller).at_expense_of(self.caller);
        Self { lower_caller: Cow::Owned(server), ..*self }
    }

    /// Punches what is free, after a record that frees others, each of which takes a page.
    fn give_back(&self) {
        let size = self.node.log().as_mut().and_then(|log| {
            log.needs_whole |= log.unpromised_records() > RECORDS_LEFT_MAX;
            log.needs_whole.then_some(log.size)
        });
        if let Some(size) = size
            && self.prepare_change().is_ok()
        {
            let _ = self.commit(Draft::default(), size);
        }
        self.punch(self.with(|log| log.take_free(PAGE_BYTES)).unwrap_or_default());
    }

    /// Prepares a change: also reads the map if somebody else has written the lower file anew, and it is as long as before. See
    /// [`Self::prepare`].
    ///
    /// # Errors
    /// `EIO` if the header is gone, as it can be after a failed synchronization.
    fn prepare_change(&self) -> Result<(u64, usize)> {
        let known = self.prepare()?;
        let (id, end, lower_size) = self.with(|log| (log.id, log.end, log.lower_size))?;
        if lower_size == 0 {
            return Ok(known);
        }
        let mut header = [0; HEADER_BYTES];
        let length = lower_size.min(HEADER_BYTES as u64) as usize;
        read_exactly(self.lower, &Caller::server(), 0, &mut header[..length])?;
        match Header::parse(&header[..length], self.node.layer().kind()) {
            HeaderState::Valid(header) if header.log == id => Ok(known),
            HeaderState::Absent if end > 0 => Err(Errno::EIO),
            HeaderState::Absent => Ok(known),
            HeaderState::Valid(_) | HeaderState::Foreign => {
                self.with(|log| log.lower_size = u64::MAX)?;
                self.prepare()
            }
        }
    }

    /// Reads the map if it is not known, or somebody else has written to the lower file. Returns the sizes of the file and of its
    /// blocks.
    fn prepare(&self) -> Result<(u64, usize)> {
        let lower_size = self.lower.getattr(&Caller::server())?.size;
        let kind = self.node.layer().kind();
        let mut slot = self.node.log();
        if slot.as_ref().is_none_or(|log| log.lower_size != lower_size) {
            *slot = None;
            let log = read_map(self.node, self.lower, self.caller.cancellation(), self.block_size)
                .inspect_err(|error| report(&**self.node.lower(), kind, *error))?;
            *slot = Some(Box::new(log));
        }
        let log = slot.as_mut().ok_or(Errno::EIO)?;
        if !log.unverified.is_empty() {
            let blocks = verify(log, self.lower, self.caller.cancellation())?;
            if blocks > 0 {
                let path = self.node.lower().path().unwrap_or_default();
                let path = String::from_utf8_lossy(&path);
                tracing::warn!(
                    "{kind}: {path}: {blocks} blocks were not on the disk when the power went: the versions before them stay"
                );
            }
        }
        Ok((log.size, log.block_size))
    }

    /// Runs something on the map, which was read.
    fn with<T>(&self, run: impl FnOnce(&mut Log) -> T) -> Result<T> {
        Ok(run(self.node.log().as_mut().ok_or(Errno::EIO)?))
    }

    /// Returns the bytes of the layer's own in the header of the file, which are made for a new one.
    fn own(&self) -> Result<Arc<[u8]>> {
        if let Some(own) = self.with(|log| log.own.clone())? {
            return Ok(own);
        }
        let own: Arc<[u8]> = self.node.layer().new_file_header(self.node, self.caller)?.into();
        if own.len() > OWN_BYTES_MAX {
            return Err(Errno::EFBIG);
        }
        self.with(|log| log.own = Some(own.clone()))?;
        Ok(own)
    }

    /// Reads a part of a block, zeros where it has none.
    fn read_block(&self, block: u64, from: usize, buffer: &mut [u8]) -> Result<()> {
        let Some(extent) = self.with(|log| log.map.get(&block).copied())? else {
            buffer.fill(0);
            return Ok(());
        };
        let (plain, kept) = (extent.plain as usize, extent.kept as usize);
        let stored = self.read_stored(extent)?;
        if from == 0 && buffer.len() >= plain {
            let (data, rest) = buffer.split_at_mut(plain);
            self.decode(block, extent, &stored, data)?;
            data[kept..].fill(0);
            rest.fill(0);
            return Ok(());
        }
        let mut whole = Scratch::take(plain)?;
        self.decode(block, extent, &stored, &mut whole)?;
        let part = kept.saturating_sub(from).min(buffer.len());
        buffer[..part].copy_from_slice(&whole[from.min(kept)..from.min(kept) + part]);
        buffer[part..].fill(0);
        Ok(())
    }

    /// Reads the bytes of a block below.
    ///
    /// # Errors
    /// `EBADMSG` if they are not what was stored.
    fn read_stored(&self, extent: Extent) -> Result<Scratch> {
        let mut stored = Scratch::take(extent.stored as usize)?;
        read_exactly(self.lower, &self.lower_caller, extent.position, &mut stored)?;
        if checksum(&stored) != extent.checksum { Err(Errno::EBADMSG) } else { Ok(stored) }
    }

    fn decode(&self, block: u64, extent: Extent, stored: &[u8], plain: &mut [u8]) -> Result<()> {
        let form = if extent.is_verbatim { BlockForm::Verbatim } else { BlockForm::Encoded };
        let own = self.own()?;
        let block = MappedBlock { number: block, file_header: &own };
        self.node.layer().decode_block(self.node, self.caller, block, form, stored, plain)
    }

    /// Writes a part of a block to a draft, with the rest of the block that the file has.
    fn put(&self, draft: &mut Draft, block: u64, from: usize, data: &[u8]) -> Result<()> {
        let kept = self.with(|log| log.map.get(&block).map_or(0, |extent| extent.kept as usize))?;
        if from == 0 && data.len() >= kept {
            return self.encode(draft, block, data);
        }
        let mut plain = Scratch::zeros(kept.max(from + data.len()))?;
        self.read_block(block, 0, &mut plain[..kept])?;
        plain[from..from + data.len()].copy_from_slice(data);
        self.encode(draft, block, &plain)
    }

    fn encode(&self, draft: &mut Draft, block: u64, plain: &[u8]) -> Result<()> {
        let mut encoded = Vec::new();
        let own = self.own()?;
        let mapped = MappedBlock { number: block, file_header: &own };
        match self.node.layer().encode_block(self.node, self.caller, mapped, plain, &mut encoded)? {
            BlockForm::Verbatim => draft.put(block, plain, plain.len(), true),
            BlockForm::Encoded if (1..=stored_bytes_max(plain.len())).contains(&encoded.len()) => {
                draft.put(block, &encoded, plain.len(), false)
            }
            BlockForm::Encoded => Err(Errno::EIO),
        }
    }

    /// Returns a draft with zeros in a range of a file that will have `size` bytes: holes where blocks have nothing else.
    fn zeros(&self, range: Range<u64>, size: u64, block_size: usize) -> Result<Draft> {
        let mut draft = Draft::default();
        if range.is_empty() {
            return Ok(draft);
        }
        let block_bytes = block_size as u64;
        let touched = range.start / block_bytes..range.end.div_ceil(block_bytes);
        let blocks =
            self.with(|log| log.map.range(touched).map(|entry| (*entry.0, entry.1.kept)).collect::<Vec<_>>())?;
        for (block, kept) in blocks {
            self.caller.cancellation().check()?;
            let start = block * block_bytes;
            let end = (start + u64::from(kept)).min(size);
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from == start && to == end {
                draft.remove(block);
            } else if from < to {
                self.put(&mut draft, block, (from - start) as usize, &Scratch::zeros((to - from) as usize)?)?;
            }
        }
        Ok(draft)
    }

    /// Reserves space behind the lower file for what the blocks of a range lack to be stored whole.
    fn reserve(&self, range: Range<u64>, block_size: usize) -> Result<()> {
        let block_bytes = block_size as u64;
        let blocks = range.start / block_bytes..range.end.div_ceil(block_bytes);
        let count = blocks.end - blocks.start;
        let (lower_size, stored) = self.with(|log| {
            let stored = log.map.range(blocks).map(|(_, extent)| u64::from(extent.stored).min(block_bytes));
            (log.lower_size, stored.sum::<u64>())
        })?;
        // With a page for the record of each.
        let bytes = count.checked_mul(block_bytes + PAGE_BYTES).ok_or(Errno::EFBIG)? - stored;
        lower_size.checked_add(bytes).filter(|end| *end <= i64::MAX as u64).ok_or(Errno::EFBIG)?;
        self.lower.allocate(&self.lower_caller, AllocateMode::KEEP_SIZE, lower_size, bytes)
    }

    /// Appends a record with what a draft changes, for a file of `size` bytes. If that fails, nothing has changed.
    fn commit(&self, draft: Draft, size: u64) -> Result<()> {
        self.own()?;
        self.with(|log| log.age(Instant::now()))?;
        let make = || self.with(|log| log.commit(self.node.layer().kind(), &draft, size)).flatten();
        let mut commit = make()?;
        let lower_size = self.with(|log| log.lower_size)?;
        if commit.start == 0 && lower_size > 0 {
            // Nothing in it was ever whole.
            self.lower.truncate(&self.lower_caller, 0)?;
            self.with(|log| log.lower_size = 0)?;
        }
        let write = |commit: &Commit| write_fully(self.lower, &self.lower_caller, commit.start, &commit.bytes);
        let mut written = write(&commit);
        if matches!(written, Err(Errno::ENOSPC | Errno::EDQUOT)) && self.free_space() {
            // What is free now depends on what is stable now: the record has to say that.
            commit = make()?;
            written = write(&commit);
        }
        if let Err(error) = written {
            self.cut_back();
            return Err(error);
        }
        self.with(|log| log.apply(commit))?;
        self.balance();
        Ok(())
    }

    /// Removes the beginning of a record that could not be written. If that fails, readers find that it is none.
    fn cut_back(&self) {
        let Ok(lower_size) = self.with(|log| log.lower_size) else { return };
        let _ = (0..2).any(|_| self.lower.truncate(&Caller::server(), lower_size).is_ok());
    }

    /// Frees what can be freed below after a write that found no space. Returns whether anything was.
    fn free_space(&self) -> bool {
        self.cut_back();
        if self.with(|log| log.has_retained()).unwrap_or(false) {
            let _ = self.synchronize(&Caller::server(), true, self.promise());
        }
        let pages = self.with(|log| log.take_free(PAGE_BYTES)).unwrap_or_default();
        let is_any = !pages.is_empty();
        self.punch(pages);
        is_any
    }

    /// Synchronizes the file if too much waits for that, and punches what is free.
    fn balance(&self) {
        if self.with(|log| log.needs_sync()).unwrap_or(false)
            && let Err(error) = self.synchronize(&Caller::server(), true, self.promise())
        {
            // For the next one that asks.
            let _ = self.with(|log| {
                log.failed_sync = Some(error);
                self.node.note_loss(log.loss());
            });
        }
        let punch = |log: &mut Log| if log.should_punch() { log.take_free(PAGE_BYTES) } else { Vec::new() };
        self.punch(self.with(punch).unwrap_or_default());
    }

    /// Notes that everything up to the end of the log may be on stable storage from now on. Returns the log and its end.
    fn promise(&self) -> Option<(u64, u64)> {
        let promise = |log: &mut Box<Log>| {
            log.promise();
            (log.id, log.end)
        };
        self.node.log().as_mut().map(promise)
    }

    /// As [`Self::renew`], also for who has opened the file for reading only: another has written what is lost.
    fn renew_by_any(&self) -> Result<()> {
        let this = self.as_server();
        match this.renew() {
            // ftruncate(2) has another error for that.
            Err(Errno::EBADF | Errno::EINVAL) => {
                let writable = self.node.lower().open(&Caller::server(), OpenFlags::READ_WRITE)?;
                MappedFile { lower: &*writable, ..this }.renew()
            }
            renewed => renewed,
        }
    }

    /// Writes again what a failed synchronization may have lost: everything that is not on stable storage.
    fn renew(&self) -> Result<()> {
        let (size, _) = self.prepare_change()?;
        if !self.with(|log| log.has_lost_writes)? {
            return Ok(());
        }
        let failed_syncs = self.with(|log| log.failed_syncs)?;
        if self.with(|log| log.stable == 0 && log.end > 0)? {
            let mut header = vec![0; self.with(|log| log.header_bytes())? as usize];
            read_exactly(self.lower, &self.lower_caller, 0, &mut header)?;
            let (first, area) = header.split_at(HEADER_BYTES);
            let HeaderState::Valid(found) = Header::parse(first, self.node.layer().kind()) else {
                return Err(Errno::EIO);
            };
            let own = own_of_area(area, found.own_bytes as usize);
            let is_ours = |log: &Log| {
                let own_bytes = log.own.as_deref().unwrap_or_default();
                found.log == log.id && found.block_size == log.block_size && own == Some(own_bytes)
            };
            // The kernel may have dropped it.
            if !self.with(|log| is_ours(log))? {
                return Err(Errno::EIO);
            }
            write_fully(self.lower, &self.lower_caller, 0, &header)?;
        }
        self.reserve_renewal()?;
        self.renew_pieces(size).inspect_err(|_| self.cut_back())?;
        // Another synchronization may have failed meanwhile.
        self.with(|log| log.has_lost_writes = log.failed_syncs != failed_syncs)
    }

    /// Reserves the space in which blocks are written again, if that takes several pieces: with too little, none is.
    fn reserve_renewal(&self) -> Result<()> {
        let Some(bytes) = self.with(|log| log.renewal_bytes())? else { return Ok(()) };
        let reserve = || {
            let lower_size = self.with(|log| log.lower_size)?;
            match self.lower.allocate(&self.lower_caller, AllocateMode::KEEP_SIZE, lower_size, bytes) {
                Err(error @ (Errno::ENOSPC | Errno::EDQUOT)) => Err(error),
                // Not all file systems can.
                _ => Ok(()),
            }
        };
        reserve().or_else(|error| if self.free_space() { reserve() } else { Err(error) })
    }

    /// Writes all blocks again that are not on stable storage, in pieces, each with a record of the whole map. The data of a file of
    /// `size` bytes are the same after each.
    fn renew_pieces(&self, size: u64) -> Result<()> {
        let mut first = 0;
        loop {
            self.caller.cancellation().check()?;
            let piece = self.with(|log| log.renewal_piece(first))?;
            let mut draft = Draft::default();
            for (block, extent) in piece.blocks {
                draft.put_again(block, &self.read_stored(extent)?, extent)?;
            }
            self.commit(draft, size)?;
            let Some(next) = piece.next else { return Ok(()) };
            // From the end of the lower file, a reader does not search farther for a record than this one is by then.
            self.promise();
            let _guard = self.lock_syncs(&self.lower_caller)?;
            self.store(&self.lower_caller, true)?;
            first = next;
        }
    }

    /// Synchronizes the lower file, and frees what waited for what was promised.
    ///
    /// # Errors
    /// `EIO` also if another synchronization failed meanwhile: the kernel reports an error once, to either.
    fn synchronize(&self, caller: &Caller, data_only: bool, promised: Option<(u64, u64)>) -> Result<()> {
        // A later one succeeds without what an earlier one lost: the result of that is noted first.
        let _guard = self.lock_syncs(caller)?;
        self.store(caller, data_only)?;
        if self.has_lost_writes() {
            return Err(Errno::EIO);
        }
        if let Some((id, end)) = promised
            && let Some(log) = self.node.log().as_mut()
            && log.id == id
            && log.unverified.is_empty()
        {
            log.set_stable(end);
        }
        Ok(())
    }

    /// Synchronizes the lower file, and notes if that fails. The caller holds the lock of synchronizations.
    fn store(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let stored = self.lower.fsync(caller, data_only);
        // A caller that does not wait any longer says nothing about the storage.
        if matches!(stored, Err(error) if error != Errno::EINTR) {
            let mut slot = self.node.log();
            let untold = slot.as_mut().and_then(|log| {
                log.has_lost_writes = true;
                log.failed_syncs += 1;
                log.failed_sync
            });
            self.node.note_loss(Some(Loss { untold }));
        }
        stored
    }

    /// Excludes other synchronizations of the file.
    fn lock_syncs(&self, caller: &Caller) -> Result<KeyedGuard<'_, Handle>> {
        self.node.mount.sync_locks.write_unless(caller.cancellation(), self.node.lower().handle())
    }

    /// Gives pages below back to the storage. Where that is not possible, they stay.
    fn punch(&self, pages: Vec<Range<u64>>) {
        for pages in pages {
            let _ = self.lower.allocate(&Caller::server(), PUNCH, pages.start, pages.end - pages.start);
        }
    }

    /// Excludes writers.
    fn shared(&self) -> Result<KeyedGuard<'_, Handle>> {
        let (locks, handle) = (&self.node.mount.data_locks, self.node.lower().handle());
        locks.read_range_unless(self.caller.cancellation(), handle, 0..u64::MAX)
    }
}

/// Returns the size of a file whose lower file has `lower_size` bytes.
///
/// # Errors
/// As [`load`]; those of opening the lower file.
pub(crate) fn plain_size<L: Layer>(node: &LayerVnode<L>, block_size: usize, lower_size: u64) -> Result<u64> {
    let mut slot = node.log();
    if let Some(log) = slot.as_ref() {
        return Ok(log.size);
    }
    if lower_size == 0 {
        return Ok(0);
    }
    let lower = node.lower().open(&Caller::server(), crate::OpenFlags::READ)?;
    let log = read_map(node, &*lower, Caller::server().cancellation(), block_size)?;
    Ok(slot.insert(Box::new(log)).size)
}

/// Reads the map of a file. What a failed synchronization lost is lost whoever has written since. The caller holds the map that the
/// vnode had.
///
/// # Errors
/// As [`load`].
fn read_map<L: Layer>(
    node: &LayerVnode<L>,
    lower: &dyn OpenFile,
    cancellation: &Cancellation,
    block_size: usize,
) -> Result<Log> {
    let mut log = load(lower, cancellation, node.layer().kind(), block_size, new_identifier()?)?;
    if let Some(Loss { untold }) = node.noted_loss() {
        // An empty file has lost nothing, even if any may have.
        (log.has_lost_writes, log.failed_sync) = (log.lower_size > 0, untold);
    }
    Ok(log)
}

/// Notes that everything that was written to a file may be on stable storage from now on, since its whole file system is being
/// synchronized.
pub(crate) fn promise<L: Layer>(node: &LayerVnode<L>) {
    if node.log().as_ref().is_some_and(|log| log.promised < log.end) {
        // Not between the making of a record and its application.
        let _guard = node.mount.data_locks.read_range(node.lower().handle(), 0..u64::MAX);
        if let Some(log) = node.log().as_mut() {
            log.promise();
        }
    }
}

/// Returns the block that a byte is in, and its place there.
fn split(offset: u64, block_size: usize) -> (u64, usize) {
    (offset / block_size as u64, (offset % block_size as u64) as usize)
}

/// Returns an identifier for a new log.
fn new_identifier() -> Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(|_| Errno::EIO)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Says why a file cannot be read.
fn report(lower: &dyn crate::Vnode, kind: &str, error: Errno) {
    if error == Errno::EBADMSG {
        let path = lower.path().unwrap_or_default();
        let path = String::from_utf8_lossy(&path);
        tracing::warn!("{kind}: {path}: not written by this layer, or damaged; restore, truncate or remove it");
    }
}
