//! The stack that an overlay stands for.

use std::ffi::{OsStr, OsString};

use crate::kinds::DIRECTORY;
use crate::syntax::{Argument, Base, Branch, BranchTree, Layer, LayerName, Mode, Span, Spanned, Stack};

use super::options::OverlayOptions;

/// Returns the union of the directories, in overlayfs's format, and the mapping of owners on it.
pub(crate) fn of(overlay: &OverlayOptions) -> Stack {
    let upper = overlay.upper.iter().map(|(upper, work)| {
        let volatile = overlay.volatile.then(|| argument("volatile", "yes"));
        branch(upper, std::iter::once(argument("workdir", work)).chain(volatile).collect(), Mode::ReadWrite)
    });
    let lower = overlay.lower.iter().map(|path| branch(path, Vec::new(), Mode::ReadOnly));
    let mut union = vec![argument("whiteouts", "overlay")];
    if overlay.metadata_only {
        union.push(argument("metacopy", "on"));
    }
    let ids = ids(overlay);
    let map = (!ids.is_empty()).then(|| layer("map", ids));
    let layers = std::iter::once(layer("union", union)).chain(map).collect();
    Stack { source: upper.chain(lower).collect(), layers }
}

/// Returns the options of `map`. One owner for everything takes precedence over ranges.
fn ids(overlay: &OverlayOptions) -> Vec<Argument> {
    let mut arguments = Vec::new();
    let kinds = [
        (overlay.owner, &overlay.users, ["owner", "user-map"]),
        (overlay.group, &overlay.groups, ["group", "group-map"]),
    ];
    for (fixed, ranges, [of_all, of_ranges]) in kinds {
        let ranges = ranges.iter().map(|[below, above, count]| format!("{below}/{above}/{count}"));
        match fixed {
            Some(id) => arguments.push(argument(of_all, id.to_string())),
            None if ranges.len() > 0 => {
                arguments.push(argument(of_ranges, ranges.collect::<Vec<_>>().join(":")));
            }
            None => {}
        }
    }
    arguments
}

fn branch(path: &OsStr, arguments: Vec<Argument>, mode: Mode) -> Spanned<Branch> {
    let base = Base { kind: Some(spanned(DIRECTORY.to_owned())), location: spanned(path.to_owned()), arguments };
    spanned(Branch { tree: BranchTree::Base(base), mode: Some(spanned(mode)), options: Vec::new() })
}

fn layer(name: &str, arguments: Vec<Argument>) -> Spanned<Layer> {
    spanned(Layer { name: spanned(LayerName::Name(name.to_owned())), arguments })
}

fn argument(key: &str, value: impl Into<OsString>) -> Argument {
    Argument { key: spanned(key.to_owned()), value: spanned(value.into()) }
}

fn spanned<T>(value: T) -> Spanned<T> {
    Spanned::new(value, Span::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(list: &str) -> String {
        of(&OverlayOptions::parse(list.as_bytes()).unwrap().0).to_string()
    }

    #[test]
    fn directories_become_branches_in_order() {
        assert_eq!(
            expression("lowerdir=/a:/b c,upperdir=/u,workdir=/w,metacopy=on"),
            r#"dir:/u(workdir=/w)=rw, dir:/a=ro, dir:"/b c"=ro | union(whiteouts=overlay, metacopy=on)"#
        );
    }

    #[test]
    fn what_is_volatile_is_the_upper_directory() {
        for list in ["lowerdir=/a,upperdir=/u,workdir=/w,volatile", "lowerdir=/a,upperdir=/u,workdir=/w,fsync=0"] {
            let expected = "dir:/u(workdir=/w, volatile=yes)=rw, dir:/a=ro | union(whiteouts=overlay)";
            assert_eq!(expression(list), expected);
        }
    }

    #[test]
    fn owners_are_mapped_above_the_union() {
        assert_eq!(
            expression("lowerdir=/a,uidmapping=0:1000:1:1:100000:65536,squash_to_gid=5"),
            "dir:/a=ro | union(whiteouts=overlay) | map(user-map=0/1000/1:1/100000/65536, group=5)"
        );
    }
}
