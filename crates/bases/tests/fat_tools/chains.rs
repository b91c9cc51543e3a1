//! Chains of clusters that are damaged.

use plyfs_bases::fat::format::Link;

use crate::image::{WIDTHS, pattern};
use crate::repairs::{assert_repaired, assert_sound, check, codes, preen, repair_freeing, repair_with};
use crate::sample::Sample;

use plyfs_bases::fat::tools::fsck::RepairChoice;

#[test]
fn a_loop_is_cut() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let (first, last) = (sample.clusters[2], *sample.clusters.last().unwrap());
        sample.image.set_link(last, Link::Next(first));
        assert_repaired(&sample.image, &["chain-loop"]);
        assert_eq!(sample.image.tree()["/A.TXT"], pattern(1, 3000));

        // One that begins before the end of the file.
        let sample = Sample::new(width);
        sample.image.set_link(sample.clusters[2], Link::Next(sample.clusters[0]));
        let report = assert_repaired(&sample.image, &["chain-loop", "lost-chain", "size-beyond-chain"]);
        assert_eq!(report.files, 5);
        let tree = sample.image.tree();
        assert_eq!(tree["/A.TXT"], pattern(1, 3000)[..1536]);
        assert_eq!(tree["/FSCK0000.REC"][..1464], pattern(1, 3000)[1536..]);

        // A directory.
        let sample = Sample::new(width);
        sample.image.set_link(sample.inner, Link::Next(sample.inner));
        assert_repaired(&sample.image, &["chain-loop"]);
    }
}

#[test]
fn a_loop_stays_if_the_answer_is_so() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.set_link(sample.clusters[5], Link::Next(sample.clusters[2]));
        let before = sample.image.device.contents();
        let mut asked = Vec::new();
        let report = repair_with(sample.image.device(), &mut |question| {
            asked.push((question.path.clone(), question.problem.code()));
            RepairChoice::Leave
        });
        assert_eq!(asked, [("/A.TXT".to_owned(), "chain-loop")]);
        let json = report.to_json();
        assert_eq!(
            (&json["findings"][0]["code"], &json["findings"][0]["result"]),
            (&"chain-loop".into(), &"left".into())
        );
        assert_eq!(json["findings"][0]["clusters"][0]["first"], sample.clusters[5]);
        assert!(report.to_string().starts_with("/A.TXT has a chain that leads back to its cluster "), "{report}");
        assert_eq!((report.unrepaired(), report.exit_code()), (1, 4));
        let preened = preen(sample.image.device());
        assert_eq!((codes(&preened), preened.unrepaired()), (vec!["chain-loop"], 1));
        assert!(sample.image.device.contents() == before);
    }
}

/// Returns a link for a sample.
type LinkOf = fn(&Sample) -> Link;

#[test]
fn links_to_nowhere_are_cut() {
    for width in WIDTHS {
        let cases: [(&str, LinkOf); 3] = [
            ("link-missing", |sample| Link::Next(sample.image.geometry.cluster_numbers().end)),
            ("link-free", |sample| Link::Next(sample.image.geometry.cluster_numbers().end - 1)),
            ("link-bad", |sample| {
                let bad = sample.image.geometry.cluster_numbers().end - 2;
                sample.image.set_link(bad, Link::Bad);
                Link::Next(bad)
            }),
        ];
        for (code, link) in cases {
            // After the last cluster that the file needs.
            let sample = Sample::new(width);
            let link_at_end = link(&sample);
            crate::boot::correct_free_count(&sample.image);
            sample.image.set_link(sample.clusters[5], link_at_end);
            assert_repaired(&sample.image, &[code]);
            assert_eq!(sample.image.tree()["/A.TXT"], pattern(1, 3000));

            // Before it.
            let sample = Sample::new(width);
            let link_inside = link(&sample);
            crate::boot::correct_free_count(&sample.image);
            sample.image.set_link(sample.clusters[3], link_inside);
            assert_repaired(&sample.image, &[code, "lost-chain", "size-beyond-chain"]);
            assert_eq!(sample.image.tree()["/A.TXT"], pattern(1, 3000)[..2048]);
        }
        let sample = Sample::new(width);
        sample.image.set_link(sample.clusters[5], Link::Next(1));
        assert_repaired(&sample.image, &["link-missing"]);
    }
}

