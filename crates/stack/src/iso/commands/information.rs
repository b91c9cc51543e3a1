//! `plyfs iso info`: what is known of an image.

use bases::iso::{BootInformation, Information, SessionInformation, VolumeTimes};
use clap::Args;
use layers::command::{CommandHost, Outcome};
use layers::printable::json_text;
use serde_json::{Value, json};
use vnode::Timestamp;

use super::image::ImageArguments;

/// Arguments of the command.
#[derive(Args, Debug)]
pub(crate) struct InformationArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &InformationArguments, host: &dyn CommandHost) -> Outcome {
    let file_system = arguments.image.open()?;
    let information = file_system.information();
    host.print(&if arguments.json { json_text(&in_json(information)) } else { information.to_string() })
}

/// Returns all that is known as JSON. Times are seconds since 1970, and `null` where the image has none.
fn in_json(information: &Information) -> Value {
    let Information { texts, times, volume_number, .. } = information;
    json!({
        "image": information.name,
        "size": information.size,
        "sector_size": information.sector_size,
        "tree": information.tree.to_string(),
        "extensions": information.extensions,
        "joliet_level": information.joliet_level,
        "enhanced": information.has_enhanced,
        "block_size": information.block_size,
        "blocks": information.block_count,
        "volume_number": volume_number.0,
        "volumes": volume_number.1,
        "name": texts.volume,
        "set": texts.volume_set,
        "system": texts.system,
        "publisher": texts.publisher,
        "preparer": texts.preparer,
        "application": texts.application,
        "copyright_file": texts.copyright_file,
        "abstract_file": texts.abstract_file,
        "bibliographic_file": texts.bibliographic_file,
        "times": times_in_json(times),
        "sessions": information.sessions.iter().map(session_in_json).collect::<Vec<_>>(),
        "session_start": information.session_start,
        "boot_catalog": information.boot_catalog,
        "boot_images": information.boot_images.iter().map(boot_image_in_json).collect::<Vec<_>>(),
    })
}

fn times_in_json(times: &VolumeTimes) -> Value {
    let VolumeTimes { created, modified, expires, effective } = *times;
    json!({
        "created": seconds(created),
        "modified": seconds(modified),
        "expires": seconds(expires),
        "effective": seconds(effective),
    })
}

fn session_in_json(session: &SessionInformation) -> Value {
    let SessionInformation { start, block_count, volume, created } = session;
    json!({ "start": start, "blocks": block_count, "name": volume, "created": seconds(*created) })
}

fn boot_image_in_json(boot: &BootInformation) -> Value {
    let BootInformation { name, size, image } = boot;
    json!({
        "file": name,
        "size": size,
        "platform": image.platform.name(),
        "bootable": image.is_bootable,
        "medium": image.medium.name(),
        "sector": image.sector,
        "load_sectors": image.load_sectors,
    })
}

fn seconds(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.seconds)
}
