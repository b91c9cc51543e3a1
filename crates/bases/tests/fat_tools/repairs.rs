//! Checks and repairs of images, and what is expected of them.

use plyfs_bases::device::DeviceRef;
use plyfs_bases::fat::tools::fsck::{
    FsckMode, FsckOptions, FsckReport, LostChains, Question, Repair, RepairChoice, fsck,
};

use crate::external;
use crate::image::Image;

/// Checks a device without a change.
pub(crate) fn check(device: DeviceRef) -> FsckReport {
    fsck(device, &FsckOptions::default(), &mut |_| panic!("a check asks nothing"), &mut |_| ()).unwrap()
}

/// Repairs what needs no answer and loses nothing.
pub(crate) fn preen(device: DeviceRef) -> FsckReport {
    let options = FsckOptions { mode: FsckMode::Preen, ..FsckOptions::default() };
    fsck(device, &options, &mut |_| panic!("preening asks nothing"), &mut |_| ()).unwrap()
}

/// Repairs everything with these answers.
pub(crate) fn repair_with(device: DeviceRef, answer: &mut dyn FnMut(&Question) -> RepairChoice) -> FsckReport {
    let options = FsckOptions { mode: FsckMode::Repair, ..FsckOptions::default() };
    fsck(device, &options, answer, &mut |_| ()).unwrap()
}

/// Repairs everything with the suggested answers.
pub(crate) fn repair(device: DeviceRef) -> FsckReport {
    repair_with(device, &mut |question| question.suggested)
}

/// Repairs everything, and frees lost clusters.
pub(crate) fn repair_freeing(device: DeviceRef) -> FsckReport {
    let options = FsckOptions { mode: FsckMode::Repair, lost: LostChains::Free, ..FsckOptions::default() };
    fsck(device, &options, &mut |question| question.suggested, &mut |_| ()).unwrap()
}

/// Returns the codes of a report.
pub(crate) fn codes(report: &FsckReport) -> Vec<&'static str> {
    report.counts.keys().copied().collect()
}

/// Asserts that an image has exactly these problems, that a repair leaves none, and that others find none either.
pub(crate) fn assert_repaired(image: &Image, expected: &[&str]) -> FsckReport {
    let context = format!("{:?} on {}", expected, image.width());
    let before = image.device.contents();
    let found = check(image.device());
    assert_eq!(codes(&found), expected, "{context}:\n{found}");
    assert!(found.findings.iter().all(|finding| finding.repair == Repair::Possible), "{context}:\n{found}");
    assert!(image.device.contents() == before, "{context}: the check has changed something");
    assert_eq!(found.exit_code(), 4);
    let repaired = repair(image.device());
    assert_eq!((codes(&repaired), repaired.unrepaired()), (expected.to_vec(), 0), "{context}:\n{repaired}");
    assert_eq!(repaired.exit_code(), 1);
    assert_sound(image, &context);
    repaired
}

/// Asserts that nobody finds a problem.
pub(crate) fn assert_sound(image: &Image, context: &str) {
    let after = check(image.device());
    assert_eq!((after.found(), after.exit_code()), (0, 0), "{context}: after the repair\n{after}");
    external::assert_clean(image, context);
}
