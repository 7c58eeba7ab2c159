//! Instructions in all their forms.

use super::super::ast::{Address, Constant, Operand, Statement};
use super::{body, instruction};

fn name(text: &str) -> Operand {
    Operand::Name(text.into())
}

fn integer(value: i64) -> Operand {
    Operand::Constant(Constant::Integer(value))
}

fn address(base: &str, offset: i64) -> Operand {
    Operand::Address(Address { base: Some(base.into()), offset, coordinates: vec![] })
}

/// The operand of an instruction with one.
fn operand(text: &str) -> Operand {
    let instruction = instruction(&format!("op {text};"));
    assert_eq!(instruction.operands.len(), 1, "{text}");
    instruction.operands[0].clone()
}

fn constant(text: &str) -> Constant {
    match operand(text) {
        Operand::Constant(constant) => constant,
        other => panic!("{text} gave {other:?}"),
    }
}

#[test]
fn opcode_and_modifiers() {
    let found = instruction("@!%p1 cp.async.bulk.shared::cluster.2d.L2::128B _;");
    assert_eq!(&*found.opcode, "cp");
    let modifiers: Vec<&str> = found.modifiers.iter().map(|modifier| &**modifier).collect();
    assert_eq!(modifiers, ["async", "bulk", "shared::cluster", "2d", "L2::128B"]);
    let guard = found.guard.expect("a guard");
    assert_eq!((&*guard.register, guard.negated), ("%p1", true));
    assert_eq!((found.at.line, found.at.column), (6, 7));

    let spaced = instruction("ld /* a comment */ .global .u32 %r1, [%rd1];");
    assert_eq!(spaced.modifiers.len(), 2);
    assert_eq!(instruction("ret;").operands, []);
    assert!(!instruction("@p bra L;").guard.expect("a guard").negated);
}

#[test]
fn names_and_components() {
    assert_eq!(operand("%tid.x"), name("%tid.x"));
    assert_eq!(operand("$L__BB0_1"), name("$L__BB0_1"));
    assert_eq!(operand("v.b0"), name("v.b0"));
    assert_eq!(operand("_"), Operand::Sink);
    assert_eq!(operand("!%p1"), Operand::Negated("%p1".into()));
    assert_eq!(operand("table+4"), Operand::NameOffset("table".into(), 4));
    assert_eq!(operand("table - 2*8 + 1"), Operand::NameOffset("table".into(), -15));
    assert_eq!(operand("table[3]"), Operand::Element("table".into(), 3));
    assert_eq!(operand("WARP_SZ"), integer(32));
}

#[test]
fn pairs_vectors_and_lists() {
    let pair = |a, b| Operand::Pair(Box::new((a, b)));
    assert_eq!(operand("%r1|%p1"), pair(name("%r1"), name("%p1")));
    assert_eq!(operand("_|p"), pair(Operand::Sink, name("p")));
    assert_eq!(operand("p|_"), pair(name("p"), Operand::Sink));
    assert_eq!(operand("{%r1, _}"), Operand::Vector(vec![name("%r1"), Operand::Sink]));
    assert_eq!(operand("{}"), Operand::Vector(vec![]));
    let wide = format!("{{{}}}", vec!["%f1"; 128].join(","));
    assert_eq!(operand(&wide), Operand::Vector(vec![name("%f1"); 128]));
    let inner = Operand::Vector(vec![integer(1)]);
    assert_eq!(operand("{{1}, a}"), Operand::Vector(vec![inner, name("a")]));

    let call = instruction("call.uni (ret), f, (a, 1), prototype;");
    let list = |items: &[Operand]| Operand::List(items.to_vec());
    let arguments = list(&[name("a"), integer(1)]);
    assert_eq!(call.operands, [list(&[name("ret")]), name("f"), arguments, name("prototype")]);
    assert_eq!(instruction("call f, ();").operands, [name("f"), list(&[])]);
    assert_eq!(instruction("call f;").operands, [name("f")]);
}

#[test]
fn addresses() {
    assert_eq!(operand("[%rd1]"), address("%rd1", 0));
    assert_eq!(operand("[%rd1+16]"), address("%rd1", 16));
    assert_eq!(operand("[%rd1+-16]"), address("%rd1", -16));
    assert_eq!(operand("[%rd1 - 16]"), address("%rd1", -16));
    assert_eq!(operand("[p+(1+2)*4]"), address("p", 12));
    let plain = Address { base: None, offset: 4096, coordinates: vec![] };
    assert_eq!(operand("[4096]"), Operand::Address(plain));
    let coordinates = vec![Operand::Vector(vec![name("%r1"), integer(0)])];
    let tensor = Address { base: Some("%rd1".into()), offset: 0, coordinates };
    assert_eq!(operand("[%rd1, {%r1, 0}]"), Operand::Address(tensor));
}

