//! What is known of an image: for people, as text, and for programs.

use std::fmt;

use vnode::Timestamp;

use super::format::boot_catalog::BootImage;
use super::format::calendar::Date;
use super::format::volume_descriptor::{VolumeDescription, VolumeTexts, VolumeTimes};
use super::opening::{Opened, description_of};
use super::tree::TreeKind;

/// What is known of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// The image, as it was named.
    pub name: String,
    /// Size of the image in bytes.
    pub size: u64,
    /// Bytes of a sector, if the image has whole sectors rather than the user data in them.
    pub sector_size: Option<u64>,
    /// The tree that is read.
    pub tree: TreeKind,
    /// Identifiers of the extensions that the system use areas announce.
    pub extensions: Vec<String>,
    /// Level of Joliet, if there is a tree of it.
    pub joliet_level: Option<u8>,
    /// Whether there is an enhanced descriptor.
    pub has_enhanced: bool,
    /// Texts of the tree that is read.
    pub texts: VolumeTexts,
    /// Times of the tree that is read.
    pub times: VolumeTimes,
    /// Number of logical blocks of the volume.
    pub block_count: u32,
    /// Bytes of a logical block.
    pub block_size: u32,
    /// Number of this volume in its set, and number of volumes of the set.
    pub volume_number: (u16, u16),
    /// All sessions.
    pub sessions: Vec<SessionInformation>,
    /// First sector of the session that is read; 0 also for a copy of the last session's descriptors at the beginning.
    pub session_start: u32,
    /// Sector of the boot catalog.
    pub boot_catalog: Option<u32>,
    /// Boot files, unless they are not shown.
    pub boot_images: Vec<BootInformation>,
}

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInformation {
    /// First sector.
    pub start: u32,
    /// Number of logical blocks.
    pub block_count: u32,
    /// Name of the volume.
    pub volume: String,
    /// Creation of the volume.
    pub created: Option<Timestamp>,
}

/// What is known of a boot image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootInformation {
    /// Name of the file that shows it.
    pub name: String,
    /// Size of that file in bytes.
    pub size: u64,
    /// The entry of the catalog.
    pub image: BootImage,
}

impl Information {
    /// Returns what is known of an image that has been opened from a device of this size.
    pub(crate) fn new(name: &str, size: u64, opened: &Opened) -> Self {
        let descriptors = &opened.sessions.selected;
        let tree = opened.volume.tree.kind;
        let volume: &VolumeDescription = description_of(descriptors, tree).unwrap_or(&descriptors.primary);
        let boot_files = opened.volume.boot.iter().flat_map(|boot| &boot.files);
        let boot_images = boot_files
            .filter_map(|file| Some(BootInformation { name: file.name.clone(), size: file.size, image: file.image? }));
        Self {
            name: name.to_owned(),
            size,
            sector_size: opened.sector_size,
            tree,
            extensions: opened.extensions.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect(),
            joliet_level: descriptors.supplementary.iter().find_map(|volume| volume.joliet_level),
            has_enhanced: descriptors.supplementary.iter().any(|volume| volume.is_enhanced),
            texts: volume.texts.clone(),
            times: volume.times,
            block_count: volume.block_count,
            block_size: volume.block_size,
            volume_number: (volume.sequence_number, volume.set_size),
            sessions: opened
                .sessions
                .all
                .iter()
                .map(|session| SessionInformation::new(session.start, &session.primary))
                .collect(),
            session_start: descriptors.start,
            boot_catalog: descriptors.boot_catalog,
            boot_images: boot_images.collect(),
        }
    }
}

impl SessionInformation {
    fn new(start: u32, volume: &VolumeDescription) -> Self {
        let (block_count, created) = (volume.block_count, volume.times.created);
        Self { start, block_count, volume: volume.texts.volume.clone(), created }
    }
}

/// One line for each known fact, with its name before a colon. Times are those of Greenwich.
impl fmt::Display for Information {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Lines(formatter);
        let sectors = self.sector_size.map_or(String::new(), |size| format!(", in sectors of {size}"));
        lines.add("image", &self.name)?;
        lines.add("size", &format!("{} bytes{sectors}", self.size))?;
        lines.add("volume", &format!("{} blocks of {} bytes", self.block_count, self.block_size))?;
        if self.volume_number.1 > 1 {
            lines.add("number", &format!("{} of {} volumes", self.volume_number.0, self.volume_number.1))?;
        }
        lines.add("tree", &self.tree.to_string())?;
        lines.add("extensions", &self.extensions.join(", "))?;
        lines.add("joliet", &self.joliet_level.map_or(String::new(), |level| format!("level {level}")))?;
        lines.add("enhanced", if self.has_enhanced { "yes" } else { "" })?;
        lines.add_texts(&self.texts)?;
        lines.add_times(&self.times)?;
        for (index, session) in self.sessions.iter().enumerate() {
            let SessionInformation { start, block_count, volume, .. } = session;
            let value = format!("{} at sector {start}, {block_count} blocks, {volume}", index + 1);
            lines.add("session", value.trim_end_matches(", "))?;
        }
        lines.add("reading", &format!("descriptors of the session at sector {}", self.session_start))?;
        lines.add("catalog", &self.boot_catalog.map_or(String::new(), |sector| format!("at sector {sector}")))?;
        for BootInformation { name, size, image } in &self.boot_images {
            let (sector, medium) = (image.sector, image.medium.name());
            let bootable = if image.is_bootable { "" } else { ", not bootable" };
            lines.add("boot", &format!("{name} at sector {sector}, {size} bytes, {medium}{bootable}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for TreeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::RockRidge => "Rock Ridge",
            Self::Joliet => "Joliet",
            Self::Enhanced => "ISO 9660:1999",
            Self::Plain => "ISO 9660",
        })
    }
}

/// Lines of a text.
struct Lines<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Lines<'_, '_> {
    /// Adds a line, unless there is nothing to say. What an image says cannot add others, nor control a terminal.
    fn add(&mut self, key: &str, value: &str) -> fmt::Result {
        if value.is_empty() {
            return Ok(());
        }
        writeln!(self.0, "{key:<12}{}", value.replace(vnode::is_terminal_control, "?"))
    }

    fn add_texts(&mut self, texts: &VolumeTexts) -> fmt::Result {
        self.add("name", &texts.volume)?;
        self.add("set", &texts.volume_set)?;
        self.add("system", &texts.system)?;
        self.add("publisher", &texts.publisher)?;
        self.add("preparer", &texts.preparer)?;
        self.add("application", &texts.application)?;
        self.add("copyright", &texts.copyright_file)?;
        self.add("abstract", &texts.abstract_file)?;
        self.add("bibliography", &texts.bibliographic_file)
    }

    fn add_times(&mut self, times: &VolumeTimes) -> fmt::Result {
        for (key, time) in [
            ("created", times.created),
            ("modified", times.modified),
            ("expires", times.expires),
            ("effective", times.effective),
        ] {
            self.add(key, &time.map_or(String::new(), date_and_time))?;
        }
        Ok(())
    }
}

fn date_and_time(time: Timestamp) -> String {
    let Date { year, month, day } = Date::from_days(time.seconds.div_euclid(86_400));
    let second = time.seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_greenwich() {
        let at = |seconds| date_and_time(Timestamp { seconds, nanoseconds: 0 });
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
    }
}
