//! Variables, registers, parameters and functions.

use super::super::ast::{
    Constant, FunctionKind, Initial, Linkage, Pointer, Space, Statement, Type, Variable,
};
use super::{body, module};

fn variable(text: &str) -> Variable {
    let mut variables = module(text).variables;
    assert_eq!(variables.len(), 1, "{text}");
    variables.remove(0)
}

/// The integers among the initial values, with their places.
fn integers(variable: &Variable) -> Vec<(u64, i64)> {
    let integer = |value: &(u64, Initial)| match value {
        (place, Initial::Constant(Constant::Integer(value))) => (*place, *value),
        other => panic!("{other:?} is not an integer"),
    };
    variable.initial.iter().map(integer).collect()
}

#[test]
fn header() {
    let module = module(".alias a, f;\n.file 1 \"a b.cu\", 12, 34\n.pragma \"nounroll\";");
    assert_eq!(module.version, (8, 0));
    assert_eq!(module.target, ["sm_90a".into()]);
    assert_eq!(module.address_size, 64);
    assert_eq!((&*module.aliases[0].name, &*module.aliases[0].target), ("a", "f"));
}

#[test]
fn module_variables() {
    let shared = variable(".extern .shared .align 1024 .b8 buffer[];");
    assert_eq!((shared.space, shared.linkage), (Space::Shared, Linkage::Extern));
    assert_eq!((shared.alignment, shared.element), (Some(1024), Type::B8));
    assert_eq!((&*shared.name, shared.count), ("buffer", None));
    assert_eq!((shared.at.line, shared.at.column), (4, 33));

    let table = variable(".visible .const .align 4 .b8 t[4] = {1, 0xff, -1};");
    assert_eq!(
        (table.space, table.linkage, table.count),
        (Space::Const, Linkage::Visible, Some(4))
    );
    assert_eq!(integers(&table), [(0, 1), (1, 255), (2, -1)]);

    let scalar = variable(".weak .global .f32 x = 0f3F800000;");
    assert_eq!(scalar.initial, [(0, Initial::Constant(Constant::Single(0x3f80_0000)))]);
    assert_eq!((scalar.count, scalar.vector), (Some(1), 1));

    let vector = variable(".global .v4 .u32 x[2] = {{1, 2}, {3, 4, 5, 6}};");
    assert_eq!((vector.vector, vector.count), (4, Some(2)));
    assert_eq!(integers(&vector), [(0, 1), (1, 2), (4, 3), (5, 4), (6, 5), (7, 6)]);

    assert!(variable(".global .attribute(.managed) .align 4 .u32 x;").managed);
    let two = module(".global .u32 x = 1, y[3];").variables;
    assert_eq!((two[0].count, two[1].count), (Some(1), Some(3)));
}

#[test]
fn arrays_of_arrays() {
    let rows = variable(".global .u32 x[2][3] = {{1}, {2, 3, 4}};");
    assert_eq!(rows.count, Some(6));
    assert_eq!(integers(&rows), [(0, 1), (3, 2), (4, 3), (5, 4)]);
    let open = variable(".global .u32 x[][2] = {{1, 2}, {3}};");
    assert_eq!(open.count, Some(4));
    assert_eq!(variable(".global .u32 x[] = {1, 2, 3};").count, Some(3));
    assert_eq!(variable(".global .v2 .u32 x[] = {{1, 2}, {3}};").count, Some(2));
    let sparse = variable(".global .u8 x[1000000][1000000] = {{1}, {2}};");
    assert_eq!(integers(&sparse), [(0, 1), (1_000_000, 2)]);
}

#[test]
fn initial_addresses() {
    let initial = |text: &str| {
        let variable = variable(&format!(".global .u64 x[1] = {{{text}}};"));
        variable.initial[0].1.clone()
    };
    let address =
        |generic, offset, mask| Initial::Address { name: "y".into(), generic, offset, mask };
    assert_eq!(initial("y"), address(false, 0, None));
    assert_eq!(initial("y+8"), address(false, 8, None));
    assert_eq!(initial("generic(y)-8"), address(true, -8, None));
    assert_eq!(initial("0xFF00(y)"), address(false, 0, Some(0xff00)));
    assert_eq!(initial("0xFF(generic(y)+1)"), address(true, 1, Some(0xff)));
    assert_eq!(initial("2*(3+4)"), Initial::Constant(Constant::Integer(14)));
    assert_eq!(initial("1 ? 2 : 3"), Initial::Constant(Constant::Integer(2)));
}

