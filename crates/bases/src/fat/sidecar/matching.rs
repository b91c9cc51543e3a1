//! Matching: which record of a log belongs to which entry of its directory.

use std::collections::HashMap;

use crate::fat::format::{DosDateTime, upcased};

use super::record::{Identity, LogItem, Record};

/// The record of the root directory, and those of entries by slot.
#[derive(Debug, Default)]
pub(crate) struct MatchedRecords {
    pub(crate) own: Option<Box<Record>>,
    pub(crate) by_slot: HashMap<u32, Box<Record>>,
    /// Objects with records that no entry has.
    pub(crate) orphans: Vec<Identity>,
}

/// A record that counts, and its position among all items.
struct Candidate {
    position: usize,
    identity: Identity,
    record: Box<Record>,
}

/// Returns the records of the entries of a directory, given by slot and identity.
pub(crate) fn match_records(items: Vec<LogItem>, entries: &[(u32, Identity)]) -> MatchedRecords {
    let mut candidates = last_records(items);
    let mut matched = MatchedRecords::default();
    if let Some(own) = candidates.remove(&Vec::new()) {
        matched.own = own.into_values().max_by_key(|candidate| candidate.position).map(|candidate| candidate.record);
    }
    let mut unmatched = Vec::new();
    for (slot, identity) in entries {
        let by_name = candidates.remove(&upcased(&identity.name));
        let best = by_name.and_then(|mut by_time| {
            let exact = by_time.remove(&key(identity.created));
            exact.or_else(|| by_time.into_values().max_by_key(|candidate| candidate.position))
        });
        match best {
            Some(candidate) => drop(matched.by_slot.insert(*slot, candidate.record)),
            None => unmatched.push((*slot, identity)),
        }
    }
    let mut renamed: HashMap<u32, Candidate> = HashMap::new();
    for candidate in candidates.into_values().flat_map(HashMap::into_values) {
        let cluster = candidate.identity.cluster;
        let is_last = renamed.get(&cluster).is_none_or(|other| other.position < candidate.position);
        if cluster != 0 && is_last {
            if let Some(before) = renamed.insert(cluster, candidate) {
                matched.orphans.push(before.identity);
            }
        } else {
            matched.orphans.push(candidate.identity);
        }
    }
    for (slot, identity) in unmatched {
        if let Some(candidate) = renamed.remove(&identity.cluster) {
            matched.by_slot.insert(slot, candidate.record);
        }
    }
    matched.orphans.extend(renamed.into_values().map(|candidate| candidate.identity));
    matched
}

type ByTime = HashMap<(u16, u16, u8), Candidate>;

/// Returns the last record of each object that was not removed, by name in upper case and time of creation.
fn last_records(items: Vec<LogItem>) -> HashMap<Vec<u16>, ByTime> {
    let mut records: HashMap<Vec<u16>, ByTime> = HashMap::new();
    for (position, item) in items.into_iter().enumerate() {
        match item {
            LogItem::Attributes(identity, record) => {
                let by_time = records.entry(upcased(&identity.name)).or_default();
                by_time.insert(key(identity.created), Candidate { position, identity, record });
            }
            LogItem::Removal(identity) => {
                if let Some(by_time) = records.get_mut(&upcased(&identity.name)) {
                    by_time.remove(&key(identity.created));
                }
            }
        }
    }
    records
}

fn key(created: DosDateTime) -> (u16, u16, u8) {
    (created.date, created.time, created.hundredths)
}

#[cfg(test)]
mod tests {
    use vnode::{Device, FileKind};

    use super::*;
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
        let matched = match_records(items, &entries);
        let owner = |(slot, _): &(u32, Identity)| matched.by_slot.get(slot).map(|record| record.protection.uid);
        (entries.iter().map(owner).collect(), matched.orphans.len())
    }

    #[test]
    fn the_last_record_of_an_object_counts() {
        let items = vec![
            attributes(identity("a", 1, 5), 1),
            attributes(identity("A", 1, 5), 2),
            attributes(identity("b", 1, 6), 3),
            LogItem::Removal(identity("b", 1, 6)),
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
        removed.push(LogItem::Removal(identity("a", 2, 6)));
        assert_eq!(owners(removed, &[identity("a", 3, 7)]).0, [Some(1)]);
    }

    #[test]
    fn what_was_renamed_by_others_is_found_by_its_first_cluster() {
        let items = vec![
            attributes(identity("old", 1, 5), 1),
            attributes(identity("kept", 1, 6), 2),
            attributes(identity("gone", 1, 9), 3),
            attributes(identity("empty", 1, 0), 4),
        ];
        let entries = [identity("new", 1, 5), identity("kept", 1, 6), identity("other", 1, 0)];
        assert_eq!(owners(items, &entries), (vec![Some(1), Some(2), None], 2));
    }
}
