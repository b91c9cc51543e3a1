//! The FUSE protocol: its bytes (`wire`), requests and replies as types, and which features kernel and front end agree on.

pub(crate) mod agreement;
pub(crate) mod convert;
pub(crate) mod features;
pub(crate) mod kernel_offer;
pub(crate) mod negotiation;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod wire;