#[test]
fn kernels() {
    let module = module(
        ".visible .entry k(\n\
         .param .u64 .ptr .global .align 16 a,\n\
         .param .u64 .ptr b,\n\
         .param .align 8 .b8 c[96],\n\
         .param .v2 .f32 d\n\
         )\n\
         .maxntid 128, 2\n.minnctapersm 2\n.maxnreg 64\n.reqnctapercluster 2\n.explicitcluster\n\
         .maxclusterrank 8\n.blocksareclusters\n.reqntid 32,1,1\n.pragma \"nounroll\";\n{ ret; }",
    );
    let kernel = &module.functions[0];
    assert_eq!((kernel.kind, kernel.linkage), (FunctionKind::Entry, Linkage::Visible));
    let [a, b, c, d] = &kernel.parameters[..] else {
        panic!("{:?}", kernel.parameters);
    };
    assert_eq!(a.pointer, Some(Pointer { space: Some(Space::Global), alignment: 16 }));
    assert_eq!(b.pointer, Some(Pointer { space: None, alignment: 4 }));
    assert_eq!((c.count, c.alignment, c.pointer), (Some(96), Some(8), None));
    assert_eq!((d.vector, d.element, d.at.line), (2, Type::F32, 8));
    let directives = &kernel.directives;
    assert_eq!(directives.max_threads, Some([128, 2, 1]));
    assert_eq!(directives.required_threads, Some([32, 1, 1]));
    assert_eq!(directives.required_cluster, Some([2, 1, 1]));
    assert_eq!((directives.min_blocks, directives.max_registers), (Some(2), Some(64)));
    assert_eq!(directives.max_cluster_rank, Some(8));
    assert!(directives.explicit_cluster && directives.blocks_are_clusters);
    assert!(!directives.no_return);
}

#[test]
fn device_functions() {
    let module = module(
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n\
         .func (.reg .b32 r) f (.reg .b32 a) { mov.b32 r, a; ret; }\n\
         .visible .func g .noreturn;\n\
         .func .attribute(.unified(0xAB, 0xCD)) h() .abi_preserve 8 { trap; }",
    );
    let [vprintf, f, g, h] = &module.functions[..] else {
        panic!("{:?}", module.functions);
    };
    assert_eq!((vprintf.kind, vprintf.linkage), (FunctionKind::Device, Linkage::Extern));
    assert!(vprintf.body.is_none() && g.body.is_none());
    assert_eq!((vprintf.returns.len(), vprintf.parameters.len()), (1, 2));
    assert_eq!((f.returns[0].space, f.parameters[0].space), (Space::Reg, Space::Reg));
    assert_eq!(f.body.as_ref().map(Vec::len), Some(2));
    assert!(g.directives.no_return);
    assert_eq!(&*h.name, "h");
}

#[test]
fn declarations_in_bodies() {
    let statements = body(
        ".reg .b32 %r<12>, x;\n.reg .v4 .f32 v;\n.shared .align 16 .f32 tile[4][8];\n\
         .param .b64 p;\n.loc 1 2 3, function_name $L+4, inlined_at 1 2 3\n.pragma \"nounroll\";",
    );
    let [
        Statement::Registers(first),
        Statement::Registers(second),
        Statement::Variable(tile),
        Statement::Variable(parameter),
    ] = &statements[..]
    else {
        panic!("{statements:?}");
    };
    assert_eq!((&*first.names[0].name, first.names[0].count), ("%r", Some(12)));
    assert_eq!((&*first.names[1].name, first.names[1].count), ("x", None));
    assert_eq!((first.element, second.element, second.vector), (Type::B32, Type::F32, 4));
    assert_eq!((tile.space, tile.count, tile.alignment), (Space::Shared, Some(32), Some(16)));
    assert_eq!(parameter.space, Space::Param);
}

#[test]
fn debugging_sections_are_skipped() {
    let module = module(
        ".section .debug_abbrev\n{\n.b8 1 // a comment\n.b32 .debug_info+4\n$L: .b64 $L - $M\n}\n\
         .global .u32 x;",
    );
    assert_eq!(module.variables.len(), 1);
}

#[test]
fn a_module_goes_between_threads() {
    fn sent<T: Send + Sync>(_: &T) {}
    sent(&module(""));
}
