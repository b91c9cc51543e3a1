//! The man pages of layers and kinds of bases, from what each specifies.

use clap_mangen::roff::{Roff, bold, italic, roman};

use plyfs_cli::command::MemberCommand;
use plyfs_cli::{BaseKind, Kind, OptionSpecification};

use super::{page, pages};

/// Returns the man page of a layer: what it does, its options and its control commands, as the layer specifies them.
pub(crate) fn layer_page(kind: &Kind) -> Roff {
    let synopsis = kind.synopsis();
    let name = format!("plyfs-layer-{}", kind.name);
    let mut page = page::begin(&name, "7", kind.summary);
    page.text([roman(format!("{} | ", synopsis.lower)), bold(synopsis.name), roman(synopsis.options)]);
    add_options(&mut page, kind.options);
    if !kind.controls.is_empty() {
        page::heading(&mut page, "CONTROL COMMANDS");
        page.text([bold("plyfs control"), italic(" MOUNTPOINT "), bold(kind.name), italic(" COMMAND")]);
    }
    for control in kind.controls {
        page::definition(&mut page, [bold(control.to_string())], control.summary);
    }
    page::examples(&mut page, &pages::of(&format!("{name}(7)")).examples);
    add_related(&mut page, "plyfs-layers(7)", kind.commands);
    page
}

/// Returns the man page of a kind of base: what it is, which contents it recognises, and its options.
pub(crate) fn base_page(kind: &BaseKind) -> Roff {
    let synopsis = kind.synopsis();
    let name = format!("plyfs-base-{}", kind.name);
    let mut page = page::begin(&name, "7", kind.summary);
    page.text([bold(format!("{}:", synopsis.name)), italic(synopsis.location), roman(synopsis.options)]);
    if let Some(sentence) = kind.recognition() {
        page::section(&mut page, "DESCRIPTION", &[sentence.as_str()]);
    }
    add_options(&mut page, kind.options);
    page::examples(&mut page, &pages::of(&format!("{name}(7)")).examples);
    add_related(&mut page, "plyfs-bases(1)", kind.commands);
    page
}

fn add_options(page: &mut Roff, options: &[OptionSpecification]) {
    if !options.is_empty() {
        page::heading(page, "OPTIONS");
    }
    for option in options {
        page::definition(page, page::option(option.key, option.value), option.summary);
    }
}

/// Adds references to the pages of the command, of stacks, of all kinds, and of the kind's own commands.
fn add_related(page: &mut Roff, all: &str, commands: &[MemberCommand]) {
    let mut pages = vec!["plyfs(1)".to_owned(), "plyfs-stack(5)".to_owned(), all.to_owned()];
    pages.extend(commands.iter().map(|command| format!("plyfs-{}(1)", command.name)));
    page::see_also(page, &pages);
}
