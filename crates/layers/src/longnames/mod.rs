//! The layer `longnames`: names are longer below by a suffix, the example of a name layer.

mod options;

use std::borrow::Cow;

use vnode::layer::{self, Layer, LayerVnode};
use vnode::{Caller, Name, Properties, Result, StatFs};

use crate::Kind;
use crate::kind::Build;
pub use options::create;

/// What whoever builds stacks knows of it.
pub const KIND: Kind = Kind {
    name: "longnames",
    summary: "keeps names longer below by a suffix: an example of a name layer",
    options: options::KNOWN,
    build: Build::Over(|pairs, lower| Ok(layer::stack(create(pairs)?, lower))),
};

/// Appends a suffix to every name on its way down and takes it off on the way up. What lacks it below is hidden.
#[derive(Debug)]
pub struct LongNames {
    suffix: String,
}

impl Layer for LongNames {
    type State = ();

    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn details(&self) -> String {
        format!("suffix={}", self.suffix)
    }

    fn properties(&self) -> Properties {
        Properties { names_untouched: false, ..Properties::TRANSPARENT }
    }

    fn encode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Owned([name.as_bytes(), self.suffix.as_bytes()].concat()))
    }

    fn decode_name<'a>(&self, _: &LayerVnode<Self>, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        let stripped = name.as_bytes().strip_suffix(self.suffix.as_bytes());
        Ok(stripped.filter(|name| !name.is_empty()).map(Cow::Borrowed))
    }

    fn map_statfs(&self, statfs: &mut StatFs) {
        statfs.name_max = statfs.name_max.saturating_sub(self.suffix.len() as u32);
    }
}
