//! Small things that are allowed and rarely written.

use ptx_emulator::{Argument, Emulator, Launch, Module, Options};

/// The words that a kernel of one thread writes from `%rd1` on.
fn words<const N: usize>(declarations: &str, body: &str) -> [u32; N] {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{declarations}
         .visible .entry f(.param .u64 words) {{
         .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 8 .b64 barrier;
         ld.param.u64 %rd1, [words]; {body} ret; }}"
    );
    let module = Module::parse(&text).unwrap();
    let mut gpu = Emulator::new(Options::default());
    let words = gpu.allocate(4 * N as u64).unwrap();
    let done = gpu.launch(&module, "f", &Launch::new(1, 1), &[Argument::from(words)]);
    done.unwrap_or_else(|report| panic!("{report}\n{text}"));
    let mut bytes = vec![0; 4 * N];
    gpu.read(words, &mut bytes).unwrap();
    std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()))
}

/// 0 bytes are as good as any number (libcu++, `cuda::device::barrier_expect_tx`).
#[test]
fn a_phase_may_expect_no_bytes() {
    for arrive in [
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [barrier], 0;
         mbarrier.arrive.shared.b64 _, [barrier];",
        "mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 0;",
        "mbarrier.arrive.expect_tx.shared.b64 %rd2, [barrier], %r0;",
    ] {
        let body = format!(
            "mov.u32 %r0, 0; mbarrier.init.shared.b64 [barrier], 1; {arrive}
             mbarrier.test_wait.parity.shared.b64 %p, [barrier], 0;
             selp.u32 %r1, 1, 0, %p; st.global.u32 [%rd1], %r1;"
        );
        assert_eq!(words("", &body), [1], "{arrive}");
    }
}

/// The halves of the time are those of the whole.
#[test]
fn clocks_have_two_halves() {
    let body = "mov.u32 %r1, %clock_hi; mov.u32 %r2, %globaltimer_hi; mov.u32 %r3, %clock;
         mov.u64 %rd2, %clock64; cvt.u32.u64 %r4, %rd2; setp.gt.u32 %p, %r4, %r3;
         selp.u32 %r4, 1, 0, %p;
         st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r2; st.global.u32 [%rd1+8], %r4;";
    assert_eq!(words("", body), [0, 0, 1]);
}

#[test]
fn spaces_of_generic_addresses() {
    let variables = ".const .align 4 .b32 c[4] = {1, 2, 3, 4}; .global .align 4 .b32 g;";
    let test = |address: &str, space: &str, place: usize| {
        format!(
            "mov.u64 %rd2, {address}; isspacep.{space} %p, %rd2; selp.u32 %r1, 1, 0, %p;
             st.global.u32 [%rd1+{}], %r1;",
            4 * place
        )
    };
    let body: String = [("c", "const"), ("c", "global"), ("g", "const"), ("g", "global")]
        .into_iter()
        .chain([("c+15", "const"), ("0", "const"), ("0x100000000000010", "const")])
        .enumerate()
        .map(|(place, (address, space))| test(address, space, place))
        .collect();
    assert_eq!(words(variables, &body), [1, 0, 0, 1, 1, 0, 0]);
}

#[test]
fn local_variables_are_aligned_as_they_say() {
    for alignment in [1, 4, 16, 32, 64, 256, 1024] {
        let body = format!(
            ".local .b8 first; .local .align {alignment} .b8 second[{alignment}];
             mov.u64 %rd2, second; cvt.u32.u64 %r1, %rd2; and.b32 %r1, %r1, {};
             cvta.local.u64 %rd2, %rd2; cvt.u32.u64 %r2, %rd2; and.b32 %r2, %r2, {};
             st.global.v2.u32 [%rd1], {{%r1, %r2}};",
            alignment - 1,
            alignment - 1,
        );
        assert_eq!(words("", &body), [0, 0], "{alignment}");
    }
}

#[test]
fn functions_align_their_local_variables() {
    let function = ".func (.param .b32 out) g() { .reg .b64 %a; .reg .b32 %b;
        .local .align 128 .b8 x[128]; mov.u64 %a, x; cvt.u32.u64 %b, %a;
        st.param.b32 [out], %b; ret; }";
    let body = ".local .b8 x[40]; .param .b32 out; call (out), g; ld.param.b32 %r1, [out];
        and.b32 %r1, %r1, 127; st.global.u32 [%rd1], %r1;";
    assert_eq!(words(function, body), [0]);
}

/// Also where another kernel had the memory that registers are in, and on a way past what writes.
#[test]
fn a_register_that_nothing_has_written_is_zero() {
    let dirty = (0..9).map(|i| format!("mov.u32 %r{i}, 7; mov.u64 %rd{i}, %rd1; "));
    let dirty = dirty.collect::<String>() + "st.global.u32 [%rd1], %r5;";
    let clean = "setp.eq.u64 %p, %rd1, 0; @%p mov.u32 %r5, 3; @%p bra past; add.u32 %r6, %r4, 1;
         past: st.global.u32 [%rd1], %r5; st.global.u32 [%rd1+4], %r6;";
    for _ in 0..3 {
        assert_eq!(words("", &dirty), [7]);
        assert_eq!(words("", clean), [0, 1]);
    }
}
