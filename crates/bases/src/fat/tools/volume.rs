//! A file system as tools see it: device, geometry and tables.

use super::disk::Disk;
use super::error::ToolError;
use super::table::Table;
use crate::device::DeviceRef;
use crate::fat::format::{BootSector, Geometry, InfoSector, Link, StateFlags, VolumeFlags};

/// A file system that tools read and write.
pub(crate) struct Volume {
    /// The device.
    pub(crate) disk: Disk,
    /// The boot sector as it was when the volume was opened or last written.
    pub(crate) boot: BootSector,
    /// Where everything is.
    pub(crate) geometry: Geometry,
    /// The tables.
    pub(crate) table: Table,
}

impl Volume {
    /// Opens the file system on a device.
    ///
    /// # Errors
    /// If there is none, or the boot sector cannot be read.
    pub(crate) fn open(device: DeviceRef) -> Result<Self, ToolError> {
        let disk = Disk(device);
        let boot = BootSector::decode(&disk.read_sector(0)?);
        Self::of_boot_sector(disk, boot)
    }

    /// Opens the file system that a boot sector describes, whether or not the device begins with it.
    pub(crate) fn of_boot_sector(disk: Disk, boot: BootSector) -> Result<Self, ToolError> {
        let geometry = Geometry::new(&boot, disk.0.size())?;
        let table = Table::new(disk.clone(), geometry);
        Ok(Self { disk, boot, geometry, table })
    }

    /// Writes the changes of the tables, and makes everything stable.
    pub(crate) fn flush(&mut self) -> Result<(), ToolError> {
        self.table.write_back()?;
        self.disk.flush()
    }

    /// Returns the offset of a cluster in bytes.
    pub(crate) fn offset(&self, cluster: u32) -> Result<u64, ToolError> {
        self.geometry.cluster_offset(cluster).ok_or(ToolError::NoCluster(cluster))
    }

    /// Changes fields of the boot sector and of its copy; boot code stays as it is.
    pub(crate) fn change_boot_sector(&mut self, change: &dyn Fn(&mut BootSector)) -> Result<(), ToolError> {
        for offset in [self.geometry.backup_offset(), Some(0)].into_iter().flatten() {
            let mut sector = self.disk.read_sector(offset)?;
            let mut boot = BootSector::decode(&sector);
            if offset > 0 && Geometry::new(&boot, self.disk.0.size()) != Ok(self.geometry) {
                // It is no copy.
                continue;
            }
            change(&mut boot);
            boot.encode(&mut sector);
            self.disk.write(offset, &sector)?;
        }
        change(&mut self.boot);
        self.geometry = Geometry::new(&self.boot, self.disk.0.size())?;
        Ok(())
    }

    /// Returns a reserved sector of FAT32 that contains nothing, best the one with this number; never the boot sector.
    pub(crate) fn free_reserved_sector(&self, preferred: u16) -> Option<u16> {
        self.boot.extended?;
        let size = u64::from(self.geometry.bytes_per_sector());
        let is_free = |sector: &u16| {
            let offset = u64::from(*sector) * size;
            let mut bytes = vec![0; size as usize];
            let is_taken = [self.geometry.info_offset(), self.geometry.backup_offset()].contains(&Some(offset));
            !is_taken && self.disk.read(offset, &mut bytes).is_ok() && bytes.iter().all(|&byte| byte == 0)
        };
        let reserved = 1..self.boot.reserved_sectors;
        let preferred = Some(preferred).filter(|sector| reserved.contains(sector));
        preferred.into_iter().chain(reserved).find(is_free)
    }

    /// Creates a copy of the boot sector in a reserved sector.
    pub(crate) fn create_backup(&mut self, sector: u16) -> Result<(), ToolError> {
        let change = move |boot: &mut BootSector| {
            if let Some(fields) = &mut boot.extended {
                fields.backup_sector = sector;
            }
        };
        let mut copy = self.disk.read_sector(0)?;
        let mut boot = BootSector::decode(&copy);
        change(&mut boot);
        boot.state = StateFlags(0);
        boot.encode(&mut copy);
        self.disk.write(u64::from(sector) * u64::from(self.geometry.bytes_per_sector()), &copy)?;
        // Nothing refers to it before it is stable.
        self.disk.flush()?;
        self.change_boot_sector(&change)
    }

