//! Sessions: the volume descriptors of an image, of which every session that was added to it has a set of its own.
//!
//! A session's descriptors begin in its seventeenth sector, and name the directory tree of all files up to then. Where an image says
//! nothing of its sessions, they are searched for: behind the end of each, the next one begins.

use vnode::{Errno, Result, zeros};

use super::error::OpenErrorCause;
use super::format::directory_record::DirectoryRecord;
use super::format::volume_descriptor::{ForeignDescriptor, VolumeDescription, VolumeDescriptor, foreign};
use super::format::{Malformed, SECTOR_SIZE};
use crate::device::{Device, check_range};

/// Number of sectors of a session before its descriptors.
const SYSTEM_SECTORS: u32 = 16;
/// Largest number of descriptors of a session that are read.
const DESCRIPTORS_MAX: u32 = 64;
/// First sector of the first session where it begins as xorriso writes it on media without sessions: sector 16 has a copy of the
/// descriptors of the last one.
const EMULATED_START: u32 = 32;
/// Number of sectors behind the end of a session in which the next one is searched for: 32 MiB. On CDs, up to 11,400 are between.
const SEARCH_SECTORS: u32 = 16_384;
/// Number of sectors that are read at once in a search.
const SECTORS_AT_ONCE: u32 = 64;
/// Largest number of sessions that are searched for.
const SESSIONS_MAX: usize = 1_000;

/// The volume descriptors of a session.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors {
    /// First sector of the session.
    pub(crate) start: u32,
    pub(crate) primary: VolumeDescription,
    /// Supplementary and enhanced descriptors that make sense.
    pub(crate) supplementary: Vec<VolumeDescription>,
    /// Sector of the boot catalog.
    pub(crate) boot_catalog: Option<u32>,
    /// Hash of the primary descriptor, by which the image is recognized.
    pub(crate) hash: u64,
}

/// The session to be read, and all that there are.
pub(crate) struct Sessions {
    pub(crate) selected: Descriptors,
    /// In the order in which they were written. The image has no descriptors of earlier ones that were overwritten.
    pub(crate) all: Vec<Descriptors>,
}

/// Returns the session with this number, or the one that begins in this sector, or the last; and all sessions.
///
/// # Errors
/// [`OpenErrorCause`].
pub(crate) fn find(
    device: &dyn Device,
    number: Option<u32>,
    start: Option<u32>,
) -> std::result::Result<Sessions, OpenErrorCause> {
    if let Some(start) = start {
        let selected = read(device, start)?.ok_or(OpenErrorCause::NotAnImage)?;
        return Ok(Sessions { all: vec![selected.clone()], selected });
    }
    let first = read(device, 0)?;
    // The root directory of a session that ends before is not in a later one, unlike that of a copy.
    let is_copy = |first: &Descriptors| root_offset(first) >= u64::from(EMULATED_START) * u64::from(SECTOR_SIZE);
    let emulated = session(device, EMULATED_START).filter(|_| first.as_ref().is_none_or(is_copy));
    let is_emulated = emulated.is_some();
    let Some(begin) = emulated.or_else(|| first.clone()) else { return Err(missing(device)) };
    let all = search(device, begin);
    let selected = match number {
        Some(requested) => {
            let index = usize::try_from(requested).ok().and_then(|number| number.checked_sub(1));
            let existing = all.len() as u32;
            index.and_then(|index| all.get(index)).ok_or(OpenErrorCause::NoSession { requested, existing })?
        }
        // The copy is the last one, even if some between cannot be found.
        None => first.as_ref().filter(|_| is_emulated).or(all.last()).ok_or(OpenErrorCause::NotAnImage)?,
    };
    Ok(Sessions { selected: selected.clone(), all })
}

