//! Matching: which record of a log belongs to which entry of its directory.

use std::collections::{HashMap, HashSet};

use vnode::FileKind;

use crate::fat::format::{is_saved_name, upcased};

use super::record::{Identity, LogItem, Record};

/// The record of the root directory, and those of entries by slot.
#[derive(Debug, Default)]
pub(crate) struct MatchedRecords {
    pub(crate) own: Option<Box<Record>>,
    pub(crate) by_slot: HashMap<u32, Box<Record>>,
    /// Objects with records that no entry has.
    pub(crate) orphans: Vec<Identity>,
}

/// A record that may count, and its offset in the log.
struct Candidate {
    offset: u64,
    identity: Identity,
    record: Box<Record>,
}

impl Candidate {
    /// Returns whether an entry with the name of this record can be its object. One that was created at another time is a file in place of
    /// it: the contents of that are no target of a symlink.
    fn may_be(&self, entry: &Identity) -> bool {
        self.record.protection.kind != FileKind::Symlink || created(&self.identity) == created(entry)
    }

    /// Returns the record of an entry that has its name. Of an object that somebody else has replaced, others must not get rights, and a
    /// file in place of a FIFO, socket or device is a file.
    fn record_of(self, entry: &Identity) -> Box<Record> {
        if origin(&self.identity) == origin(entry) {
            return self.record;
        }
        let mut record = self.record.without_privileges();
        if created(&self.identity) != created(entry) && record.protection.kind != FileKind::Directory {
            record.protection.kind = FileKind::Regular;
        }
        record
    }
}

/// Records by name in upper case, those of one name in the order of the log.
type Candidates = HashMap<Vec<u16>, Vec<Candidate>>;

/// Returns the records of the entries of a directory, given by slot and identity, from the items of its log and their offsets.
pub(crate) fn match_records(items: Vec<(u64, LogItem)>, entries: &[(u32, Identity)]) -> MatchedRecords {
    let mut candidates = remaining(items);
    let mut matched = MatchedRecords::default();
    let own = candidates.remove(&Vec::new()).and_then(|mut own| own.pop());
    matched.own = own.map(|candidate| candidate.record);
    let mut unmatched = Vec::new();
    for (slot, identity) in entries {
        // What a check saves begins with a name that others may have had before it.
        let is_sure =
            |candidate: &Candidate| !is_saved_name(&identity.name) || origin(&candidate.identity) == origin(identity);
        let name = upcased(&identity.name);
        match candidates.remove(&name).and_then(|named| best(named, identity)) {
            Some(candidate) if candidate.may_be(identity) && is_sure(&candidate) => {
                matched.by_slot.insert(*slot, candidate.record_of(identity));
            }
            other => {
                unmatched.push((*slot, identity));
                candidates.extend(other.map(|candidate| (name, vec![candidate])));
            }
        }
    }
    match_renamed(candidates, unmatched, &mut matched);
    matched
}

/// Finds the records of entries that have none by name: that of an object with the same time of creation and first cluster. Of those
/// without clusters, only one of each time is told apart from others.
fn match_renamed(candidates: Candidates, unmatched: Vec<(u32, &Identity)>, matched: &mut MatchedRecords) {
    let mut renamed: HashMap<Origin, Vec<Candidate>> = HashMap::new();
    for candidate in candidates.into_values().flatten() {
        renamed.entry(origin(&candidate.identity)).or_default().push(candidate);
    }
    let mut entries: HashMap<Origin, Vec<u32>> = HashMap::new();
    for (slot, identity) in unmatched {
        entries.entry(origin(identity)).or_default().push(slot);
    }
    for (origin, mut candidates) in renamed {
        let is_unique = origin.0 != 0 || candidates.len() == 1;
        if let Some(&[slot]) = entries.get(&origin).map(Vec::as_slice).filter(|_| is_unique) {
            let last = candidates.iter().enumerate().max_by_key(|(_, candidate)| candidate.offset);
            if let Some(candidate) = last.map(|(index, _)| index).map(|index| candidates.swap_remove(index)) {
                matched.by_slot.insert(slot, candidate.record);
            }
        }
        matched.orphans.extend(candidates.into_iter().map(|candidate| candidate.identity));
    }
}

/// Time of creation of an object.
type Created = [u16; 3];

/// First cluster and time of creation of an object.
type Origin = (u32, Created);

fn created(identity: &Identity) -> Created {
    let created = identity.created;
    [created.date, created.time, created.hundredths.into()]
}

