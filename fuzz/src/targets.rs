//! All that reads what others wrote.

mod layouts;
mod products;
mod ptx;
mod texts;
mod tunings;

use crate::Target;

/// Every target, in the order in which they run.
pub static ALL: [Target; 10] = [
    texts::NPY,
    texts::NAMES,
    texts::RECORD,
    texts::SUITE,
    ptx::PARSE,
    ptx::RUN,
    layouts::VIEWS,
    layouts::PLANS,
    products::PRODUCTS,
    tunings::TUNING,
];

/// The target of that name.
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
