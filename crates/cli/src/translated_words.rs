//! Command lines of other file systems' mount commands, in the words of the helper of mount(8).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use stack::command::MountTranslator;

/// Long options of the helper itself.
const OWN: [&[u8]; 3] = [b"--help", b"--version", b"--foreground"];

/// Returns the command line with the options that the other file system takes as words of their own, `--key=value` and letters,
/// as options after `-o`. Called by its own name, `plyfs-NAME`, rather than by mount(8), the command takes the letters of FUSE
/// programs: `-f` and `-d` stay in the foreground, `-s` has no effect.
pub(crate) fn helper_words(words: &[OsString], translator: &MountTranslator) -> Vec<OsString> {
    let name = words.first().and_then(|word| Path::new(word).file_name()).unwrap_or_default();
    let is_called_by_mount = !name.as_bytes().starts_with(b"plyfs-");
    let mut translated: Vec<OsString> = words.iter().take(1).cloned().collect();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        let bytes = word.as_bytes();
        let letter = bytes.get(1).filter(|_| bytes[0] == b'-').copied().map(char::from);
        let valued = translator.letters.iter().find(|(known, _)| Some(*known) == letter).map(|(_, key)| *key);
        match (letter, valued) {
            (Some('-'), _) if bytes.len() == 2 => {
                translated.push(word.clone());
                translated.extend(rest.by_ref().cloned());
            }
            (Some('-'), _) if !OWN.contains(&bytes) => push_option(&mut translated, &bytes[2..]),
            (_, Some(key)) => {
                let value =
                    if bytes.len() > 2 { Some(OsStr::from_bytes(&bytes[2..])) } else { rest.next().map(AsRef::as_ref) };
                let value = value.map(|value: &OsStr| [b"=".as_slice(), value.as_bytes()].concat()).unwrap_or_default();
                push_option(&mut translated, &[key.as_bytes(), &value].concat());
            }
            (Some('o' | 't'), _) if bytes.len() == 2 => {
                translated.push(word.clone());
                translated.extend(rest.next().cloned());
            }
            (Some(letter), _) if bytes.len() == 2 && !is_called_by_mount => {
                match translator.switches.iter().find(|(known, _)| *known == letter) {
                    Some((_, key)) => push_option(&mut translated, key.as_bytes()),
                    None if letter == 'f' || letter == 'd' => translated.push("--foreground".into()),
                    None if letter == 's' => {}
                    None => translated.push(word.clone()),
                }
            }
            _ => translated.push(word.clone()),
        }
    }
    translated
}

/// Appends one option, with what separates options protected.
fn push_option(words: &mut Vec<OsString>, option: &[u8]) {
    let escaped = option.iter().flat_map(|byte| {
        let escape = b"\\,\"".contains(byte).then_some(b'\\');
        escape.into_iter().chain([*byte])
    });
    words.extend([OsString::from("-o"), OsString::from_vec(escaped.collect())]);
}

#[cfg(test)]
mod tests {
    use stack::command::TranslatedMount;

    use super::*;

    const TRANSLATOR: MountTranslator = MountTranslator {
        name: "other",
        letters: &[('u', "user"), ('p', "perms")],
        switches: &[('n', "closed")],
        translate: |_, _| Ok(TranslatedMount::default()),
    };

    fn translated(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let translated = helper_words(&words, &TRANSLATOR);
        translated.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_of_their_own_become_options_of_mount() {
        for (line, expected) in [
            ("plyfs-other a b -o ro,x=-u", "plyfs-other a b -o ro,x=-u"),
            ("plyfs-other -u alice --perms=u=r,g=w a b", "plyfs-other -o user=alice -o perms=u=r\\,g=w a b"),
            ("plyfs-other -ualice -n -f -s a b", "plyfs-other -o user=alice -o closed --foreground a b"),
            ("plyfs-other -o -n --version", "plyfs-other -o -n --version"),
            ("plyfs-other -u", "plyfs-other -o user"),
            ("plyfs-other -- --a -u", "plyfs-other -- --a -u"),
            ("mount.other a b -n -f -s -t other", "mount.other a b -n -f -s -t other"),
        ] {
            assert_eq!(translated(line), expected, "{line}");
        }
    }
}
