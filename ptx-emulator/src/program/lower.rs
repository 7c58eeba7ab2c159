//! Lowering of a kernel and of the functions that it calls.

use super::builder::{Builder, Shared};
use super::modifiers::bits;
use super::module::{Function, Program};
use super::target::{self, Needs};
use crate::error::{Error, ErrorKind};
use crate::syntax::ast::{self, FunctionKind, Parameter, Statement};

/// Lowers the kernel of that name.
pub(super) fn program(tree: &ast::Module, kernel: &str) -> Result<Program, Error> {
    let entry = tree.functions.iter().find(|function| {
        &*function.name == kernel && function.kind == FunctionKind::Entry && function.body.is_some()
    });
    let Some(entry) = entry else {
        let message = format!("no kernel `{kernel}`");
        return Err(Error { kind: ErrorKind::Invalid, message, at: None });
    };
    if tree.address_size != 64 {
        return Err(Error::unsupported(entry.at, ".address_size 32"));
    }
    check_clusters(tree, entry)?;
    let mut shared = Shared::new(tree, entry.name.clone());
    let mut functions: Vec<Function> = Vec::new();
    while let Some(function) = shared.next_function(functions.len()) {
        functions.push(lower(&mut shared, function)?);
    }
    let (parameters, _) = offsets(&entry.parameters)?;
    let layout = shared.finish(&mut functions);
    Ok(Program {
        functions,
        parameters,
        shared: layout.regions,
        shared_end: layout.end,
        shared_bytes: layout.bytes,
        directives: entry.directives.clone(),
        communicates: layout.communicates,
        orders_blocks: layout.orders_blocks,
        beyond_barriers: layout.beyond_barriers,
    })
}

/// Whether the module's `.target` has the kernel's directives of clusters, and whether
/// `.blocksareclusters` has those that it takes (PTX ISA 11.7, 11.8).
fn check_clusters(tree: &ast::Module, entry: &ast::Function) -> Result<(), Error> {
    let directives = &entry.directives;
    let required = directives.required_cluster.is_some();
    let limited = directives.max_cluster_rank.is_some();
    if required || limited || directives.explicit_cluster || directives.blocks_are_clusters {
        target::need(tree, Needs::From(9, 0), entry.at)?;
    }
    if directives.blocks_are_clusters && !(required && directives.required_threads.is_some()) {
        let message = ".blocksareclusters without .reqnctapercluster and .reqntid";
        return Err(Error::invalid(entry.at, message));
    }
    Ok(())
}

/// Offsets and sizes of parameters laid out one after the other, and where they end.
pub(super) fn offsets(parameters: &[Parameter]) -> Result<(Vec<(u64, u64)>, u64), Error> {
    let mut end = 0u64;
    let mut places = Vec::new();
    for parameter in parameters {
        let element = u64::from(bits(parameter.element) / 8) * u64::from(parameter.vector);
        let Some(count) = parameter.count else {
            return Err(Error::unsupported(parameter.at, "a parameter without a size"));
        };
        let bytes = element.saturating_mul(count);
        if bytes > 1 << 16 || parameter.alignment.is_some_and(|bytes| bytes > 1 << 16) {
            return Err(Error::invalid(
                parameter.at,
                "a parameter, or its alignment, of more than 65536 bytes",
            ));
        }
        let offset = end.next_multiple_of(parameter.alignment.unwrap_or(element).max(1));
        places.push((offset, bytes));
        end = offset + bytes;
    }
    Ok((places, end))
}

/// Lowers one function.
fn lower<'t>(shared: &mut Shared<'t>, function: &'t ast::Function) -> Result<Function, Error> {
    let mut builder = Builder::new(shared, function)?;
    statements(&mut builder, function.body.as_deref().unwrap_or_default())?;
    builder.finish()
}

fn statements<'t>(builder: &mut Builder<'_, 't>, list: &'t [Statement]) -> Result<(), Error> {
    // Names of a block may be used before the statement that declares them: labels are.
    for statement in list {
        builder.declare(statement)?;
    }
    for statement in list {
        match statement {
            Statement::Instruction(instruction) => {
                builder.begin(instruction)?;
                crate::machine::lower(builder, instruction)?;
                builder.end();
            }
            Statement::Label(label) => builder.place(label),
            Statement::Block(list) => {
                builder.open();
                statements(builder, list)?;
                builder.close();
            }
            _ => {}
        }
    }
    Ok(())
}
