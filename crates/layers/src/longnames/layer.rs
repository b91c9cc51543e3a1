//! The layer `longnames`: adds the suffix to names on the way down and strips it on the way up.

use std::borrow::Cow;

use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, Name, Promises, Result, StatFs};

use super::options::NAME;

/// Appends a suffix to every name on its way down and strips it on the way up. Lower names without the suffix are
/// hidden.
#[derive(Debug)]
pub struct LongNames {
    pub(crate) suffix: String,
}

impl Layer for LongNames {
    type State = ();

    fn kind(&self) -> &'static str {
        NAME
    }

    fn details(&self) -> String {
        format!("suffix={}", self.suffix)
    }

    fn promises(&self) -> Promises {
        Promises { names_untouched: false, ..Promises::TRANSPARENT }
    }

    fn encode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        Ok(Cow::Owned([name.as_bytes(), self.suffix.as_bytes()].concat()))
    }

    fn decode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        let stripped = name.as_bytes().strip_suffix(self.suffix.as_bytes());
        Ok(stripped.filter(|name| !name.is_empty()).map(Cow::Borrowed))
    }

    fn map_statfs(&self, statfs: &mut StatFs) {
        statfs.name_max = statfs.name_max.saturating_sub(self.suffix.len() as u32);
    }
}