fn origin(identity: &Identity) -> Origin {
    (identity.cluster, created(identity))
}

/// Returns the record of an object among those with its name: the last one of its creation and first cluster, otherwise of its creation,
/// otherwise of all.
fn best(mut named: Vec<Candidate>, identity: &Identity) -> Option<Candidate> {
    let same_time = |candidate: &Candidate| candidate.identity.created == identity.created;
    let exact =
        named.iter().rposition(|candidate| same_time(candidate) && candidate.identity.cluster == identity.cluster);
    let position = exact.or_else(|| named.iter().rposition(same_time)).or(named.len().checked_sub(1))?;
    Some(named.swap_remove(position))
}

/// Returns the records of objects that were not removed; of those of one object only the last. The log is read from its end, so that each
/// item takes the same time whatever the others say.
fn remaining(items: Vec<(u64, LogItem)>) -> Candidates {
    let mut records = Candidates::new();
    let mut later: HashSet<(Vec<u16>, Origin)> = HashSet::new();
    // Offsets before which records with a name and a time of creation are removed.
    let mut removed: HashMap<(Vec<u16>, Created), u64> = HashMap::new();
    for (offset, item) in items.into_iter().rev() {
        match item {
            LogItem::Attributes(identity, record) => {
                let name = upcased(&identity.name);
                let is_last = later.insert((name.clone(), origin(&identity)));
                let key = (name, created(&identity));
                if is_last && removed.get(&key).is_none_or(|&end| offset >= end) {
                    records.entry(key.0).or_default().push(Candidate { offset, identity, record });
                }
            }
            LogItem::Removal(identity, end) => {
                let key = (upcased(&identity.name), created(&identity));
                removed.entry(key).and_modify(|other| *other = end.max(*other)).or_insert(end);
            }
        }
    }
    records.values_mut().for_each(|named| named.reverse());
    records
}

#[cfg(test)]
mod tests {
    use vnode::Device;

    use super::*;
    use crate::fat::format::DosDateTime;
    use crate::fat::sidecar::extended_attributes::ExtendedAttributes;
    use crate::fat::sidecar::record::EntryState;
    use crate::unix::protection::Protection;
    use crate::unix::times::Times;

    fn identity(name: &str, time: u16, cluster: u32) -> Identity {
        let created = DosDateTime { time, ..Default::default() };
        Identity { name: name.encode_utf16().collect(), created, cluster }
    }

    fn attributes(identity: Identity, uid: u32) -> LogItem {
        let protection =
            Protection { kind: FileKind::Regular, uid, gid: 0, mode: 0, access_acl: None, default_acl: None };
        let record = Record {
            protection,
            device: Device::default(),
            times: Times::now(),
            extended_attributes: ExtendedAttributes::default(),
            entry: EntryState::default(),
        };
        LogItem::Attributes(identity, Box::new(record))
    }

    fn owners(items: Vec<LogItem>, entries: &[Identity]) -> (Vec<Option<u32>>, usize) {
        let entries: Vec<(u32, Identity)> = (0..).zip(entries.iter().cloned()).collect();
        let matched = match_records((0..).zip(items).collect(), &entries);
        let owner = |(slot, _): &(u32, Identity)| matched.by_slot.get(slot).map(|record| record.protection.uid);
        (entries.iter().map(owner).collect(), matched.orphans.len())
    }

    #[test]
    fn the_last_record_of_an_object_counts() {
        let items = vec![
            attributes(identity("a", 1, 5), 1),
            attributes(identity("A", 1, 5), 2),
            attributes(identity("b", 1, 6), 3),
            LogItem::Removal(identity("b", 1, 6), 3),
        ];
        assert_eq!(owners(items, &[identity("a", 1, 5), identity("b", 1, 6)]), (vec![Some(2), None], 0));
    }

    #[test]
    fn of_several_objects_with_one_name_the_one_created_at_that_time_counts() {
        let items = || vec![attributes(identity("a", 1, 5), 1), attributes(identity("a", 2, 6), 2)];
        assert_eq!(owners(items(), &[identity("a", 1, 5)]).0, [Some(1)]);
        assert_eq!(owners(items(), &[identity("a", 2, 6)]).0, [Some(2)]);
        assert_eq!(owners(items(), &[identity("a", 3, 7)]).0, [Some(2)], "replaced by others");
        let mut removed = items();
        removed.push(LogItem::Removal(identity("a", 2, 6), 2));
        assert_eq!(owners(removed, &[identity("a", 3, 7)]).0, [Some(1)]);
    }

