//! Describes what a built stack consists of and what its members declare.

use vnode::{AccessControl, Description, FileSystem, Properties};

/// Returns the members of a stack, base first, with what each declares, and what the stack declares as a whole.
pub fn explain(file_system: &dyn FileSystem) -> String {
    let members = file_system.describe();
    let mut text = String::from("Stack, base first:\n");
    for member in &members {
        text.push_str(&format!("  {}\n", title(member)));
        for line in declarations(&member.properties, members.first() == Some(member)) {
            text.push_str(&format!("      {line}\n"));
        }
    }
    text.push_str("Together:\n");
    for line in declarations(&file_system.properties(), true) {
        text.push_str(&format!("      {line}\n"));
    }
    text
}

fn title(member: &Description) -> String {
    match member.details.as_str() {
        "" => member.kind.clone(),
        details => format!("{} {details}", member.kind),
    }
}

/// Returns the declarations as sentences. Omits for a layer what it leaves as it is below.
fn declarations(Properties { promises, needs }: &Properties, whole: bool) -> Vec<String> {
    let touched = [
        (promises.data_untouched, "data"),
        (promises.names_untouched, "names"),
        (promises.attributes_untouched, "attributes"),
    ];
    let named = |wanted: bool| touched.iter().filter(move |(untouched, _)| *untouched == wanted).map(|(_, name)| *name);
    let mut lines = Vec::new();
    if named(true).next().is_some() {
        lines.push(format!("leaves untouched: {}", crate::suggest::list(named(true))));
    }
    if named(false).next().is_some() {
        lines.push(format!("changes: {}", crate::suggest::list(named(false))));
    }
    match promises.access_control {
        AccessControl::AsShown if whole => lines.push("admits whom the attributes that it shows admit".to_owned()),
        AccessControl::AsShown => {}
        AccessControl::OpenAsShown => lines.push("sees what is refused, or admits others".to_owned()),
        AccessControl::NotShown => lines.push("does not show whom it admits".to_owned()),
    }
    let sentences = [
        (needs.every_lookup, "has to see every look-up"),
        (needs.failed_lookups, "has to see failed look-ups"),
        (needs.every_data_operation, "has to see every read and write"),
        (needs.every_poll, "has to see every poll"),
        (needs.fresh_attributes, "attributes may change at any time"),
        (!promises.opens_share_data, "one file opened twice may be two files below"),
        (!promises.exact_names, "finds objects by other spellings of their names"),
        (needs.read_only, "read-only"),
        (needs.overlay, "is mounted over its base"),
    ];
    lines.extend(sentences.iter().filter(|(set, _)| *set).map(|(_, sentence)| (*sentence).to_owned()));
    let of_bases = [
        (promises.exclusive, "nothing else can change the objects", "others may change the objects too"),
        (promises.checks_credentials, "checks the caller's credentials itself", "acts as the server's user"),
        (promises.persistent_handles, "handles stay valid over a restart", "handles are lost with the server"),
    ];
    for (set, yes, no) in of_bases {
        match (set, whole) {
            (true, true) => lines.push(yes.to_owned()),
            (true, false) => {}
            (false, _) => lines.push(no.to_owned()),
        }
    }
    lines
}