    /// Creates an information sector in a reserved sector.
    pub(crate) fn create_info(&mut self, sector: u16, info: InfoSector) -> Result<(), ToolError> {
        self.disk.write(u64::from(sector) * u64::from(self.geometry.bytes_per_sector()), &info.encode())?;
        self.disk.flush()?;
        self.change_boot_sector(&move |boot| {
            if let Some(fields) = &mut boot.extended {
                fields.info_sector = sector;
            }
        })
    }

    /// Marks the volume as in use or not, in the boot sector and in the tables, and makes everything stable before and
    /// after.
    pub(crate) fn set_dirty(&mut self, is_dirty: bool) -> Result<(), ToolError> {
        let width = self.geometry.width();
        self.flush()?;
        let value = self.table.value(1)?;
        if let Some(flags) = VolumeFlags::decode(width, value) {
            self.table.set_value(1, VolumeFlags { is_dirty, ..flags }.encode(width, value))?;
        }
        let state = self.boot.state.0 & !StateFlags::DIRTY | if is_dirty { StateFlags::DIRTY } else { 0 };
        self.set_state(StateFlags(state))?;
        self.flush()
    }

    /// Writes the state byte of the boot sector, if that has one. Its copy never has one.
    pub(crate) fn set_state(&mut self, state: StateFlags) -> Result<(), ToolError> {
        if !self.boot.has_state() {
            return Ok(());
        }
        let mut sector = self.disk.read_sector(0)?;
        BootSector::set_state(&mut sector, state);
        self.disk.write(0, &sector)?;
        self.boot.state = state;
        Ok(())
    }

    /// Returns whether the volume was not unmounted, or its disk had errors, according to any of the marks.
    pub(crate) fn state(&mut self) -> Result<VolumeFlags, ToolError> {
        let value = self.table.value(1)?;
        let flags = VolumeFlags::decode(self.geometry.width(), value);
        Ok(VolumeFlags {
            is_dirty: self.boot.state.is_dirty() || flags.is_some_and(|flags| flags.is_dirty),
            had_errors: self.boot.state.had_errors() || flags.is_some_and(|flags| flags.had_errors),
        })
    }

    /// Marks the disk as without errors.
    pub(crate) fn clear_errors(&mut self) -> Result<(), ToolError> {
        let width = self.geometry.width();
        let value = self.table.value(1)?;
        if let Some(flags) = VolumeFlags::decode(width, value) {
            self.table.set_value(1, VolumeFlags { had_errors: false, ..flags }.encode(width, value))?;
        }
        self.set_state(StateFlags(self.boot.state.0 & !StateFlags::ERROR))
    }

    /// Returns the hints of the information sector, if there is a valid one.
    pub(crate) fn info(&self) -> Option<InfoSector> {
        let offset = self.geometry.info_offset()?;
        InfoSector::decode(&self.disk.read_sector(offset).ok()?)
    }

    /// Writes the information sector, if there is one.
    pub(crate) fn set_info(&self, info: InfoSector) -> Result<(), ToolError> {
        match self.geometry.info_offset() {
            Some(offset) => self.disk.write(offset, &info.encode()),
            None => Ok(()),
        }
    }

    /// Counts the free clusters and writes what the information sector should say.
    pub(crate) fn refresh_info(&mut self) -> Result<(), ToolError> {
        if self.geometry.info_offset().is_none() {
            return Ok(());
        }
        let info = self.count_free()?;
        self.set_info(info)
    }

    /// Returns the number of free clusters, and the first of them.
    pub(crate) fn count_free(&mut self) -> Result<InfoSector, ToolError> {
        let (mut free_clusters, mut next_free) = (0, None);
        for cluster in self.geometry.cluster_numbers() {
            if self.table.get(cluster)? == Link::Free {
                free_clusters += 1;
                next_free = next_free.or(Some(cluster));
            }
        }
        Ok(InfoSector { free_clusters: Some(free_clusters), next_free: next_free.or(Some(2)) })
    }
}
