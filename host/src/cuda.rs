//! CUDA devices.

use crate::backend::Backend;
use crate::error::{Error, Kind};
use std::sync::Arc;

pub(crate) fn device_count() -> Result<usize, Error> {
    Err(Error::new(Kind::NoDevice { ordinal: 0, reason: "this build has no CUDA yet".into() }))
}

pub(crate) fn open(ordinal: usize) -> Result<Arc<dyn Backend>, Error> {
    Err(Error::new(Kind::NoDevice { ordinal, reason: "this build has no CUDA yet".into() }))
}
