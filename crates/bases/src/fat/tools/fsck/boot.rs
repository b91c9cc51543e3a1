//! The boot sector, its copy, the information sector, the label and the marks of the state.

use super::checker::Checker;
use super::options::FsckMode;
use super::problem::Problem;
use super::report::{Finding, FsckReport, Repair};
use crate::device::DeviceRef;
use crate::fat::format::{BOOT_SECTOR_SIZE, BootSector, FatWidth, Geometry, InfoSector, Link, NO_NAME};
use crate::fat::tools::disk::Disk;
use crate::fat::tools::error::ToolError;
use crate::fat::tools::volume::Volume;

/// Sector that the copy of a boot sector is in, unless the boot sector says otherwise.
const BACKUP_SECTOR: u64 = 6;
/// Sector of the information that is usual.
const INFO_SECTOR: u16 = 1;
/// Sizes of sectors, of which the last 512 bytes of a lost boot sector would tell the right one.
const SECTOR_SIZES: [u64; 4] = [512, 1024, 2048, 4096];

/// Opens the file system of a device, if need be by the copy of its boot sector. Findings about the boot sector are in the
/// report; there is no volume if they have to be repaired first.
pub(crate) fn open_volume(
    device: DeviceRef,
    mode: FsckMode,
    report: &mut FsckReport,
) -> Result<Option<Volume>, ToolError> {
    let disk = Disk(device);
    let problem = match disk.read_sector(0) {
        Err(_) => Problem::BootUnreadable,
        Ok(sector) => match Volume::of_boot_sector(disk.clone(), BootSector::decode(&sector)) {
            Ok(mut volume) => match is_misleading(&mut volume, &disk) {
                true => Problem::BootDiffers,
                false => return Ok(Some(volume)),
            },
            Err(ToolError::NotFat(error)) => Problem::BootInvalid(error),
            Err(error) => return Err(error),
        },
    };
    let backup = find_backup(&disk);
    let repair = match (&backup, mode) {
        (None, _) => Repair::Impossible,
        (Some(_), FsckMode::Check) => Repair::Possible,
        (Some(_), FsckMode::Preen) => Repair::Left,
        (Some((sector, _)), FsckMode::Repair) => match disk.write(0, sector).and_then(|()| disk.flush()) {
            Ok(()) => Repair::Done,
            Err(ToolError::ReadOnly) => return Err(ToolError::ReadOnly),
            Err(error) => Repair::Failed(error),
        },
    };
    let may_go_on = matches!(repair, Repair::Possible | Repair::Done);
    let count = report.counts.entry(problem.code()).or_default();
    (count.found, count.repaired) = (1, u64::from(repair == Repair::Done));
    report.findings.push(Finding { problem, path: None, clusters: Vec::new(), repair });
    match backup.filter(|_| may_go_on) {
        Some((_, boot)) => Volume::of_boot_sector(disk, boot).map(Some),
        None => Ok(None),
    }
}

/// Returns whether the tables are not where the boot sector says, but where its copy says.
fn is_misleading(volume: &mut Volume, disk: &Disk) -> bool {
    let Some((_, boot)) = find_backup(disk) else { return false };
    match Volume::of_boot_sector(disk.clone(), boot) {
        Ok(mut other) => other.geometry != volume.geometry && !has_tables(volume) && has_tables(&mut other),
        Err(_) => false,
    }
}

/// Returns whether the tables begin as they should.
fn has_tables(volume: &mut Volume) -> bool {
    let expected = volume.geometry.width().mask() & !0xFF | u32::from(volume.boot.media);
    volume.table.value(0) == Ok(expected)
}

/// Returns the copy of a lost boot sector.
fn find_backup(disk: &Disk) -> Option<([u8; BOOT_SECTOR_SIZE], BootSector)> {
    SECTOR_SIZES.iter().find_map(|size| {
        let offset = BACKUP_SECTOR * size;
        let sector = disk.read_sector(offset).ok()?;
        let boot = BootSector::decode(&sector);
        let geometry = Geometry::new(&boot, disk.0.size());
        let is_copy = boot.has_signature && geometry.is_ok_and(|geometry| geometry.backup_offset() == Some(offset));
        is_copy.then_some((sector, boot))
    })
}