    #[test]
    fn removals_concern_only_what_was_there_before() {
        let items = vec![
            attributes(identity("a", 1, 5), 1),
            attributes(identity("a", 1, 6), 2),
            LogItem::Removal(identity("a", 1, 5), 1),
        ];
        assert_eq!(owners(items.clone(), &[identity("a", 1, 6)]).0, [Some(2)]);
        assert_eq!(owners(items[..2].to_vec(), &[identity("a", 1, 5)]).0, [Some(1)], "the entry is the old one");
    }

    #[test]
    fn many_records_of_one_name_take_no_longer_than_others() {
        let start = std::time::Instant::now();
        let count = 100_000;
        let items: Vec<LogItem> = (0..count).map(|number| attributes(identity("a", 1, number), number)).collect();
        assert_eq!(owners(items, &[identity("a", 1, 7)]), (vec![Some(7)], 0));
        let removals = (0..count).map(|_| LogItem::Removal(identity("a", 1, 0), 0));
        let items = (0..count).map(|number| attributes(identity("a", 1, number), number)).chain(removals).collect();
        assert_eq!(owners(items, &[identity("a", 1, 7)]), (vec![Some(7)], 0));
        assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    }

    #[test]
    fn what_was_renamed_by_others_is_found_by_its_first_cluster() {
        let items = vec![
            attributes(identity("old", 1, 5), 1),
            attributes(identity("kept", 1, 6), 2),
            attributes(identity("gone", 1, 9), 3),
            attributes(identity("empty", 1, 0), 4),
            attributes(identity("one", 2, 0), 5),
            attributes(identity("two", 2, 0), 6),
            attributes(identity("removed", 1, 7), 7),
        ];
        let entries = [
            identity("new", 1, 5),
            identity("kept", 1, 6),
            identity("other", 1, 0),
            identity("three", 2, 0),
            identity("created since", 3, 7),
        ];
        assert_eq!(owners(items, &entries), (vec![Some(1), Some(2), Some(4), None, None], 4));
    }

    #[test]
    fn a_file_in_place_of_another_object_is_a_file() {
        let kind = |kind: FileKind, entry: Identity| {
            let LogItem::Attributes(identity, mut record) = attributes(identity("a", 1, 0), 1) else { return None };
            record.protection.kind = kind;
            let matched = match_records(vec![(0, LogItem::Attributes(identity, record))], &[(0, entry)]);
            assert_eq!(matched.by_slot.is_empty(), !matched.orphans.is_empty());
            matched.by_slot.get(&0).map(|record| record.protection.kind)
        };
        for special in [FileKind::Fifo, FileKind::Socket, FileKind::BlockDevice, FileKind::CharacterDevice] {
            assert_eq!(kind(special, identity("a", 1, 0)), Some(special));
            assert_eq!(kind(special, identity("a", 2, 0)), Some(FileKind::Regular));
        }
        assert_eq!(kind(FileKind::Symlink, identity("a", 1, 0)), Some(FileKind::Symlink));
        assert_eq!(kind(FileKind::Symlink, identity("a", 2, 0)), None);
        assert_eq!(kind(FileKind::Directory, identity("a", 2, 0)), Some(FileKind::Directory));
    }

    #[test]
    fn what_a_check_saved_has_no_record_of_an_earlier_object() {
        let items = vec![attributes(identity("FSCK0000.REC", 0, 5), 1), attributes(identity("FSCK0001.REC", 0, 6), 2)];
        let entries = [identity("FSCK0000.REC", 0, 7), identity("FSCK0001.REC", 0, 6)];
        assert_eq!(owners(items, &entries).0, [None, Some(2)]);
    }

    #[test]
    fn a_replaced_object_gives_nobody_the_rights_of_its_owner() {
        let mode = |entry: Identity| {
            let LogItem::Attributes(identity, mut record) = attributes(identity("a", 1, 5), 1) else { return None };
            record.protection.mode = 0o6755;
            let matched = match_records(vec![(0, LogItem::Attributes(identity, record))], &[(0, entry)]);
            matched.by_slot.get(&0).map(|record| record.protection.mode)
        };
        assert_eq!(mode(identity("a", 1, 5)), Some(0o6755));
        assert_eq!(mode(identity("b", 1, 5)), Some(0o6755), "renamed");
        assert_eq!([mode(identity("a", 2, 5)), mode(identity("a", 1, 6))], [Some(0o755); 2]);
    }
}
