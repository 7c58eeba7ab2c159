//! Tests of the parser: by form, by whole files, by errors, and by noise.

mod declarations;
mod errors;
mod files;
mod fuzz;
mod operands;

use super::ast::{Instruction, Module, Statement};
use super::parse;

/// A module with this in it.
fn module(items: &str) -> Module {
    parse(&module_text(items)).unwrap_or_else(|error| panic!("{error}: {items}"))
}

fn module_text(items: &str) -> String {
    format!(".version 8.0\n.target sm_90a\n.address_size 64\n{items}\n")
}

/// The statements of a kernel with this in it.
fn body(statements: &str) -> Vec<Statement> {
    let mut module = module(&format!(".entry f()\n{{\n{statements}\n}}"));
    module.functions.pop().and_then(|function| function.body).expect("the kernel has a body")
}

fn instruction(text: &str) -> Instruction {
    match &body(text)[..] {
        [Statement::Instruction(instruction)] => instruction.clone(),
        other => panic!("{text} gave {other:?}"),
    }
}