/// Reads the descriptors of the session that begins in this sector; `None` if there are none.
fn read(device: &dyn Device, start: u32) -> std::result::Result<Option<Descriptors>, OpenErrorCause> {
    let (mut primary, mut supplementary, mut boot_catalog) = (None, Vec::new(), None);
    for number in 0..DESCRIPTORS_MAX {
        let Some(sector) = start.checked_add(SYSTEM_SECTORS + number) else { break };
        let bytes = match read_sector(device, sector) {
            Ok(bytes) => bytes,
            // A descriptor is missing here; whether any is there has been seen before.
            Err(errno) if number == 0 && is_within(device, sector) => return Err(errno.into()),
            Err(_) => break,
        };
        match VolumeDescriptor::parse(&bytes) {
            Ok(Some(VolumeDescriptor::Primary(volume))) if primary.is_none() => {
                primary = Some((*volume, xxhash_rust::xxh3::xxh3_64(&bytes)));
            }
            Ok(Some(VolumeDescriptor::Supplementary(volume))) => supplementary.push(*volume),
            Ok(Some(VolumeDescriptor::BootCatalog(sector))) => boot_catalog = boot_catalog.or(Some(sector)),
            Ok(Some(VolumeDescriptor::Primary(_) | VolumeDescriptor::Other)) => {}
            Ok(Some(VolumeDescriptor::Terminator) | None) => break,
            Err(Malformed) if bytes.first() == Some(&1) && primary.is_none() => {
                return Err(OpenErrorCause::Damaged("its volume descriptor makes no sense"));
            }
            Err(Malformed) => {}
        }
    }
    Ok(primary.map(|(primary, hash)| Descriptors { start, primary, supplementary, boot_catalog, hash }))
}

/// Returns the descriptors of a session that begins in this sector, if there is one: its root directory is in the session itself,
/// unlike that of an image which is a file in this one.
fn session(device: &dyn Device, start: u32) -> Option<Descriptors> {
    let descriptors = read(device, start).ok()??;
    let root = descriptors.primary.root;
    let offset = root_offset(&descriptors);
    let mut head = [0; SECTOR_SIZE as usize];
    if offset < u64::from(start) * u64::from(SECTOR_SIZE) || read_at(device, offset, &mut head).is_err() {
        return None;
    }
    let record = DirectoryRecord::parse(&head).ok()??;
    (record.is_self() && record.data_block() == Ok(root.block)).then_some(descriptors)
}

/// Returns the offset of the root directory of a session.
fn root_offset(descriptors: &Descriptors) -> u64 {
    let VolumeDescription { block_size, root, .. } = descriptors.primary;
    u64::from(root.block) * u64::from(block_size)
}

/// Returns this session and all that follow it.
fn search(device: &dyn Device, first: Descriptors) -> Vec<Descriptors> {
    let mut found = vec![first];
    while found.len() < SESSIONS_MAX
        && let Some(next) = found.last().and_then(|last| next(device, last))
    {
        found.push(next);
    }
    found
}

/// Returns the session after this one.
fn next(device: &dyn Device, session_before: &Descriptors) -> Option<Descriptors> {
    let VolumeDescription { block_count, block_size, .. } = session_before.primary;
    let size = u64::from(block_count) * u64::from(block_size) / u64::from(SECTOR_SIZE);
    let end = u64::from(session_before.start) + size.max(u64::from(SYSTEM_SECTORS) + 2);
    let first = u32::try_from(end + u64::from(SYSTEM_SECTORS)).ok()?;
    let device_sectors = u32::try_from(device.size() / u64::from(SECTOR_SIZE)).unwrap_or(u32::MAX);
    let last = first.saturating_add(SEARCH_SECTORS).min(device_sectors);
    for sector in (first..last).step_by(SECTORS_AT_ONCE as usize) {
        let count = SECTORS_AT_ONCE.min(last - sector);
        let mut bytes = zeros((count * SECTOR_SIZE) as usize).ok()?;
        if read_at(device, u64::from(sector) * u64::from(SECTOR_SIZE), &mut bytes).is_err() {
            continue;
        }
        let sectors = (sector..).zip(bytes.chunks_exact(SECTOR_SIZE as usize));
        let descriptors = sectors.filter(|(_, bytes)| matches!(bytes, [1, b'C', b'D', b'0', b'0', b'1', ..]));
        let mut sessions = descriptors.filter_map(|(sector, _)| session(device, sector - SYSTEM_SECTORS));
        if let Some(session) = sessions.next() {
            return Some(session);
        }
    }
    None
}

/// Returns the reason why an image has no descriptors.
fn missing(device: &dyn Device) -> OpenErrorCause {
    let sectors = SYSTEM_SECTORS..SYSTEM_SECTORS + 4;
    let mut kinds = sectors.filter_map(|sector| read_sector(device, sector).ok()).map(|sector| foreign(&sector));
    match kinds.find(|kind| *kind != ForeignDescriptor::None) {
        Some(ForeignDescriptor::HighSierra) => OpenErrorCause::HighSierra,
        Some(ForeignDescriptor::Udf) => OpenErrorCause::OnlyUdf,
        _ => OpenErrorCause::NotAnImage,
    }
}

