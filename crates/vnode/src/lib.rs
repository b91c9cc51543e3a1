//! The vnode interface: what every base, layer and front end of Plyfs speaks.
