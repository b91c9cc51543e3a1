//! Chains that run into others, and the answers about them.

use plyfs_bases::fat::format::{FatWidth, Link};
use plyfs_bases::fat::tools::fsck::{Question, RepairChoice};

use crate::image::{WIDTHS, pattern};
use crate::repairs::{assert_repaired, assert_sound, codes, preen, repair_with};
use crate::sample::Sample;

/// Makes `/DIR/B.BIN` a file of 2,000 bytes that runs into `/A.TXT` after its first cluster.
fn shared(width: FatWidth) -> Sample {
    let sample = Sample::new(width);
    let image = &sample.image;
    let start = image.entry(sample.inner_file).first_cluster(width);
    image.set_link(start, Link::Next(sample.clusters[1]));
    image.edit(sample.inner_file, |entry| entry.size = 2000);
    sample
}

fn b_contents() -> Vec<u8> {
    let mut contents = pattern(3, 512);
    contents.extend(&pattern(1, 3000)[512..2000]);
    contents
}

#[test]
fn shared_clusters_are_copied() {
    for width in WIDTHS {
        let sample = shared(width);
        let report = assert_repaired(&sample.image, &["cross-link"]);
        assert_eq!(report.findings[0].path.as_deref(), Some("/DIR/B.BIN"));
        assert!(report.findings[0].problem.description().contains("/A.TXT"));
        let tree = sample.image.tree();
        assert_eq!((&tree["/A.TXT"], &tree["/DIR/B.BIN"]), (&pattern(1, 3000), &b_contents()));
    }
}

#[test]
fn either_chain_is_cut() {
    for width in WIDTHS {
        let sample = shared(width);
        repair_with(sample.image.device(), &mut |_| RepairChoice::CutThis);
        assert_sound(&sample.image, "cut this");
        let tree = sample.image.tree();
        assert_eq!((&tree["/A.TXT"], &tree["/DIR/B.BIN"]), (&pattern(1, 3000), &pattern(3, 512)));

        let sample = shared(width);
        let mut questions: Vec<Question> = Vec::new();
        repair_with(sample.image.device(), &mut |question| {
            questions.push(question.clone());
            RepairChoice::CutOther
        });
        assert_eq!(questions.len(), 1);
        assert_eq!((questions[0].path.as_str(), questions[0].other.as_deref()), ("/DIR/B.BIN", Some("/A.TXT")));
        assert_sound(&sample.image, "cut other");
        let tree = sample.image.tree();
        assert_eq!(tree["/A.TXT"], pattern(1, 3000)[..512]);
        assert_eq!(tree["/DIR/B.BIN"], b_contents());
    }
}

#[test]
fn chains_stay_as_they_are_without_an_answer() {
    for width in WIDTHS {
        let sample = shared(width);
        // What follows the end of the other file, and must not be freed while it is shared.
        sample.image.edit(sample.file, |entry| entry.size = 1024);
        let before = sample.image.tree();
        let report = preen(sample.image.device());
        assert_eq!(codes(&report), ["chain-beyond-size", "cross-link"]);
        assert_eq!(report.unrepaired(), 2, "{report}");
        assert_eq!(sample.image.tree(), before);
        let report = repair_with(sample.image.device(), &mut |_| RepairChoice::Leave);
        assert_eq!(report.unrepaired(), 2, "{report}");
        assert_eq!(sample.image.tree(), before);
        repair_with(sample.image.device(), &mut |_| RepairChoice::Copy);
        assert_sound(&sample.image, "copied at last");
        assert_eq!(sample.image.tree()["/DIR/B.BIN"], b_contents());
    }
}

#[test]
fn two_entries_of_one_file_become_two_files() {
    for width in WIDTHS {
        let mut sample = Sample::new(width);
        let mut entry = sample.image.entry(sample.file);
        entry.name.0 = *b"SECOND     ";
        let directory = sample.directory;
        sample.image.add_entry(directory, &entry, "");
        assert_repaired(&sample.image, &["cross-link"]);
        let tree = sample.image.tree();
        assert_eq!((&tree["/A.TXT"], &tree["/DIR/SECOND"]), (&pattern(1, 3000), &pattern(1, 3000)));
    }
}