impl Checker<'_> {
    /// Checks the signature of the boot sector, and its copy.
    pub(crate) fn check_boot(&mut self) -> Result<(), ToolError> {
        if !self.volume.boot.has_signature {
            let repair = &mut |checker: &mut Self| checker.volume.change_boot_sector(&|boot| boot.has_signature = true);
            self.found(Problem::BootSignature, None, Vec::new(), repair)?;
        }
        let Some(offset) = self.volume.geometry.backup_offset() else { return self.check_backup_missing() };
        let compared = |sector: Result<[u8; BOOT_SECTOR_SIZE], ToolError>| {
            sector.map(|mut sector| {
                BootSector::set_state(&mut sector, Default::default());
                sector
            })
        };
        let boot = compared(self.volume.disk.read_sector(0));
        let geometry = |sector| Geometry::new(&BootSector::decode(sector), self.volume.disk.0.size());
        // The volume may have been opened by the copy alone.
        let is_valid = boot.as_ref().is_ok_and(|sector| geometry(sector) == Ok(self.volume.geometry));
        if is_valid && compared(self.volume.disk.read_sector(offset)) != boot {
            let repair = &mut |checker: &mut Self| checker.volume.disk.write(offset, &boot.clone()?);
            self.found(Problem::BackupDiffers, None, Vec::new(), repair)?;
        }
        Ok(())
    }

    /// Creates a copy of the boot sector, if there is room for it.
    fn check_backup_missing(&mut self) -> Result<(), ToolError> {
        let Some(sector) = self.volume.free_reserved_sector(BACKUP_SECTOR as u16) else { return Ok(()) };
        let repair = &mut |checker: &mut Self| checker.volume.create_backup(sector);
        self.found(Problem::BackupMissing(sector), None, Vec::new(), repair).map(drop)
    }

    /// Creates an information sector, if there is room for it.
    fn check_info_missing(&mut self, counted: InfoSector) -> Result<(), ToolError> {
        let Some(sector) = self.volume.free_reserved_sector(INFO_SECTOR) else { return Ok(()) };
        let repair = &mut |checker: &mut Self| checker.volume.create_info(sector, counted);
        self.found(Problem::InfoMissing(sector), None, Vec::new(), repair).map(drop)
    }

    /// Notes what is no problem of the file system, but may be one of those who use it.
    pub(crate) fn note_oddities(&mut self) {
        let (geometry, boot) = (&self.volume.geometry, &self.volume.boot);
        let (clusters, is_fat32) = (geometry.clusters(), geometry.width() == FatWidth::Fat32);
        let has_few = is_fat32 && clusters <= FatWidth::Fat16.clusters_max();
        let few = || format!("FAT32 with only {clusters} clusters: some systems take it for FAT16");
        let root = || "FAT32 with room for a root directory of fixed size, which is not used".to_owned();
        let tables = || format!("{} file allocation tables: some systems expect 1 or 2", boot.fats);
        let notes = [has_few.then(few), (is_fat32 && boot.root_entries > 0).then(root), (boot.fats > 2).then(tables)];
        self.report.notes.extend(notes.into_iter().flatten());
    }

    /// Compares the label of the boot sector with that of the root directory.
    pub(crate) fn check_label(&mut self) -> Result<(), ToolError> {
        let Some(stored) = self.volume.boot.label() else { return Ok(()) };
        let label = self.root_label.map_or(NO_NAME, |label| label.0);
        let is_none = |label: [u8; 11]| label == NO_NAME || label == [b' '; 11];
        if stored == label || is_none(stored) && is_none(label) {
            return Ok(());
        }
        let repair = &mut |checker: &mut Self| {
            checker.volume.change_boot_sector(&|boot| {
                let names = boot.identity.as_mut().and_then(|identity| identity.label.as_mut());
                if let Some((stored, _)) = names {
                    *stored = label;
                }
            })
        };
        self.found(Problem::LabelDiffers, None, Vec::new(), repair).map(drop)
    }

    /// Compares the information sector with the tables, and counts the clusters for the report.
    pub(crate) fn check_info(&mut self) -> Result<(), ToolError> {
        let counted = self.count_clusters()?;
        let (Some(offset), Some(free)) = (self.volume.geometry.info_offset(), counted.free_clusters) else {
            return self.check_info_missing(counted);
        };
        let info = self.volume.disk.read_sector(offset).ok().and_then(|sector| InfoSector::decode(&sector));
        let geometry = self.volume.geometry;
        let problems = match info {
            None => [Some(Problem::InfoInvalid), None],
            Some(info) => [
                info.free_clusters.filter(|&stored| stored != free).map(|stored| Problem::FreeCount(stored, free)),
                // A number of 0 is written by others that do not know one.
                info.next_free.filter(|&next| next != 0 && !geometry.contains(next)).map(Problem::NextFree),
            ],
        };
        let has_written = self.has_written();
        for problem in problems.into_iter().flatten() {
            if has_written && matches!(problem, Problem::FreeCount(..)) {
                // The repairs themselves have changed the number.
                continue;
            }
            self.found(problem, None, Vec::new(), &mut |checker: &mut Self| checker.volume.set_info(counted))?;
        }
        if self.has_written() { self.volume.set_info(counted) } else { Ok(()) }
    }

    fn count_clusters(&mut self) -> Result<InfoSector, ToolError> {
        let counted = self.volume.count_free()?;
        let clusters = u64::from(self.volume.geometry.clusters());
        let mut bad = 0;
        for cluster in self.volume.geometry.cluster_numbers() {
            bad += u64::from(self.volume.table.get(cluster)? == Link::Bad);
        }
        let free = u64::from(counted.free_clusters.unwrap_or(0));
        let report = &mut self.report;
        (report.clusters, report.free_clusters, report.bad_clusters) = (clusters, free, bad);
        report.used_clusters = clusters.saturating_sub(free).saturating_sub(bad);
        Ok(counted)
    }

    /// Reports the marks of the state; marks the volume as unmounted if nothing is left to be repaired.
    pub(crate) fn finish_state(&mut self) -> Result<(), ToolError> {
        if self.found_state.had_errors {
            let repair = &mut |checker: &mut Self| checker.volume.clear_errors();
            self.found(Problem::DiskErrors, None, Vec::new(), repair)?;
        }
        let is_repairable = |finding: &Finding| finding.repair != Repair::Impossible;
        let impossible = self.report.findings.iter().filter(|finding| !is_repairable(finding)).count() as u64;
        let is_sound = self.report.unrepaired() <= impossible;
        if self.found_state.is_dirty {
            let repair = match self.options.mode {
                FsckMode::Check => Repair::Possible,
                _ if is_sound => Repair::Done,
                _ => Repair::Left,
            };
            if repair == Repair::Done {
                self.begin_writing()?;
            }
            self.list(Problem::Dirty, None, Vec::new(), repair);
        }
        if !self.has_written() {
            return Ok(());
        }
        if is_sound { self.volume.set_dirty(false) } else { self.volume.flush() }
    }
}
