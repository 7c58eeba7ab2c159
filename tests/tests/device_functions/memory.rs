//! Shared memory, `mem` and `ptr`.

use std::fmt::Debug;

use bytemuck::Pod;

use crate::gpu::{Buffer, Gpu, Slice, each_module, with_module};

fn check_reversal<T: Pod + PartialEq + Debug>(gpu: &Gpu, kernel: &str, value: impl Fn(u8) -> T) {
    let mut elements: Vec<T> = (0..64).map(|i| value(3 * i + 1)).collect();
    let data = Buffer::new(&elements);
    gpu.run(kernel, 1, 64, &[&&data]);
    elements.reverse();
    assert_eq!(data.download(), elements, "{kernel} of {}", gpu.name);
}

/// An integer with `byte` in every byte, but for one that differs, so that no part can be lost.
macro_rules! filled {
    ($type:ty) => {
        |byte: u8| <$type>::from_ne_bytes([byte; size_of::<$type>()]) ^ 1
    };
}

#[test]
fn shared_arrays_of_every_size() {
    each_module(|gpu| {
        check_reversal(gpu, "reverse_u8", filled!(u8));
        check_reversal(gpu, "reverse_i8", filled!(i8));
        check_reversal(gpu, "reverse_u16", filled!(u16));
        check_reversal(gpu, "reverse_i16", filled!(i16));
        check_reversal(gpu, "reverse_f16", filled!(u16));
        check_reversal(gpu, "reverse_bf16", filled!(u16));
        check_reversal(gpu, "reverse_u32", filled!(u32));
        check_reversal(gpu, "reverse_i32", filled!(i32));
        check_reversal(gpu, "reverse_f32", |byte| byte as f32 + 0.1);
        check_reversal(gpu, "reverse_u64", filled!(u64));
        check_reversal(gpu, "reverse_i64", filled!(i64));
        check_reversal(gpu, "reverse_f64", |byte| byte as f64 + 0.1);
        check_reversal(gpu, "reverse_u128", filled!(u128));
        for kernel in ["reverse_quad", "reverse_by_words"] {
            check_reversal(gpu, kernel, |byte| [0.0f32, 0.25, 0.5, 0.75].map(|x| x + byte as f32));
        }
    });
}

#[test]
fn dynamic_shared_memory() {
    each_module(|gpu| {
        for threads in [1u32, 100, 1024] {
            let mut elements: Vec<u32> = (0..threads).map(|i| i * i).collect();
            let (data, out) = (Buffer::new(&elements), Buffer::<u32>::zeros(4));
            let bytes = 4 * threads;
            gpu.try_run("dynamic_shared", 1, threads, bytes, &[&&data, &&out]).unwrap();
            elements.reverse();
            assert_eq!(data.download(), elements);
            let [dynamic, fixed, dynamic_size, total_size] = out.download()[..] else {
                unreachable!()
            };
            assert_eq!(dynamic % 1024, 0, "aligned to 1024");
            assert_eq!(fixed % 16, 0, "aligned to 16");
            assert!(fixed + 400 <= dynamic || dynamic + bytes <= fixed, "they don't overlap");
            assert_eq!(dynamic_size, bytes);
            assert!(total_size >= bytes + 400, "{total_size}");
            assert!(total_size <= bytes + 400 + 4096, "{total_size}");
        }
    });
}

/// Leaves in `out` generic addresses in shared, constant and local memory. By hand, because
/// `cuda_builder` refuses modules that make such addresses.
const WINDOWS: &str = "
.version 7.0
.target sm_70
.address_size 64
.shared .align 4 .b8 in_shared[4];
.const .align 4 .b8 in_const[4];
.visible .entry windows(.param .u64 out) {
    .local .align 4 .b8 in_local[4];
    .reg .b64 %a<5>;
    ld.param.u64 %a0, [out];
    mov.u64 %a1, in_shared;
    cvta.shared.u64 %a1, %a1;
    mov.u64 %a2, in_const;
    cvta.const.u64 %a2, %a2;
    mov.u64 %a3, in_local;
    cvta.local.u64 %a3, %a3;
    st.global.u64 [%a0], %a1;
    st.global.u64 [%a0+8], %a2;
    st.global.u64 [%a0+16], %a3;
    ret;
}
";

#[test]
fn address_spaces() {
    each_module(|gpu| {
        let windows = Buffer::<u64>::zeros(3);
        with_module(WINDOWS, |by_hand| by_hand.run("windows", 1, 1, &[&&windows]));
        let windows = windows.download();
        let somewhere = Buffer::new(&[0u64]);
        let addresses = [somewhere.address(), windows[0], windows[1], windows[2]];
        let out = Buffer::<u32>::zeros(16);
        gpu.run("address_spaces", 1, 1, &[&Slice(&Buffer::new(&addresses)), &&out]);
        let found = out.download();
        let [global, shared, constant, local] = [0, 4, 8, 12].map(|i| &found[i..i + 4]);
        assert_eq!((global, shared), (&[1, 0, 0, 0][..], &[0, 1, 0, 0][..]));
        // An H100 (driver 580) says of a constant's generic address that it is not in constant
        // memory; it is in some space.
        assert!(constant == [0, 0, 1, 0] || constant == [1, 0, 0, 0], "{constant:?}");
        assert_eq!(local, [0, 0, 0, 1]);
    });
}
