//! The man pages that are not of one command or member: stack expressions, all layers, and `plyfs-tools`.

use clap_mangen::roff::{Roff, bold, italic, roman};

use plyfs_cli::Registry;

use super::{page, pages};

/// The grammar, as in the documentation of stack expressions.
const GRAMMAR: &str = r#"stack   := source { "|" layer }
source  := branch { "," branch }
branch  := base [ "=" rw|ro|nc ] | "(" stack ")" [ "=" rw|ro|nc ]
base    := ( PATH | kind ":" location ) [ options ]
layer   := ( name | PATH ".fist" ) [ options ]
options := "(" key "=" value { "," key "=" value } ")""#;

/// Options of every FiST program, and what they do.
const PROGRAM_OPTIONS: [(&str, &str, &str); 5] = [
    ("errno", "ERROR:ERROR", "show rules the first error below as the second, with + between several"),
    ("tier", "auto|interpreted|compiled", "how functions are executed (default auto)"),
    ("time-limit", "SECONDS", "limit on computing time for an operation, 0.001 to 3600 (default 1)"),
    ("collapse", "yes|no", "join the program with those directly above and below it into one layer (default yes)"),
    ("holes", "yes|no", "for programs that filter data: whether pages of zeros are holes below"),
];

/// Returns plyfs-stack(5).
pub(crate) fn stack_page() -> Roff {
    let mut page = page::begin("plyfs-stack", "5", "expressions that describe stacks of file-system layers");
    page::literal(&mut page, GRAMMAR);
    page::section(
        &mut page,
        "DESCRIPTION",
        &[
            "A stack expression describes a base, or several branches, and the layers on them in one line, from the bottom up, like a \
             shell pipeline. It is the same on the command line, in fstab(5), in programs, and in the output of plyfs-status(1).",
            "White space between words is ignored. A word ends at white space or at one of the characters | , = ( ). To have one of \
             these in a word, enclose the word in double quotes, or put a backslash before the character; \\xNN is a byte in \
             hexadecimal. In fstab(5), a space is written \\040, or left out.",
        ],
    );
    page::section(
        &mut page,
        "BASES AND BRANCHES",
        &[
            "A base is the path of a directory, of a file or of a block device, or a kind and a location, with a colon between them. \
             The contents of a file or device determine the kind of a path. plyfs-bases(1) lists the kinds.",
            "Several branches, the one of highest priority first, need a first layer that joins them. A mode follows each: rw for a branch that is read and written, ro for one that is only read, nc for one in which existing objects are \
             changed but none are created. A branch can be a stack of its own, in parentheses.",
        ],
    );
    page::section(
        &mut page,
        "LAYERS",
        &[
            "A layer is a name, or the path of a FiST program, which ends in .fist, with options in parentheses. plyfs-layers(7) \
             describes the layers.",
            "A name that is not that of a layer is looked up as a FiST program: NAME.fist, or NAMEfs.fist, in the first directory of \
             the search path that has one. The working directory is never searched. A file counts only if it belongs to root or the \
             caller, as the directories on its path do, and if others can write neither it nor its directory.",
        ],
    );
    add_search_path(&mut page);
    page::examples(&mut page, &pages::of("plyfs-stack(5)").examples);
    page::see_also(
        &mut page,
        &["plyfs(1)", "plyfs-mount(1)", "plyfs-explain(1)", "plyfs-layers(7)", "mount.plyfs(8)", "fstab(5)"]
            .map(str::to_owned),
    );
    page
}

/// Adds the environment and the files of the search path for FiST programs.
fn add_search_path(page: &mut Roff) {
    page::heading(page, "ENVIRONMENT");
    page::definition(
        page,
        [bold("PLYFS_PATH")],
        "absolute directories in which FiST programs are found first, separated by colons",
    );
    page::definition(
        page,
        [bold("XDG_DATA_HOME")],
        "the directory whose subdirectory plyfs is searched next (default ~/.local/share)",
    );
    page.control("PP", []);
    page.text([roman("Both are ignored in a set-id process.")]);
    page::heading(page, "FILES");
    page::definition(
        page,
        [italic("/usr/local/share/plyfs/samples"), roman(", "), italic("/usr/share/plyfs/samples")],
        "directories that are searched last: the samples that are installed with Plyfs",
    );
}

/// Returns plyfs-layers(7).
pub(crate) fn layers_page(registry: &Registry) -> Roff {
    let mut page = page::begin("plyfs-layers", "7", "layers of which stacks consist, and the bases that they are on");
    page.text([italic("BASE"), roman(" | "), bold("LAYER"), roman("(OPTION=VALUE, ...) | ...")]);
    page::section(
        &mut page,
        "DESCRIPTION",
        &[
            "A layer is a file system on another one, or on several. plyfs-stack(5) describes how layers are written in a stack, and a \
           page for each describes its options: plyfs-layer-NAME(7), or plyfs layers NAME.",
        ],
    );
    page::heading(&mut page, "LAYERS");
    for kind in registry.layers() {
        page::definition(&mut page, [bold(kind.name)], kind.summary);
    }
    page::heading(&mut page, "BASES");
    for kind in registry.bases() {
        let synopsis = kind.synopsis();
        page::definition(&mut page, [bold(format!("{}:", kind.name)), italic(synopsis.location)], kind.summary);
    }
    page::section(
        &mut page,
        "FIST PROGRAMS",
        &[
            "A program in the language FiST is a layer, too, by its path, or by its name if it is on the search path. plyfs layers \
           lists the programs on the search path, and plyfs layers NAME shows the options that one declares. Every program has these:",
        ],
    );
    for (key, value, meaning) in PROGRAM_OPTIONS {
        page::definition(&mut page, page::option(key, value), meaning);
    }
    page::examples(&mut page, &pages::of("plyfs-layers(7)").examples);
    let mut pages = ["plyfs(1)", "plyfs-layers(1)", "plyfs-fist(1)", "plyfs-stack(5)"].map(str::to_owned).to_vec();
    pages.extend(registry.layers().iter().map(|kind| format!("plyfs-layer-{}(7)", kind.name)));
    pages.extend(registry.bases().iter().map(|kind| format!("plyfs-base-{}(7)", kind.name)));
    page::see_also(&mut page, &pages);
    page
}

/// Returns plyfs-tools(1).
pub(crate) fn tools_page() -> Roff {
    let mut page = page::begin("plyfs-tools", "1", "the parts of plyfs that no mount needs");
    for words in ["completions SHELL", "man DIR", "lsp"] {
        page.text([bold("plyfs-tools "), roman(words)]);
        page.control("br", []);
    }
    page::section(
        &mut page,
        "DESCRIPTION",
        &[
            "plyfs executes this program for plyfs-completions(1), plyfs-man(1) and plyfs-fist-lsp(1), so that the servers of mounts \
             do not contain what only these need. The completion scripts of the shells execute it for each completion of a command \
             line, and tell it so by PLYFS_COMPLETE in its environment.",
            "plyfs looks for it in its own directory, then in the absolute directories of PATH.",
        ],
    );
    page::examples(&mut page, &pages::of("plyfs-tools(1)").examples);
    let pages = ["plyfs(1)", "plyfs-completions(1)", "plyfs-man(1)", "plyfs-fist-lsp(1)"].map(str::to_owned);
    page::see_also(&mut page, &pages);
    page
}
