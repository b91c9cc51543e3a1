//! The layer of the tutorial, `negate`: stores the negative of every byte.

use layers::Kind;
use vnode::layer::{Block, DataShape, Layer, LayerVnode, stack};
use vnode::{Caller, Result};

/// Registration of this layer.
pub const KIND: Kind =
    Kind::over("negate", "stores the negative of every byte", &[], |_, lower| Ok(stack(Negate, lower)));

struct Negate;

impl Layer for Negate {
    type State = ();

    fn kind(&self) -> &'static str {
        "negate"
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape::bytewise())
    }

    fn encode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, plain: &[u8], encoded: &mut [u8]) -> Result<()> {
        encoded.iter_mut().zip(plain).for_each(|(to, from)| *to = from.wrapping_neg());
        Ok(())
    }

    fn decode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, encoded: &[u8], plain: &mut [u8]) -> Result<()> {
        plain.iter_mut().zip(encoded).for_each(|(to, from)| *to = from.wrapping_neg());
        Ok(())
    }
}
