//! FiST programs on the search path, as `plyfs layers` lists and describes them.

use std::path::Path;

use fist::load::{self, Loaded};
use fist::program::{MountField, Program, Type};
use stack::printable::escaped;
use stack::search_path::SearchPath;

use super::plain_table;

/// Maximum length of a summary in characters.
const SUMMARY_LENGTH: usize = 100;

/// Returns a line for each program, below a heading; nothing if there are none.
pub(crate) fn list(search_path: &SearchPath) -> String {
    let mut table = plain_table();
    for program in search_path.programs() {
        let summary = load::text(&program.path).map_or_else(|error| error.to_string(), |text| summary(&text));
        table.add_row([program.name, escaped(&summary)]);
    }
    match table.is_empty() {
        true => String::new(),
        false => format!("\nFiST programs on the search path:\n{}\n", table.trim_fmt()),
    }
}

/// Returns what a program does, how it is written in a stack, a line for each of its own options, and its file.
pub(crate) fn describe(name: &str, path: &Path) -> Result<String, load::Failure> {
    let Loaded { text, program, .. } = load::load(path)?;
    let (fields, lower) = match &program {
        Some(program) => (mount_options(program), lower(program)),
        None => (Vec::new(), "BASE".to_owned()),
    };
    let options = if fields.is_empty() { "" } else { "(OPTION=VALUE, ...)" };
    let mut description = format!("{name}: {}\n\n  {lower} | {name}{options}\n", escaped(&summary(&text)));
    let mut table = plain_table();
    for [option, form] in fields {
        table.add_row([option, form]);
    }
    if !table.is_empty() {
        description.push_str(&format!("\n{}\n", table.trim_fmt()));
    }
    let file = escaped(&path.display().to_string());
    let quoted = shlex::try_quote(&file).unwrap_or_default();
    description.push_str(&format!("\n  plyfs fist explain {quoted}\n"));
    Ok(description)
}

/// Returns the file systems that a program is stacked on, as in a stack expression.
fn lower(program: &Program) -> String {
    let bases: Vec<String> = match program.topmost().fan_out {
        0 | 1 => vec!["BASE".to_owned()],
        several => (1..=several).map(|number| format!("BASE{number}")).collect(),
    };
    bases.join(", ")
}

/// Returns the mount parameters of a program, each with the form of its value.
fn mount_options(program: &Program) -> Vec<[String; 2]> {
    let level = program.topmost();
    let Some(structure) = level.mount else { return Vec::new() };
    let form = |field: &MountField| match &program.structures[structure].fields[field.field].r#type {
        Type::Integer(_) if field.is_flag => "yes or no".to_owned(),
        Type::Integer(_) => "a number".to_owned(),
        Type::Array(of, length) if program.size(of) == 1 => format!("text of up to {} bytes", length.saturating_sub(1)),
        _ => "numbers with colons between them".to_owned(),
    };
    level.mount_fields.iter().map(|field| [format!("{}=", field.name), form(field)]).collect()
}

/// Returns the first sentence of the comment that a program begins with, up to a colon; empty if there is none.
fn summary(text: &str) -> String {
    let comment = text.trim_start().strip_prefix("/*").and_then(|rest| rest.split_once("*/"));
    let Some((comment, _)) = comment else { return String::new() };
    let words = comment.lines().flat_map(|line| line.trim().trim_start_matches('*').split_whitespace());
    let mut sentence = String::new();
    for word in words {
        if sentence.chars().count() + word.chars().count() >= SUMMARY_LENGTH {
            return sentence + " ...";
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        match word.strip_suffix(['.', ':']) {
            Some(last) => return sentence + last,
            None => sentence.push_str(word),
        }
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_summary_is_the_first_sentence_of_the_first_comment() {
        assert_eq!(summary("/* Hides names (.x) of dots. And more. */\n%%\n"), "Hides names (.x) of dots");
        assert_eq!(summary("/*\n * Keeps versions\n * of files: each time.\n */\n%%\n"), "Keeps versions of files");
        assert_eq!(summary("%%\n/* Not the first. */"), "");
        assert_eq!(summary(&format!("/* {}*/", "word ".repeat(40))).len(), 99 + " ...".len());
    }

    #[test]
    fn programs_are_listed_and_described_with_their_own_options() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("quotafs.fist");
        let text = "/* Limits files. */\nmntdata { unsigned limit; char name[9]; };\nmntflag strict { int strict; };\nfanout 2;\n%%\n";
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let search_path = SearchPath::new([directory.path().to_owned()]);
        let listed = list(&search_path);
        let rows: Vec<Vec<&str>> = listed.lines().skip(2).map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows, [["quotafs", "Limits", "files"]], "{listed}");
        let description = describe("quotafs", &path).unwrap();
        assert!(
            description.starts_with("quotafs: Limits files\n\n  BASE1, BASE2 | quotafs(OPTION=VALUE, ...)\n"),
            "{description}"
        );
        assert!(description.contains("limit=") && description.contains("a number"), "{description}");
        assert!(description.contains("text of up to 8 bytes"), "{description}");
        assert!(description.ends_with(&format!("\n  plyfs fist explain {}\n", path.display())), "{description}");
        assert_eq!(list(&SearchPath::new([directory.path().join("none")])), "");
    }
}