#[test]
fn integers() {
    for (text, value) in [
        ("0", 0),
        ("42", 42),
        ("-1", -1),
        ("0x7f", 127),
        ("0xFFFFFFFFFFFFFFFF", -1),
        ("0xffU", 255),
        ("017", 15),
        ("0b101", 5),
        ("5U", 5),
        ("!5", 0),
        ("!0+1", 2),
        ("9223372036854775808", i64::MIN),
        ("-9223372036854775808", i64::MIN),
        ("18446744073709551615", -1),
    ] {
        assert_eq!(constant(text), Constant::Integer(value), "{text}");
    }
}

#[test]
fn floats() {
    assert_eq!(constant("0f3F800000"), Constant::Single(0x3f80_0000));
    assert_eq!(constant("0F7fA00001"), Constant::Single(0x7fa0_0001));
    assert_eq!(constant("-0f3F800000"), Constant::Single(0xbf80_0000));
    assert_eq!(constant("0d3FF0000000000000"), Constant::Double(0x3ff0_0000_0000_0000));
    for (text, value) in
        [("1.5", 1.5), ("1.", 1.0), ("-0.0", -0.0), ("1e3", 1e3), ("2.5E-3", 2.5e-3), ("1e+2", 1e2)]
    {
        assert_eq!(constant(text), Constant::Double(f64::to_bits(value)), "{text}");
    }
    // Directly behind the opcode it would be a modifier.
    let half = instruction("op x, .5;").operands[1].clone();
    assert_eq!(half, Operand::Constant(Constant::Double(f64::to_bits(0.5))));
}

/// The values that ptxas 13.0 gives.
#[test]
fn constant_expressions() {
    for (text, value) in [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("10-3-2", 5),
        ("-7/2", -3),
        ("-7 % 4", 1),
        ("7U/2", 3),
        ("-1>>1", -1),
        ("(.u64)-1>>63", 1),
        ("(.s64)(0U-1)>>63", -1),
        ("1<<70", 64),
        ("1<<4|1", 17),
        ("6&3^1", 3),
        ("~0", -1),
        ("!5", 0),
        ("1?2:3", 2),
        ("0?2:1?4:5", 4),
        ("3>2 && 2>=2", 1),
        ("1==2 || 1!=1", 0),
        ("-1 < 0U", 0),
        ("-1 < 0", 1),
        ("1.5 < 2.0", 1),
    ] {
        // A parenthesis: a name or `!` before it would be an operand's.
        assert_eq!(constant(&format!("({text})")), Constant::Integer(value), "{text}");
    }
    assert_eq!(constant("1.5*2.0+1.0"), Constant::Double(4f64.to_bits()));
}

#[test]
fn labels_blocks_and_lists_of_targets() {
    let statements =
        body("L1:\n{ .reg .pred p; L1: bra L1; }\nts: .branchtargets L1, L2;\nL2: ret;");
    let [
        Statement::Label(first),
        Statement::Block(block),
        Statement::BranchTargets(targets),
        Statement::Label(second),
        Statement::Instruction(_),
    ] = &statements[..]
    else {
        panic!("{statements:?}");
    };
    assert_eq!((&*first.name, first.at.line, first.at.column), ("L1", 6, 1));
    assert_eq!(block.len(), 3);
    assert_eq!(targets.targets, ["L1".into(), "L2".into()]);
    assert_eq!(&*second.name, "L2");

    let statements = body(
        "fs: .calltargets f, g;\n\
         proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]);\n\
         quiet: .callprototype _ .noreturn;",
    );
    let [
        Statement::CallTargets(targets),
        Statement::CallPrototype(prototype),
        Statement::CallPrototype(quiet),
    ] = &statements[..]
    else {
        panic!("{statements:?}");
    };
    assert_eq!(targets.targets.len(), 2);
    assert_eq!((prototype.returns.len(), prototype.parameters.len()), (1, 2));
    assert_eq!(prototype.parameters[1].count, Some(16));
    assert!(quiet.no_return && !prototype.no_return);
}