#[test]
fn a_first_cluster_that_cannot_be_one_is_removed() {
    for width in WIDTHS {
        let missing = |sample: &Sample| sample.image.geometry.cluster_numbers().end;
        let free = |sample: &Sample| sample.image.geometry.cluster_numbers().end - 1;
        let cases: [fn(&Sample) -> u32; 3] = [missing, free, |_| 1];
        for start in cases {
            let sample = Sample::new(width);
            let start = start(&sample);
            sample.image.edit(sample.file, |entry| entry.set_first_cluster(width, start));
            assert_repaired(&sample.image, &["lost-chain", "start-invalid"]);
            assert!(sample.image.tree()["/A.TXT"].is_empty());

            let sample = Sample::new(width);
            sample.image.edit(sample.inner_entry, |entry| entry.set_first_cluster(width, start));
            assert_repaired(&sample.image, &["lost-directory", "start-invalid"]);
            let tree = sample.image.tree();
            assert_eq!(tree["/FSCK0000.DIR/C.DAT"], pattern(4, 700));
            assert!(!tree.contains_key("/DIR/sub directory"));
        }
    }
}

#[test]
fn entries_without_clusters_are_empty() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.edit(sample.file, |entry| entry.set_first_cluster(width, 0));
        assert_repaired(&sample.image, &["lost-chain", "size-without-chain"]);

        let sample = Sample::new(width);
        sample.image.edit(sample.inner_entry, |entry| entry.set_first_cluster(width, 0));
        assert_repaired(&sample.image, &["directory-without-cluster", "lost-directory"]);
    }
}

#[test]
fn size_and_chain_are_made_to_agree() {
    for width in WIDTHS {
        // The chain of 6 clusters is too long.
        let sample = Sample::new(width);
        sample.image.edit(sample.file, |entry| entry.size = 1024);
        assert_repaired(&sample.image, &["chain-beyond-size"]);
        assert_eq!(sample.image.tree()["/A.TXT"], pattern(1, 3000)[..1024]);
        assert_eq!(sample.image.link(sample.clusters[2]), Link::Free);
        assert_eq!(sample.image.link(sample.clusters[1]), Link::End);

        let sample = Sample::new(width);
        sample.image.edit(sample.file, |entry| entry.size = 0);
        assert_repaired(&sample.image, &["chain-beyond-size"]);
        assert_eq!(sample.image.entry(sample.file).first_cluster(width), 0);
        assert_eq!(sample.image.link(sample.clusters[0]), Link::Free);

        // It is too short.
        for size in [3073, u32::MAX] {
            let sample = Sample::new(width);
            sample.image.edit(sample.file, |entry| entry.size = size);
            assert_repaired(&sample.image, &["size-beyond-chain"]);
            assert_eq!(sample.image.entry(sample.file).size, 3072);
        }
    }
}

#[test]
fn preening_repairs_what_loses_nothing() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.edit(sample.file, |entry| entry.size = 1024);
        sample.image.edit(sample.directory_entry, |entry| entry.size = 5);
        let lost = sample.image.copy().free(3);
        sample.image.link_all(&lost);
        crate::boot::correct_free_count(&sample.image);
        let report = preen(sample.image.device());
        assert_eq!(codes(&report), ["chain-beyond-size", "directory-size", "lost-chain"]);
        assert_eq!(report.unrepaired(), 0, "{report}");
        assert_sound(&sample.image, "after preening");
    }
}

#[test]
fn the_root_directory_is_taken_into_use() {
    let sample = Sample::new(plyfs_bases::fat::format::FatWidth::Fat32);
    let image = &sample.image;
    let root = image.geometry.root_cluster().unwrap();
    assert_eq!(image.chain(root).len(), 1);
    image.set_link(root, Link::Free);
    crate::boot::correct_free_count(image);
    assert_repaired(image, &["root-start"]);
    image.set_link(root, Link::Bad);
    assert_repaired(image, &["root-start"]);
    image.set_link(root, Link::Next(root));
    assert_repaired(image, &["chain-loop"]);
    assert_eq!(image.tree().len(), 6);
}

#[test]
fn freed_chains_leave_nothing() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        sample.image.edit(sample.inner_entry, |entry| entry.set_first_cluster(width, 0));
        let report = repair_freeing(sample.image.device());
        assert_eq!(codes(&report), ["directory-without-cluster", "lost-chain"]);
        assert_sound(&sample.image, "after freeing");
        assert_eq!(sample.image.link(sample.inner), Link::Free);
        assert_eq!(check(sample.image.device()).files, 3);
    }
}