#[test]
fn two_entries_of_one_directory_become_one() {
    for width in WIDTHS {
        // A rename that was interrupted after the entry `..` was written: the later entry is right.
        let mut sample = Sample::new(width);
        let (target, _) = sample.image.add_directory(0, (b"TARGET     ", ""));
        let entry = sample.image.entry(sample.inner_entry);
        sample.image.add_entry(target, &entry, "sub directory");
        let above = sample.image.offset(sample.inner) + 32;
        sample.image.edit(above, |entry| entry.set_first_cluster(width, target));
        crate::boot::correct_free_count(&sample.image);
        let other = sample.image.copy();
        assert_repaired(&sample.image, &["cross-link"]);
        let tree = sample.image.tree();
        assert!(tree.contains_key("/TARGET/sub directory/C.DAT") && !tree.contains_key("/DIR/sub directory"));
        let report = repair_with(other.device(), &mut |question| {
            assert!(!question.answers.contains(&RepairChoice::Copy));
            RepairChoice::CutThis
        });
        assert_eq!(report.unrepaired(), 0, "{report}");
        assert_sound(&other, "earlier directory");
        assert!(other.tree().contains_key("/DIR/sub directory/C.DAT"));

        // Before it was written: the earlier one is right.
        let mut sample = Sample::new(width);
        let (target, _) = sample.image.add_directory(0, (b"TARGET     ", ""));
        let entry = sample.image.entry(sample.inner_entry);
        sample.image.add_entry(target, &entry, "sub directory");
        crate::boot::correct_free_count(&sample.image);
        assert_repaired(&sample.image, &["cross-link"]);
        let tree = sample.image.tree();
        assert!(tree.contains_key("/DIR/sub directory/C.DAT") && !tree.contains_key("/TARGET/sub directory"));

        // One that leads back up.
        let sample = Sample::new(width);
        sample.image.edit(sample.inner_entry, |entry| entry.set_first_cluster(width, sample.directory));
        assert_repaired(&sample.image, &["cross-link", "lost-directory"]);
    }
}

#[test]
fn a_directory_is_not_cut_for_what_is_below() {
    for width in WIDTHS {
        // An entry for the directory that its own is in, and one two levels below for the same one.
        for depth in [1, 2] {
            let mut sample = Sample::new(width);
            let above = if depth == 1 { sample.directory } else { sample.inner };
            let (below, _) = sample.image.add_directory(above, (b"BELOW      ", ""));
            let mut entry = sample.image.entry(sample.directory_entry);
            entry.name.0 = *b"LOOP       ";
            sample.image.add_entry(below, &entry, "");
            crate::boot::correct_free_count(&sample.image);
            let before = sample.image.copy();
            let report = repair_with(sample.image.device(), &mut |question| {
                assert_eq!(question.other.as_deref(), Some("/DIR"));
                *question
                    .answers
                    .iter()
                    .find(|answer| **answer == RepairChoice::CutOther)
                    .unwrap_or(&question.suggested)
            });
            assert_eq!((codes(&report), report.found(), report.unrepaired()), (vec!["cross-link"], 1, 0), "{report}");
            assert_sound(&sample.image, "a directory below itself");
            assert_eq!(sample.image.tree()["/DIR/B.BIN"], pattern(3, 512));
            // The same in a directory without an entry.
            let image = before;
            image.write(sample.directory_entry, &[0xE5]);
            let report = repair_with(image.device(), &mut |question| {
                *question
                    .answers
                    .iter()
                    .find(|answer| **answer == RepairChoice::CutOther)
                    .unwrap_or(&question.suggested)
            });
            assert_eq!((codes(&report), report.unrepaired()), (vec!["cross-link", "lost-directory"], 0), "{report}");
            assert_eq!(report.found(), 2, "{report}");
            assert_sound(&image, "a lost directory below itself");
        }
    }
}

#[test]
fn a_directory_that_runs_into_a_file_is_cut() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.set_link(sample.inner, Link::Next(sample.clusters[3]));
        assert_repaired(&sample.image, &["cross-link"]);
        let tree = sample.image.tree();
        assert_eq!((&tree["/A.TXT"], &tree["/DIR/sub directory/C.DAT"]), (&pattern(1, 3000), &pattern(4, 700)));
    }
}

#[test]
fn many_chains_run_into_one() {
    for width in WIDTHS {
        let mut sample = Sample::new(width);
        let directory = sample.directory;
        let names: Vec<[u8; 11]> = (0..20_u8)
            .map(|index| {
                let mut name = *b"FILE00     ";
                (name[4], name[5]) = (b'0' + index / 10, b'0' + index % 10);
                name
            })
            .collect();
        for (index, name) in names.iter().enumerate() {
            let positions = sample.image.add_file(directory, (name, ""), &pattern(50 + index as u64, 512));
            let position = *positions.last().unwrap();
            let start = sample.image.entry(position).first_cluster(width);
            sample.image.set_link(start, Link::Next(sample.clusters[index % 5]));
            sample.image.edit(position, |entry| entry.size = 1024);
        }
        crate::boot::correct_free_count(&sample.image);
        let report = assert_repaired(&sample.image, &["cross-link"]);
        assert_eq!(report.found(), 20);
        let tree = sample.image.tree();
        assert_eq!(tree["/A.TXT"], pattern(1, 3000));
        for index in 0..20 {
            let name = format!("/DIR/FILE{index:02}");
            assert_eq!(tree[&name][..512], pattern(50 + index as u64, 512));
            assert_eq!(tree[&name][512..], pattern(1, 3000)[index % 5 * 512..][..512]);
        }
    }
}
