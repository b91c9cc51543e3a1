//! `plyfs fat label`: shows and changes the label and the serial number.

use bases::device::Access;
use bases::fat::format::Label;
use bases::fat::tools::{ToolError, set_label, set_serial, show_label};
use clap::Args;
use layers::command::{CommandHost, Exit, Failure, Outcome};
use layers::printable::json_text;

use super::failure;
use super::image::{Contents, ImageArguments};
use super::values::{NameArguments, TimeArguments, current_time, serial};

/// Arguments of label.
#[derive(Args, Debug)]
pub(crate) struct LabelArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// New label of up to 11 characters. Without it, and without options, label and serial number are shown
    #[arg(value_name = "LABEL")]
    label: Option<String>,
    /// Remove the label
    #[arg(short = 'r', long, conflicts_with = "label")]
    remove: bool,
    /// New serial number, in hexadecimal: 1234-ABCD
    #[arg(short = 'i', long, value_name = "NUMBER", value_parser = serial)]
    serial: Option<u32>,
    /// Print label and serial number as JSON, also after a change
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: NameArguments,
    #[command(flatten)]
    times: TimeArguments,
}

/// Changes what is requested, or else shows the label and the serial number.
pub(crate) fn run(arguments: &LabelArguments, host: &dyn CommandHost) -> Outcome {
    let label = arguments.label.as_deref().map(|text| encode(text, arguments)).transpose()?;
    let changes_label = label.is_some() || arguments.remove;
    let changes = changes_label || arguments.serial.is_some();
    let access = if changes { Access::Write } else { Access::Examine };
    let image = arguments.image.open(access, Contents::FileSystem)?;
    let change = |result: Result<(), ToolError>| {
        result.map_err(|error| failure::of_tool("change the label or serial number of", &image.name, &error))
    };
    if let Some(number) = arguments.serial {
        change(set_serial(image.device.clone(), number))?;
    }
    if changes_label {
        change(set_label(image.device.clone(), label, current_time(), arguments.times.offset_minutes()))?;
    }
    if changes && !arguments.json {
        return Ok(());
    }
    let report = show_label(image.device.clone(), arguments.names.codepage)
        .map_err(|error| failure::of_tool("show the label of", &image.name, &error))?;
    host.print(&if arguments.json { json_text(&report.to_json()) } else { report.to_string() })
}

fn encode(text: &str, arguments: &LabelArguments) -> Outcome<Label> {
    Label::encode(text, arguments.names.codepage).map_err(|error| {
        let remedy = if text.trim().is_empty() { "to remove the label: --remove" } else { "choose another" };
        Failure::new(Exit::Failure, format!("'{text}' cannot be the label: {error}; {remedy}"))
    })
}