fn read_sector(device: &dyn Device, sector: u32) -> Result<[u8; SECTOR_SIZE as usize]> {
    let mut bytes = [0; SECTOR_SIZE as usize];
    read_at(device, u64::from(sector) * u64::from(SECTOR_SIZE), &mut bytes)?;
    Ok(bytes)
}

fn read_at(device: &dyn Device, offset: u64, buffer: &mut [u8]) -> Result<()> {
    check_range(device.size(), offset, buffer.len() as u64).map_err(|_| Errno::EIO)?;
    device.read_at(offset, buffer)
}

fn is_within(device: &dyn Device, sector: u32) -> bool {
    (u64::from(sector) + 1) * u64::from(SECTOR_SIZE) <= device.size()
}

#[cfg(test)]
mod tests {
    use super::super::format::directory_record::tests::record;
    use super::super::format::volume_descriptor::tests::descriptor;
    use super::super::tree::tests::device_of;
    use super::*;

    /// Returns a device with sessions: their first sectors, lengths and root directories.
    fn device(sectors: usize, sessions: &[(u32, u32, u32)]) -> crate::device::DeviceRef {
        let mut bytes = vec![0; sectors * 2048];
        for &(start, length, root) in sessions {
            let mut sector = descriptor(1, 1);
            sector[80..84].copy_from_slice(&length.to_le_bytes());
            sector[156..190].copy_from_slice(&record(&[0], root, 2048, 2));
            bytes[(start as usize + 16) * 2048..][..2048].copy_from_slice(&sector);
            bytes[(start as usize + 17) * 2048..][..2048].copy_from_slice(&descriptor(255, 1));
            bytes[root as usize * 2048..][..34].copy_from_slice(&record(&[0], root, 2048, 2));
        }
        device_of(bytes)
    }

    fn starts(device: &dyn Device, number: Option<u32>) -> (u32, Vec<u32>) {
        let Ok(sessions) = find(device, number, None) else { panic!() };
        (sessions.selected.start, sessions.all.iter().map(|session| session.start).collect())
    }

    #[test]
    fn the_last_of_appended_sessions_is_read() {
        let device = device(600, &[(0, 100, 20), (128, 50, 150), (500, 60, 520)]);
        assert_eq!(starts(&*device, None), (500, vec![0, 128, 500]));
        assert_eq!(starts(&*device, Some(2)), (128, vec![0, 128, 500]));
        let error = find(&*device, Some(4), None).err();
        assert_eq!(error, Some(OpenErrorCause::NoSession { requested: 4, existing: 3 }));
        assert_eq!(find(&*device, None, Some(128)).ok().unwrap().selected.primary.root.block, 150);
        assert_eq!(find(&*device, None, Some(129)).err(), Some(OpenErrorCause::NotAnImage));
    }

    #[test]
    fn of_emulated_sessions_the_copy_is_read() {
        let device = device(256, &[(32, 25, 50), (64, 26, 82), (0, 90, 82)]);
        assert_eq!(starts(&*device, None), (0, vec![32, 64]));
        assert_eq!(starts(&*device, Some(1)).0, 32);
    }

    #[test]
    fn a_second_session_where_the_first_emulated_one_would_be() {
        let device = device(128, &[(0, 30, 20), (32, 40, 55)]);
        assert_eq!(starts(&*device, None), (32, vec![0, 32]));
        assert_eq!(starts(&*device, Some(1)).0, 0);
    }

    #[test]
    fn an_image_in_an_image_is_no_session() {
        let device = device(300, &[(0, 60, 20), (100, 60, 22)]);
        assert_eq!(starts(&*device, None), (0, vec![0]));
    }

    #[test]
    fn what_else_it_is_is_said() {
        assert_eq!(find(&*device_of(vec![]), None, None).err(), Some(OpenErrorCause::NotAnImage));
        let mut bytes = vec![0; 40 * 2048];
        bytes[18 * 2048 + 1..][..5].copy_from_slice(b"NSR02");
        assert_eq!(find(&*device_of(bytes.clone()), None, None).err(), Some(OpenErrorCause::OnlyUdf));
        bytes[16 * 2048..][..2048].copy_from_slice(&descriptor(1, 1));
        bytes[16 * 2048 + 129] = 0;
        assert!(matches!(find(&*device_of(bytes), None, None).err(), Some(OpenErrorCause::Damaged(_))));
    }
}
